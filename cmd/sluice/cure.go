package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/loader"
)

// cureFor returns what to do about an error, or "" if nothing more can be said.
func cureFor(err error) string {
	if errors.Is(err, errMayBeSet) {
		return "it is safe to run the same command again"
	}
	if errors.Is(err, errNoBucket) {
		return "give the subject an override in the policy file, until a time (docs/policy.md); sluice reset unblocks it " +
			"once. A token_bucket that has granted nothing yet wants --new"
	}
	if errors.Is(err, loader.ErrNotLoaded) {
		return dial.Cure(err)
	}
	if rights, ok := errors.AsType[*rightsError](err); ok {
		return rights.cure
	}
	for _, cure := range cures() {
		if strings.Contains(err.Error(), cure.word) {
			return cure.text
		}
	}
	return dial.Cure(err)
}

// errorCure says what to do about errors that contain a text.
type errorCure struct{ word, text string }

func cures() []errorCure {
	return []errorCure{
		{"NOAUTH", "give the password: redis://:password@host:port, or REDISCLI_AUTH in the environment"},
		{"WRONGPASS", "check user and password in the URL, or REDISCLI_AUTH in the environment"},
		{"WRONGTYPE", "choose another subject; or find out with TYPE <key> what the key is for, and remove it with UNLINK"},
		{"BADSTATE", "choose another subject; or remove the key and the permits in use with UNLINK"},
		{"modifier '%R~", "the user -look needs Redis 7: name a server of that version, or use only the first two users"},
		{errNoSentinel.Error(), "the server is not a sentinel: name the sentinels after the @, or use --redis"},
		{"unknown command 'evalsha'", "take a server that runs Lua, or take its rename-command of EVALSHA back"},
		{"unknown command", "the server is too old, or an administrator has renamed the command"},
	}
}

// lookRights returns the commands that inspect, top and verify send besides those that the scripts read with.
func lookRights() []string {
	return []string{
		"ping", "evalsha_ro", "scan", "dbsize", "exists", "pttl", "pexpiretime", "memory|usage", "time", "info",
		"script|exists",
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

// rightsCure returns the rules for a user who may not do what a command needs, one that only reads: inspect, top or
// verify. The keys are those with the prefix, for reading only.
func rightsCure(command, prefix string, cluster bool) string {
	commands := append(lookRights(), readsOf(sluice.All())...)
	keys := "%R~" + prefix + ":* "
	if command == "verify" {
		commands, keys = []string{"ping", "info", "script|exists"}, ""
	}
	if cluster {
		commands = append(commands, "cluster|nodes", "cluster|slots")
	}
	slices.Sort(commands)
	return "ACL SETUSER <name> " + keys + "+" + strings.Join(slices.Compact(commands), " +")
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
