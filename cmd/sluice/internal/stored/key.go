// Package stored reads the state of the scripts, in the layouts that their headers describe. It sends only reading
// commands. Reading one key takes a few hundred short commands at most, however large the key is.
package stored

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// Key is a limiter's key in parts: <prefix>:<limiter>:{<subject>}:<code>[:<part>]...
type Key struct {
	Text    string // the whole key
	Prefix  string
	Limiter string
	Subject string   // as the caller named it, with %XX decoded
	Code    string   // script and layout number, such as "ll1"
	Parts   []string // tb1: "all", or "by" and the client; sr1: slice and size of the window, "300000x201"
}

// ParseKey parses a key. It returns false if none of our scripts has such keys.
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

// partsOf decodes the parts after the code. A client's name may contain colons.
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
	// tokenBucket is the code of the only layout with several keys: a config, and keys with parts that hold permits.
	tokenBucket = "tb1"
	sliceRing   = "sr1"
	budgetID    = "bg1"
)

// Client returns the client whose permits the key holds, or "" if all clients share them.
func (k Key) Client() string {
	if len(k.Parts) == 2 && k.Parts[0] == "by" {
		return k.Parts[1]
	}
	return ""
}

// IsRing reports whether the key holds a ring of slices.
func (k Key) IsRing() bool { return k.Code == sliceRing }

// Window returns the length of a slice in microseconds, and the number of slices, of the window in a ring's key.
func (k Key) Window() (slice, size int64, ok bool) {
	if len(k.Parts) != 1 {
		return 0, 0, false
	}
	first, second, _ := strings.Cut(k.Parts[0], "x")
	slice, badSlice := strconv.ParseInt(first, 10, 64)
	size, badSize := strconv.ParseInt(second, 10, 64)
	exact := fmt.Sprintf("%dx%d", slice, size) == k.Parts[0]
	return slice, size, badSlice == nil && badSize == nil && exact && slice >= 1000 && slice <= 86_400_000_000 &&
		size >= 1 && size <= 1000
}

// IsID reports whether the key holds what a budget was charged for one of its ids. ParseKey returns it with false: it
// is not a limiter of its own, the ring is.
func (k Key) IsID() bool { return k.Code == budgetID }

// IsConfig reports whether the key holds only a rate. Its permits are in other keys.
func (k Key) IsConfig() bool { return k.Code == tokenBucket && len(k.Parts) == 0 }

// Config returns the first key of a call: the key of the config for token_bucket, the key itself for other layouts.
func (k Key) Config() Key {
	if k.Code != tokenBucket || len(k.Parts) == 0 {
		return k
	}
	config := k
	config.Parts = nil
	config.Text = strings.TrimSuffix(k.Text[:byClient(k.Text)], ":all")
	return config
}

// Known returns the keys of a subject whose names are known without a search: all but those with a client or an ID in
// them, and rings whose windows are not given or whose slices are not of the usual length. begin is a key up to its
// code.
func Known(begin string, windows []time.Duration) (keys []string) {
	states := []string{tokenBucket + ":all"}
	for _, script := range sluice.All() {
		states = append(states, CodeOf(script))
	}
	for _, window := range windows {
		us := window.Microseconds()
		slice := min(max((us+199)/200, 1000), 86_400_000_000)
		states = append(states, fmt.Sprintf("%s:%dx%d", sliceRing, slice, (us+slice-1)/slice+1))
	}
	slices.Sort(states)
	for _, state := range slices.Compact(states) {
		if _, ok := ParseKey(begin + state); ok {
			keys = append(keys, begin+state)
		}
	}
	return keys
}

// byClient returns the index of the client in a key, or the key's length. A subject cannot contain braces.
func byClient(text string) int {
	subject := strings.LastIndex(text, "}") + 1
	if at := strings.Index(text[subject:], ":by:"); at >= 0 {
		return subject + at
	}
	return len(text)
}

var unescape = strings.NewReplacer("%7B", "{", "%7D", "}", "%25", "%")

// Script returns the newest script that decides by the key alone.
func (k Key) Script() (newest sluice.Script, found bool) {
	for _, script := range sluice.All() {
		if Limits(script) && CodeOf(script) == k.Code && script.Version >= newest.Version {
			newest, found = script, true
		}
	}
	return newest, found
}

// Limits reports whether a script decides by keys of its own. budget decides by the ring of slice_ring.
func Limits(script sluice.Script) bool {
	another := func(key sluice.Key) bool { return codeOf(key) != CodeOf(script) }
	return Decides(script) && !slices.ContainsFunc(script.Keys, another)
}

// Decides reports whether a script grants permits to one subject. Other scripts set configs, give permits back, or
// decide about many subjects.
func Decides(script sluice.Script) bool {
	grants := func(field sluice.Field) bool { return field.Name == "granted" }
	return script.KeyGroup == nil && slices.ContainsFunc(script.Reply, grants)
}

// CodeOf returns the part of a script's first key after the subject, such as "ll1".
func CodeOf(script sluice.Script) string { return codeOf(script.Keys[0]) }

func codeOf(key sluice.Key) string {
	_, tail, _ := strings.Cut(key.Pattern, "}:")
	code, _, _ := strings.Cut(tail, ":")
	return code
}
