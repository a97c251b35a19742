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

type rateChange struct {
	attempt
	scoped bool // the user gave a scope
}

func parseSetRate(args []string) (serverFlags, rateChange, error) {
	var f serverFlags
	flags := f.register("set-rate")
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
	out, t, err := a.open(f)
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
	if err != nil {
		return todo.failed(t.String(), err)
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
