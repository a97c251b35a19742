package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

const setRateUsage = `usage: sluice set-rate [flags] <limiter> <subject> rate=N interval=D [scope=S]

Sets how many permits a token_bucket grants in any interval, for all its callers
from their next call on, by the script token_bucket_set (loaded when missing).
It stays until it is set again: what the callers ask for does not count any
more. sluice reset --config ends that. Permits in use stay in use.

  rate=       1 to 1000000
  interval=   microseconds, or with a unit: 250ms, 1m30s, 7d; 1ms to 366 days
  scope=      0: all clients together; 1: each client by itself. Without it what
              is stored stays as it is; where nothing is stored that is 0
  prefix=     what the key begins with (default sluice)

` + targetUsage + `  --color WHEN      auto (the default), always or never

  sluice set-rate sms acme rate=200 interval=1s

The rights that the user needs, which are not those of sluice acl:

  ACL SETUSER night on >secret resetchannels ~sluice:* +evalsha +hmget +hset
      +hdel +persist +script|load

+script|load only where the script is missing (before Redis 7 that is +script);
a cluster wants +cluster|slots besides.

The exit status is 0 if the server said that the rate is in force, else 1. After
a lost reply that is not known: the same command again does no harm.
`

// setRateFlags are the flags of set-rate.
type setRateFlags struct {
	target targetFlags
	color  string
}

// rateChange is a rate that is to be set.
type rateChange struct {
	attempt
	scoped bool // its scope was given
}

func parseSetRate(args []string) (setRateFlags, rateChange, error) {
	var f setRateFlags
	flags := newFlags("set-rate")
	f.target.register(flags)
	flags.StringVar(&f.color, "color", "auto", "")
	others, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, rateChange{}, err
	case len(others) < 2:
		return f, rateChange{}, usagef("want a limiter and a subject")
	}
	script, err := findScript("token_bucket_set")
	if err != nil {
		return f, rateChange{}, err
	}
	w, err := parseWords(others[2:])
	if err != nil {
		return f, rateChange{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(w.values)) {
		if name != "prefix" && !takes(script, name) {
			return f, rateChange{}, usagef("set-rate has no %s: want rate, interval, scope or prefix", given(name))
		}
	}
	todo, err := newAttempt(script, append(others[2:], "limiter="+others[0], "subject="+others[1]))
	_, scoped := w.values["scope"]
	return f, rateChange{todo, scoped}, err
}

func (a app) setRate(ctx context.Context, args []string) error {
	f, todo, err := parseSetRate(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	t, err := a.target(f.target)
	if err != nil {
		return err
	}
	rdb := t.client()
	defer rdb.Close()
	before, err := todo.before(ctx, rdb)
	if err != nil {
		return fmt.Errorf("asking %s: %w", t, err)
	}
	reply, err := loader.New(rdb).Call(ctx, &todo.script, todo.keys, todo.args...)
	var bad *loader.ArgumentError
	switch {
	case errors.As(err, &bad):
		return todo.explained(err)
	case err != nil:
		return fmt.Errorf("asking %s: %w", t, err)
	}
	out.printf("%s on %s\nkey %s\nbefore: %s\n\n", out.paint(bold, fullName(todo.script)), t, todo.keys[0], before)
	out.printf("%s\n\n", out.paint(green, "in force: "+rateText(reply)))
	out.reply(todo.script, reply)
	return nil
}

// before reads what is stored, for the eye, and for the scope where that was not given.
func (c *rateChange) before(ctx context.Context, rdb redis.UniversalClient) (string, error) {
	stored, err := rdb.HMGet(ctx, c.keys[0], "rate", "interval", "scope").Result()
	if err != nil {
		return "", err
	}
	var values []int64
	empty := true
	for i, value := range stored {
		empty = empty && value == nil
		text, _ := value.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if field := c.script.Args[i]; err != nil || text != strconv.FormatInt(n, 10) || n < field.Min || n > field.Max {
			break
		}
		values = append(values, n)
	}
	switch {
	case empty:
		return "no rate was stored: are limiter and subject those of the callers?", nil
	case len(values) == len(stored):
		if !c.scoped {
			c.args[2] = values[2]
		}
		return rateText(values), nil
	case !c.scoped:
		return "", errors.New("what is stored is damaged, so that the scope is not known: want scope=0 or scope=1, too")
	}
	return "what was stored was damaged", nil
}

// rateText is a rate, an interval and a scope in words.
func rateText(values []int64) string {
	whose := "all clients together"
	if values[2] == 1 {
		whose = "each client by itself"
	}
	return fmt.Sprintf("%d in %s, %s", values[0], length(values[1]), whose)
}
