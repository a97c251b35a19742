package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/internal/rights"
	"github.com/sluice-redis/sluice/loader"
)

// aclFlags are the flags of acl.
type aclFlags struct {
	name, prefix       string
	functions, cluster bool
	client             rights.Client
	format             string
}

func parseACL(args []string) (aclFlags, []sluice.Script, error) {
	var f aclFlags
	flags := newFlags("acl")
	flags.StringVar(&f.name, "name", "sluice", "")
	flags.StringVar(&f.prefix, "prefix", "sluice", "")
	flags.BoolVar(&f.functions, "functions", false, "")
	flags.BoolVar(&f.cluster, "cluster", false, "")
	f.client = rights.Clients()[0]
	flags.Func("client", "", f.setClient)
	flags.StringVar(&f.format, "format", "commands", "")
	names, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, nil, err
	case f.format != "commands" && f.format != "aclfile":
		return f, nil, usagef("--format is %s: want commands or aclfile", given(f.format))
	case !dial.IsName(f.name):
		return f, nil, usagef("--name is %s: want letters, digits, dot, underscore and dash", given(f.name))
	}
	if _, err := loader.Key(f.prefix, "limiter", "subject", "state"); err != nil {
		return f, nil, usagef("--prefix is %s: want letters, digits, dot, underscore and dash", given(f.prefix))
	}
	scripts, err := findScripts(names)
	return f, scripts, err
}

// setClient takes the name of a client library.
func (f *aclFlags) setClient(name string) error {
	var names []string
	for _, client := range rights.Clients() {
		if client.Name == name {
			f.client = client
			return nil
		}
		names = append(names, client.Name)
	}
	return errors.New("want " + strings.Join(names, ", "))
}

func (a app) acl(_ context.Context, args []string) error {
	f, scripts, err := parseACL(args)
	if err != nil {
		return err
	}
	out, notes := newScreen(a.stdout), screen{w: a.stderr} // standard output goes to redis-cli or into an aclfile
	notes.printf("note: replace %s by #hash, or in a command by >password\n", noHash)
	notes.printf("warning: if user default is on without a password, every client may do\n" +
		"everything, whatever these users may: see ACL LIST\n")
	notes.printf("%s", safe(loadNote))
	for _, user := range f.users(scripts) {
		out.printf("%s\n", safe(user.line(f.format))) // not cut: name and prefix were checked, the rest is ours
	}
	return nil
}

// loadNote says what applications need after a restart, because the -use user may not load scripts.
const loadNote = "note: after each restart of Redis run sluice load before the applications,\n" +
	"or give the -use user +script|load\n"

// noHash is the placeholder for an unknown hash. Servers refuse it.
const noHash = "#SHA256-OF-ITS-PASSWORD"

// aclUser is a Redis user with its rights.
type aclUser struct {
	name     string
	hash     string   // of its password, "#<64 hexadecimal digits>"
	keys     string   // a key pattern, "" for none
	commands []string // in lower case, container|subcommand
}

// rules returns the arguments of ACL SETUSER. They begin with a reset, so that earlier rights are removed.
func (u aclUser) rules() []string {
	rules := []string{"reset", "on", u.hash, "resetchannels"}
	if u.keys != "" {
		rules = append(rules, u.keys)
	}
	for _, command := range u.commands {
		rules = append(rules, "+"+command)
	}
	return rules
}

// line formats the user as a command or as a line of an aclfile. In an aclfile every user begins without rights.
func (u aclUser) line(format string) string {
	if format == "aclfile" {
		return "user " + u.name + " " + strings.Join(u.rules()[1:], " ")
	}
	return "ACL SETUSER " + u.name + " " + strings.Join(u.rules(), " ")
}

// users returns the three users: -load, -use and -look.
func (f aclFlags) users(scripts []sluice.Script) []aclUser {
	load := []string{"ping", "info", "script|load", "script|exists"}
	use := append([]string{"evalsha"}, commandsOf(scripts)...)
	look := append(lookRights(), probesOf(readsOf(scripts))...)
	ofClient := f.client.Single
	if f.cluster {
		ofClient = f.client.Cluster
		load = append(load, "cluster|nodes", "cluster|slots")
		// go-redis asks COMMAND which commands read and sends those to replicas, after READONLY.
		look = append(look, "cluster|nodes", "cluster|slots", "command", "readonly")
	}
	use, look = append(use, ofClient...), append(look, ofClient...)
	if f.functions {
		load = append(load, "function|load", "function|list")
		use = append(use, "fcall")
		look = append(look, "fcall_ro", "function|list")
	}
	users := []aclUser{
		{name: f.name + "-load", commands: load},
		{name: f.name + "-use", keys: "~" + f.prefix + ":*", commands: use},
		{name: f.name + "-look", keys: "%R~" + f.prefix + ":*", commands: look},
	}
	for i, user := range users {
		slices.Sort(user.commands)
		users[i].hash, users[i].commands = noHash, slices.Compact(user.commands)
	}
	return users
}

// commandsOf returns the commands that the scripts call.
func commandsOf(scripts []sluice.Script) []string {
	var commands []string
	for _, script := range scripts {
		for _, command := range script.Commands {
			commands = append(commands, strings.ToLower(command))
		}
	}
	return commands
}

// readsOf returns the commands that only read.
func readsOf(scripts []sluice.Script) []string {
	looking := slices.DeleteFunc(slices.Clone(scripts), func(s sluice.Script) bool { return !stored.Decides(s) })
	return slices.DeleteFunc(commandsOf(looking), func(command string) bool { return !reads(command) })
}

// reads reports whether a command only reads. Unknown commands count as writing.
func reads(command string) bool {
	return slices.Contains([]string{"exists", "get", "getrange", "hmget", "lindex", "llen", "pttl", "time", "zcard",
		"zcount", "zrange", "zrangebyscore", "zrank", "zscore"}, command)
}
