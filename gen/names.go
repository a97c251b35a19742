package main

import (
	"fmt"
	"strings"
)

// names builds every Go name for a script and for the words of its header.
type names struct{ script *script }

func (n names) Script() string { return camel(n.script.Name) + fmt.Sprintf("V%d", n.script.Version) }

func (n names) SHA1() string { return n.Script() + "SHA1" }

func (n names) Args() string { return n.Script() + "Args" }

func (n names) Reply() string { return n.Script() + "Reply" }

// Group is the type of a pair of arguments.
func (n names) Group() string { return n.Script() + camel(n.script.Group.Name) }

// KeyGroup is the type of the reply for one of many keys, and KeyGroups the field with all of them.
func (n names) KeyGroup() string { return n.Script() + camel(n.script.KeyGroup.Name) }

func (n names) KeyGroups() string { return camel(n.script.KeyGroup.Name) + "s" }

// Groups is the field with all pairs.
func (n names) Groups() string { return camel(n.script.Group.Name) + "s" }

// Source is the unexported variable with the script's text.
func (n names) Source() string {
	first, rest, _ := strings.Cut(n.script.Name, "_")
	return first + camel(rest) + fmt.Sprintf("V%dSource", n.script.Version)
}

func (n names) Key(k key) string {
	if k.Repeated {
		return camel(k.Name) + "s"
	}
	return camel(k.Name)
}

// Field is the name of an argument or a reply in its struct.
func (n names) Field(f field) string { return camel(strings.TrimSuffix(f.Name, "_i")) }

// Fields is the name of a reply that is repeated.
func (n names) Fields(f field) string { return n.Field(f) + "s" }

func (n names) Type(f field) string {
	switch f.Type {
	case "us":
		return "time.Duration"
	case "time":
		return "time.Time"
	case "str":
		return "string"
	}
	return "int64"
}

// camel turns a name of a header into an exported Go name.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		switch word {
		case "":
		case "gcra", "id", "ttl":
			b.WriteString(strings.ToUpper(word))
		case "zset":
			b.WriteString("ZSet")
		default:
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
