// Package stored reads what the scripts of Sluice store, as their headers lay it out, by commands that
// only read. No answer costs a server more than a few hundred short commands, however much a key holds.
package stored

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
)

// Key is the key of a limiter, taken apart: <prefix>:<limiter>:{<subject>}:<code>[:<part>]...
type Key struct {
	Text    string // the key itself
	Prefix  string
	Limiter string
	Subject string   // as the caller named it, %XX read back
	Code    string   // "ll1": the script and the number of its layout
	Parts   []string // the slice, and the age of leases, of sr1; "all", or "by" and the client, of tb1
}

// ParseKey takes a key apart. It reports false for a key that no script of ours has.
func ParseKey(text string) (Key, bool) {
	head, rest, found := strings.Cut(text, ":{")
	prefix, limiter, found2 := strings.Cut(head, ":")
	subject, tail, found3 := strings.Cut(rest, "}:")
	parts := strings.Split(tail, ":")
	k := Key{
		Text: text, Prefix: prefix, Limiter: limiter, Subject: unescape.Replace(subject),
		Code: parts[0], Parts: parts[1:],
	}
	k.Parts = partsOf(k.Parts)
	return k, found && found2 && found3 && subject != "" && probeOf(k) != nil
}

// KeyOf is a key that a script works on, whatever its name looks like. One of token_bucket that ends in ":all",
// or holds ":by:" and a client, is of permits.
func KeyOf(script sluice.Script, text string) Key {
	if key, ok := ParseKey(text); ok && key.Code == CodeOf(script) {
		return key
	}
	key := Key{Text: text, Code: CodeOf(script)}
	if key.Code != tokenBucket {
		return key
	}
	if client, found := strings.CutPrefix(text[byClient(text):], ":by:"); found {
		key.Parts = partsOf([]string{"by", client})
	} else if strings.HasSuffix(text, ":all") {
		key.Parts = []string{"all"}
	}
	return key
}

// partsOf reads back what stands behind the code; the name of a client may hold colons.
func partsOf(parts []string) []string {
	if len(parts) > 2 && parts[0] == "by" {
		parts = []string{"by", strings.Join(parts[1:], ":")}
	}
	for i := range parts {
		parts[i] = unescape.Replace(parts[i])
	}
	return parts
}

const (
	// tokenBucket is the code of the only layout with several keys: a config, and permits in those with parts.
	tokenBucket = "tb1"
	sliceRing   = "sr1"
)

// Client is the one whose permits these are, "" where all share them.
func (k Key) Client() string {
	if len(k.Parts) == 2 && k.Parts[0] == "by" {
		return k.Parts[1]
	}
	return ""
}

// IsRing reports whether the key holds a ring of slices.
func (k Key) IsRing() bool { return k.Code == sliceRing }

// LeaseAge is how long after they were counted the permits of a ring may be spent, in microseconds; 0 for one
// without leases, and where the key does not tell.
func (k Key) LeaseAge() int64 {
	if !k.IsRing() || len(k.Parts) != 2 {
		return 0
	}
	age, _ := strconv.ParseInt(k.Parts[1], 10, 64)
	return age
}

// IsConfig reports whether the key holds a rate, and the permits are in others.
func (k Key) IsConfig() bool { return k.Code == tokenBucket && len(k.Parts) == 0 }

// Config is the key that holds the rate of these permits. It is the first of a call, as is the key itself
// for every other layout.
func (k Key) Config() Key {
	if k.Code != tokenBucket || len(k.Parts) == 0 {
		return k
	}
	config := k
	config.Parts = nil
	config.Text = strings.TrimSuffix(k.Text[:byClient(k.Text)], ":all")
	return config
}

// With is the key of a config's permits.
func (k Key) With(parts ...string) Key {
	k.Text += ":" + strings.Join(parts, ":")
	k.Parts = partsOf(slices.Clone(parts))
	return k
}

// byClient is where in a key the client begins, or where the key ends. A subject may hold anything but braces.
func byClient(text string) int {
	subject := strings.LastIndex(text, "}") + 1
	if at := strings.Index(text[subject:], ":by:"); at >= 0 {
		return subject + at
	}
	return len(text)
}

var unescape = strings.NewReplacer("%7B", "{", "%7D", "}", "%25", "%")

// Script is the newest script that decides by what the key holds.
func (k Key) Script() (newest sluice.Script, found bool) {
	for _, script := range sluice.All() {
		if CodeOf(script) == k.Code && Decides(script) && script.Version >= newest.Version {
			newest, found = script, true
		}
	}
	return newest, found
}

// Decides reports whether a script grants permits. The others set configs or give permits back.
func Decides(script sluice.Script) bool {
	return slices.ContainsFunc(script.Reply, func(field sluice.Field) bool { return field.Name == "granted" })
}

// CodeOf is what stands in the keys of a script behind the subject: "ll1".
func CodeOf(script sluice.Script) string {
	_, tail, _ := strings.Cut(script.Keys[0].Pattern, "}:")
	code, _, _ := strings.Cut(tail, ":")
	return code
}
