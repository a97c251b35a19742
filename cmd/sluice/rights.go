package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
)

// lookRights returns the commands that inspect, top and verify send besides those that the scripts read with.
func lookRights() []string {
	return []string{
		"ping", "evalsha_ro", "scan", "dbsize", "exists", "type", "pttl", "pexpiretime", "memory|usage", "object|encoding",
		"time", "info", "script|exists",
	}
}

// probesOf returns the commands with which a script reads, and those that inspect reads the same keys with: GETRANGE
// of a gcra, because the key may hold something large, and the length of a list.
func probesOf(reads []string) []string {
	for read, more := range map[string]string{"get": "getrange", "lindex": "llen"} {
		if slices.Contains(reads, read) {
			reads = append(reads, more)
		}
	}
	return reads
}

// rightsOf returns the rules for a user who runs a command that only reads, or nil for other commands. The keys are
// those with the prefix, for reading only.
func rightsOf(command, prefix string, cluster bool) []string {
	var commands []string
	switch command {
	case "inspect", "top":
		commands = append(lookRights(), readsOf(sluice.All())...)
	case "verify":
		commands = []string{"ping", "info", "script|exists"}
	default:
		return nil
	}
	if cluster {
		commands = append(commands, "cluster|nodes", "cluster|slots")
	}
	slices.Sort(commands)
	var rules []string
	if command != "verify" {
		rules = append(rules, "%R~"+prefix+":*")
	}
	for _, name := range slices.Compact(commands) {
		rules = append(rules, "+"+name)
	}
	return rules
}

// rightsCure returns what to do when a user may not do what a command needs.
func rightsCure(command, prefix string, cluster bool) string {
	return "ACL SETUSER <name> " + strings.Join(rightsOf(command, prefix, cluster), " ")
}

// rightsError is an error of a user with too few rights, and the cure for the command.
type rightsError struct {
	error
	cure string
}

func (e *rightsError) Unwrap() error { return e.error }

// withRights adds to an error the rights that a command needs, if a right is missing.
func withRights(err error, cure string) error {
	if err == nil || !strings.Contains(err.Error(), "NOPERM") {
		return err
	}
	return &rightsError{err, cure}
}

// rightsIn returns the rights that an error carries, or "".
func rightsIn(err error) string {
	if rights, ok := errors.AsType[*rightsError](err); ok {
		return rights.cure
	}
	return ""
}
