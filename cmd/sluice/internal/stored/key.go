// Package stored reads what the scripts of Sluice store, as their headers lay it out, by commands that
// only read. No answer costs a server more than a few hundred short commands, however much a key holds.
package stored

import (
	"slices"
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
	Parts   []string // the slice of sr1; "all", or "by" and the client, of tb1
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
	for i := range k.Parts {
		k.Parts[i] = unescape.Replace(k.Parts[i])
	}
	_, known := k.Script()
	return k, found && found2 && found3 && known && subject != ""
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

// Decides reports whether a script grants permits. The others set configs.
func Decides(script sluice.Script) bool {
	return slices.ContainsFunc(script.Args, func(arg sluice.Field) bool { return arg.Name == "permits" })
}

// CodeOf is what stands in the keys of a script behind the subject: "ll1".
func CodeOf(script sluice.Script) string {
	_, tail, _ := strings.Cut(script.Keys[0].Pattern, "}:")
	code, _, _ := strings.Cut(tail, ":")
	return code
}
