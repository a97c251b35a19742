package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

const tryUsage = `usage: sluice try [flags] <script> [name=value ...]

Makes one decision with a script and shows each field of the reply. The names of
the arguments are those of the script's header. By default permits is 1,
max_wait and scope are 0, burst is the limit, and each call has a new ID.
Durations are microseconds, or have a unit: 250ms, 1m30s, 7d. Times are
microseconds since 1970, or 2030-01-31T12:00:00Z. The windows of slice_ring are
slices_1=61 limit_1=5 slices_2= and so on; for one window slices= and limit= are
enough.

The key is <prefix>:<limiter>:{<subject>}:<state>. By default prefix is sluice,
limiter is try, subject is demo and client is cli. key=... sets the whole key.

` + targetUsage + `--embedded        an empty miniredis in this process
  --times N         make the decision N times and print a table (default 1)
  --color WHEN      auto (the default), always or never

  sluice try --embedded --times 4 list_log limit=3 window=1m
  sluice try gcra limit=10 window=1s burst=20 permits=5 subject=ada

The exit status is 0 for a grant and a denial, 1 for an error.
`

// tryFlags are the flags of try.
type tryFlags struct {
	target   targetFlags
	embedded bool
	times    int
	color    string
}

// attempt is a decision to make.
type attempt struct {
	script sluice.Script
	keys   []string
	args   []any
}

func parseTry(args []string) (tryFlags, attempt, error) {
	var f tryFlags
	flags := newFlags("try")
	f.target.register(flags)
	flags.BoolVar(&f.embedded, "embedded", false, "")
	flags.IntVar(&f.times, "times", 1, "")
	flags.StringVar(&f.color, "color", "auto", "")
	words, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, attempt{}, undashed(err, args, isInspectWord)
	case len(words) == 0:
		return f, attempt{}, usagef("want a script: %s", scriptNames())
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

func scriptNames() string {
	var names []string
	for _, script := range sluice.All() {
		names = append(names, script.Name)
	}
	return strings.Join(names, ", ")
}

func (a app) try(ctx context.Context, args []string) error {
	f, todo, err := parseTry(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	rdb, name, closeAll, err := a.tryServer(f)
	if err != nil {
		return err
	}
	defer closeAll()
	replies, err := todo.run(ctx, loader.New(rdb), f.times)
	var bad *loader.ArgumentError
	switch {
	case errors.As(err, &bad):
		return todo.explained(err)
	case err != nil:
		return fmt.Errorf("asking %s: %w", name, err)
	}
	out.printf("%s on %s\n", out.paint(bold, fullName(todo.script)), name)
	for _, key := range todo.keys {
		out.printf("key %s\n", key)
	}
	out.printf("\n")
	if f.times == 1 {
		out.reply(todo.script, replies[0])
		return nil
	}
	out.replies(todo.script, replies)
	return nil
}

// tryServer returns a client for the server that the flags name, its name, and a function that closes it.
func (a app) tryServer(f tryFlags) (redis.UniversalClient, string, func(), error) {
	if f.embedded {
		mini, err := miniredis.Run()
		if err != nil {
			return nil, "", nil, fmt.Errorf("starting miniredis: %w", err)
		}
		rdb := redis.NewClient(quiet(&redis.Options{Addr: mini.Addr()}))
		return rdb, "an embedded miniredis", func() { _ = rdb.Close(); mini.Close() }, nil
	}
	t, err := a.target(f.target)
	if err != nil {
		return nil, "", nil, err
	}
	rdb := t.client()
	return rdb, t.String(), func() { _ = rdb.Close() }, nil
}

// run makes the decision a number of times.
func (t attempt) run(ctx context.Context, limits *loader.Loader, times int) ([][]int64, error) {
	var replies [][]int64
	for range times {
		reply, err := limits.Call(ctx, &t.script, t.keys, t.withID()...)
		if err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
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

// explained adds the header's text about the wrong argument to an error.
func (t attempt) explained(err error) error {
	var bad *loader.ArgumentError
	if !errors.As(err, &bad) {
		return err
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
