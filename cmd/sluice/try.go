package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// tryFlags are the flags of try.
type tryFlags struct {
	serverFlags
	embedded bool
	times    int
}

// attempt is a decision to make.
type attempt struct {
	script sluice.Script
	keys   []string
	args   []any
}

func parseTry(args []string) (tryFlags, attempt, error) {
	var f tryFlags
	flags := f.register("try")
	flags.BoolVar(&f.embedded, "embedded", false, "")
	flags.IntVar(&f.times, "times", 1, "")
	words, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, attempt{}, undashed(err, args, isInspectWord)
	case len(words) == 0:
		names := namesOf(sluice.All(), func(script sluice.Script) string { return script.Name })
		return f, attempt{}, usagef("want a script: %s", strings.Join(names, ", "))
	case f.times < 1 || f.times > 1000:
		return f, attempt{}, usagef("--times is %d: want 1 to 1000", f.times)
	case f.embedded && f.target != targetFlags{}:
		return f, attempt{}, usagef("want --embedded or a server, not both")
	}
	script, err := findScript(words[0])
	if err != nil {
		return f, attempt{}, err
	}
	todo, err := newAttempt(script, words[1:])
	return f, todo, err
}

func (a app) try(ctx context.Context, args []string) error {
	f, todo, err := parseTry(args)
	if err != nil {
		return err
	}
	out, server, err := a.openPlace(f.serverFlags, f.embedded)
	if err != nil {
		return err
	}
	defer server.close()
	rdb := server.connect()
	defer rdb.Close()
	limits := loader.New(rdb)
	var replies [][]int64
	for range f.times {
		reply, err := limits.Call(ctx, &todo.script, todo.keysWithID(), todo.withID()...)
		if err != nil {
			return todo.failed(server.name, err)
		}
		replies = append(replies, reply)
	}
	out.printf("%s on %s\n", out.paint(bold, fullName(todo.script)), server.name)
	for _, key := range todo.keys {
		out.printf("key %s\n", key)
	}
	out.printf("\n")
	if f.times == 1 {
		out.reply(todo, replies[0])
		return nil
	}
	out.replies(todo, replies)
	return nil
}

// withID returns the arguments, with a new request ID if none was given.
func (t attempt) withID() []any {
	args := slices.Clone(t.args)
	for i, field := range t.script.Args {
		if field.Type == "str" && args[i] == "" {
			args[i] = rand.Text()
		}
	}
	return args
}

// keysWithID returns the keys, with a new request ID where a key ends in one and none was given.
func (t attempt) keysWithID() []string {
	keys := slices.Clone(t.keys)
	if last := len(keys) - 1; endsInID(t.script) && strings.HasSuffix(keys[last], ":") {
		keys[last] += rand.Text()
	}
	return keys
}

// failed explains an error of the call: a wrong argument by the header's text about it, any other by the server's name.
func (t attempt) failed(server string, err error) error {
	bad, ok := errors.AsType[*loader.ArgumentError](err)
	if !ok {
		return fmt.Errorf("asking %s: %w", server, err)
	}
	for _, arg := range t.script.Args {
		if named(arg, bad.Argument) {
			return &hintError{err, bad.Argument + ": " + arg.Text}
		}
	}
	return err
}

// named reports whether name is the argument's name or that of one of its repetitions.
func named(arg sluice.Field, name string) bool {
	if !arg.Repeated {
		return arg.Name == name
	}
	number, found := strings.CutPrefix(name, strings.TrimSuffix(arg.Name, "i"))
	_, err := strconv.Atoi(number)
	return found && err == nil
}
