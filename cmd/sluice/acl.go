package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/rights"
	"github.com/sluice-redis/sluice/loader"
)

// aclFlags are the flags of acl.
type aclFlags struct {
	serverFlags
	name, prefix string
	giveBack     bool
	functions    bool
	client       rights.Client
	passwordFile string
	format       string
	apply        bool
}

func parseACL(args []string) (aclFlags, []sluice.Script, error) {
	var f aclFlags
	flags := f.register("acl")
	flags.StringVar(&f.name, "name", "sluice", "")
	flags.StringVar(&f.prefix, "prefix", "sluice", "")
	flags.BoolVar(&f.giveBack, "give-back", false, "")
	flags.BoolVar(&f.functions, "functions", false, "")
	f.client = rights.Clients()[0]
	flags.Func("client", "", f.setClient)
	flags.StringVar(&f.passwordFile, "password-file", "", "")
	flags.StringVar(&f.format, "format", "commands", "")
	flags.BoolVar(&f.apply, "apply", false, "")
	names, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, nil, err
	case f.format != "commands" && f.format != "aclfile":
		return f, nil, usagef("--format is %s: want commands or aclfile", given(f.format))
	case f.apply && f.passwordFile == "":
		return f, nil, usagef("--apply wants --password-file: without passwords nobody can use the users")
	case !isName(f.name):
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

func (a app) acl(ctx context.Context, args []string) error {
	f, scripts, err := parseACL(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	users := f.users(scripts)
	if err := f.readPasswords(users); err != nil {
		return err
	}
	if f.apply {
		return a.applyACL(ctx, f, users, out)
	}
	notes := screen{w: a.stderr} // standard output goes to redis-cli or into an aclfile
	if f.passwordFile == "" {
		notes.printf("note: with --password-file, hashes replace %s\n", noHash)
	}
	notes.printf("warning: if user default is on without a password, every client may do\n" +
		"everything, whatever these users may: see ACL LIST\n")
	notes.printf("%s", safe(loadNote))
	for _, user := range users {
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
	if f.target.cluster != "" {
		ofClient = f.client.Cluster
		load = append(load, "cluster|nodes", "cluster|slots")
		// go-redis asks COMMAND which commands read and sends those to replicas, after READONLY.
		look = append(look, "cluster|nodes", "cluster|slots", "command", "readonly")
	}
	use, look = append(use, ofClient...), append(look, ofClient...)
	if f.giveBack {
		use = append(use, "unlink", "zrem")
	}
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

// readPasswords sets the users' hashes from the password file, if there is one.
func (f aclFlags) readPasswords(users []aclUser) error {
	if f.passwordFile == "" {
		return nil
	}
	text, err := os.ReadFile(f.passwordFile)
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err // leave out the file name: it may be a password given by mistake
		}
		return fmt.Errorf("reading the passwords of --password-file: %w", err)
	}
	passwords := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, password, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		passwords[name] = password
	}
	for i, user := range users {
		password := passwords[user.name]
		if password == "" {
			return usagef("--password-file has no password for %s: want a line with the name, a space and the password",
				user.name)
		}
		sum := sha256.Sum256([]byte(password))
		users[i].hash = "#" + hex.EncodeToString(sum[:])
	}
	return nil
}

// applyACL sets the users on every node.
func (a app) applyACL(ctx context.Context, f aclFlags, users []aclUser, out screen) error {
	t, err := a.target(f.target)
	if err != nil {
		return err
	}
	nodes, remarks, err := t.nodes(ctx)
	if err != nil {
		return err
	}
	var rows table
	rows.head("node", "role", "user", "state")
	var errs []error
	for _, n := range nodes {
		rdb := t.connect(n.addr)
		defer rdb.Close()
		for _, user := range users {
			err := rdb.ACLSetUser(ctx, user.name, user.rules()...).Err()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			state := cell{text: "set", as: green}
			if err != nil {
				state = cell{text: "failed", as: red}
				errs = append(errs, fmt.Errorf("%s, %s: %w", n.addr, user.name, err))
			}
			rows.add(cell{text: n.addr}, cell{text: n.role}, cell{text: user.name}, state)
		}
	}
	rows.print(out)
	out.printf("\n")
	for _, remark := range remarks {
		out.printf("note: %s\n", remark)
	}
	out.failures(errs)
	if len(errs) > 0 {
		return errReported
	}
	out.printf("note: a restart removes users unless ACL SAVE or CONFIG REWRITE saves them\n")
	out.printf("%s", safe(loadNote))
	t.warnOfDefault(ctx, nodes, out)
	out.printf("%s\n", out.paint(green, counted(len(users), "user", "users")+" on "+counted(len(nodes), "node", "nodes")))
	return nil
}

// warnOfDefault prints a warning if everybody may use a node as user default.
func (t target) warnOfDefault(ctx context.Context, nodes []node, out screen) {
	var open []string
	for _, n := range nodes {
		rdb := t.connect(n.addr)
		lines, err := rdb.Do(ctx, "acl", "list").StringSlice()
		_ = rdb.Close()
		if err != nil {
			out.printf("note: on %s: it is not known whether user default has a password:\n%s\n", n.addr, err)
		}
		if slices.ContainsFunc(lines, isOpenDefault) {
			open = append(open, n.addr)
		}
	}
	for _, addr := range open {
		out.printf("%s\n", out.paint(yellow, "warning: on "+addr+": user default is on and has no password"))
	}
	if len(open) > 0 {
		out.printf("every client may do everything, whatever these users may: when no program\n" +
			"uses it, ACL SETUSER default off; else ACL SETUSER default >password\n")
	}
}

// isOpenDefault reports whether a line of ACL LIST is that of a user default that is on without a password.
func isOpenDefault(line string) bool {
	words := strings.Fields(line)
	return len(words) > 2 && words[1] == "default" && slices.Contains(words, "on") && slices.Contains(words, "nopass")
}
