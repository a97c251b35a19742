package lua51

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// commandsText is what COMMAND of Redis 7.0.15 says, a line a command and subcommand: name, arity, and
// those of the flags write and noscript that it has.
//
//go:embed commands.txt
var commandsText string

type spec struct {
	name     string
	arity    int // the number of words, the name included; negative: at least so many
	write    bool
	noScript bool
}

var commandTable = sync.OnceValue(func() map[string]spec {
	table := map[string]spec{}
	for line := range strings.Lines(commandsText) {
		words := strings.Fields(line)
		s := spec{name: words[0]}
		s.arity, _ = strconv.Atoi(words[1])
		for _, flag := range words[2:] {
			s.write = s.write || flag == "write"
			s.noScript = s.noScript || flag == "noscript"
		}
		table[s.name] = s
	}
	return table
})

var containers = sync.OnceValue(func() map[string]bool {
	found := map[string]bool{}
	for name := range commandTable() {
		if container, _, ok := strings.Cut(name, "|"); ok {
			found[container] = true
		}
	}
	return found
})

// lookUp finds the command that words call; for one with subcommands that is the subcommand.
func lookUp(words []string) (spec, bool) {
	name := strings.ToLower(words[0])
	if containers()[name] && len(words) > 1 {
		name += "|" + strings.ToLower(words[1])
	}
	s, ok := commandTable()[name]
	return s, ok
}

func (s spec) takes(words int) bool {
	if s.arity < 0 {
		return words >= -s.arity
	}
	return words == s.arity
}
