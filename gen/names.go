package main

import (
	"fmt"
	"strings"
)

// names builds the Go names of a script.
type names struct{ script *script }

func (n names) Script() string { return camel(n.script.Name) + fmt.Sprintf("V%d", n.script.Version) }

func (n names) SHA1() string { return n.Script() + "SHA1" }

// Source is the unexported variable with the script's text.
func (n names) Source() string {
	first, rest, _ := strings.Cut(n.script.Name, "_")
	return first + camel(rest) + fmt.Sprintf("V%dSource", n.script.Version)
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
