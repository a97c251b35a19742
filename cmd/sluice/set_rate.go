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

Sets how many permits a token_bucket grants in any interval. The rate applies to
all callers from their next call on, and stays until it is set again: the rates
that the callers pass are ignored. sluice reset --config ends that. Permits in
use stay in use. It calls the script token_bucket_set and loads it if necessary.

  rate=       1 to 1000000
  interval=   microseconds, or with a unit: 250ms, 1m30s, 7d; 1ms to 366 days
  scope=      0: all clients share the rate; 1: each client has the rate. The
              default is the stored scope, or 0 if nothing is stored
  prefix=     start of the key (default sluice)

` + targetUsage + `  --color WHEN      auto (the default), always or never

  sluice set-rate sms acme rate=200 interval=1s

The user needs these rights, which the users of sluice acl do not have:

  ACL SETUSER night on >secret resetchannels ~sluice:* +evalsha +hmget +hset
      +hdel +persist +script|load

+script|load is needed only if the script is not loaded (before Redis 7 it is
+script). A cluster also needs +cluster|slots.

The exit status is 0 if the server confirmed the rate, else 1. After a lost
reply the rate may or may not be set: it is safe to run the command again.
`

// setRateFlags are the flags of set-rate.
type setRateFlags struct {
	target targetFlags
	color  string
}

// rateChange is the rate to set.
type rateChange struct {
	attempt
	scoped bool // the user gave a scope
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
			return f, rateChange{}, usagef("set-rate has no argument %s: want rate, interval, scope or prefix", given(name))
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
	out, t, err := a.open(f.color, f.target)
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
	out.printf("%s\n\n", out.paint(green, "in force: "+rateText(reply[0], reply[1], reply[2] == 1)))
	out.reply(todo.script, reply)
	return nil
}

// before describes the stored config. If the user gave no scope, before takes it from there.
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
		return "no rate was stored: check the limiter and the subject", nil
	case len(values) == len(stored):
		if !c.scoped {
			c.args[2] = values[2]
		}
		return rateText(values[0], values[1], values[2] == 1), nil
	case !c.scoped:
		return "", errors.New("the stored rate is damaged and its scope is not known: want scope=0 or scope=1 too")
	}
	return "the stored rate was damaged", nil
}

// rateText describes the config of a token_bucket. The interval is in microseconds.
func rateText(rate, interval int64, perClient bool) string {
	scope := "all clients together"
	if perClient {
		scope = "each client by itself"
	}
	return fmt.Sprintf("%d in %s, %s", rate, length(interval), scope)
}
