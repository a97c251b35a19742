package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/loader"
)

// setRateFlags are the flags of set-rate.
type setRateFlags struct {
	serverFlags
	force bool
}

// rateChange is the rate to set.
type rateChange struct {
	attempt
	limiter, subject string
	config           stored.Key
	scoped           bool // the user gave a scope
}

func parseSetRate(args []string) (setRateFlags, rateChange, error) {
	var f setRateFlags
	flags := f.register("set-rate")
	flags.BoolVar(&f.force, "force", false, "")
	limiter, subject, w, err := parseSubject(flags, args, "rate", "interval", "scope", "prefix")
	if err != nil {
		return f, rateChange{}, err
	}
	script, err := findScript("token_bucket_set")
	if err != nil {
		return f, rateChange{}, err
	}
	w.values["limiter"], w.values["subject"] = limiter, subject
	todo, err := fillAttempt(script, w)
	if err != nil {
		return f, rateChange{}, err
	}
	_, scoped := w.values["scope"]
	return f, rateChange{todo, limiter, subject, stored.KeyOf(todo.script, todo.keys[0]), scoped}, nil
}

func (a app) setRate(ctx context.Context, args []string) error {
	f, todo, err := parseSetRate(args)
	if err != nil {
		return err
	}
	out, t, err := a.open(f.serverFlags)
	if err != nil {
		return err
	}
	rdb := t.client()
	defer rdb.Close()
	before, err := todo.before(ctx, rdb)
	if err != nil {
		return fmt.Errorf("asking %s: %w", t, err)
	}
	if !f.force {
		if err := a.checkLimiter(ctx, t, todo); err != nil {
			return err
		}
	}
	inUse := todo.inUse(ctx, t)
	reply, err := loader.New(rdb).Call(ctx, &todo.script, todo.keys, todo.args...)
	if err != nil {
		return todo.failed(t.String(), err)
	}
	out.printf("%s on %s\nkey %s\nbefore: %s\n\n", out.paint(bold, fullName(todo.script)), t, todo.keys[0], before)
	out.printf("%s\n\n", out.paint(green, "in force: "+rateText(reply[0], reply[1], reply[2] == 1)))
	out.reply(todo.attempt, reply)
	out.printf("\nthis is the rate of %s alone, in all processes; other subjects of %s keep\ntheirs\n", todo.subject,
		todo.limiter)
	if inUse != "" {
		out.printf("%s\n", safe(inUse))
	}
	return nil
}

// checkLimiter returns an error if no token_bucket is stored under the limiter: its callers would not read the rate.
func (a app) checkLimiter(ctx context.Context, t target, c rateChange) error {
	own, release, err := t.holder(ctx, c.keys[0])
	if err != nil {
		return err
	}
	defer release()
	n, err := own.Exists(ctx, c.keys[0], c.config.With("all").Text).Result()
	if err == nil && n > 0 {
		return nil
	}
	nodes, _, err := t.nodes(ctx)
	if err != nil {
		return fmt.Errorf("it is not known whether %s is a token_bucket (--force does not ask): %w", c.limiter, err)
	}
	begin, _, _ := strings.Cut(c.keys[0], "{")
	for _, n := range nodes {
		if n.role == "replica" && t.flag != "redis" || n.empty {
			continue
		}
		found, err := a.hasBucket(ctx, t.connect(n.addr), begin)
		if err != nil {
			return fmt.Errorf("it is not known whether %s is a token_bucket (--force does not ask): asking %s: %w", c.limiter,
				n.addr, err)
		}
		if found {
			return nil
		}
	}
	return fmt.Errorf("no token_bucket is stored under the limiter %s, so the rate would not be read: check the name; "+
		"--force sets the rate before the first call", c.limiter)
}

// hasBucket reports whether a server has a key of a token_bucket that begins so. It closes the client.
func (a app) hasBucket(ctx context.Context, rdb *redis.Client, begin string) (bool, error) {
	defer rdb.Close()
	errFound := errors.New("found")
	all := scan{pattern: globEscape.Replace(begin) + "{*}:tb1*", page: searchPage, share: searchShare,
		progress: a.newScanProgress()}
	_, err := all.run(ctx, rdb, func(page []string) error {
		if len(page) > 0 {
			return errFound
		}
		return nil
	})
	all.progress.end()
	if err == errFound {
		return true, nil
	}
	return false, err
}

// inUse describes the permits that were granted before the change, or returns "" if there are none. What cannot be read
// does not matter to the change: then it says so.
func (c *rateChange) inUse(ctx context.Context, t target) string {
	if fmt.Sprint(c.args[2]) == "1" {
		return "permits of each client stay as they are"
	}
	rdb, release, err := t.holder(ctx, c.keys[0])
	if err != nil {
		return ""
	}
	defer release()
	all, err := stored.Read(ctx, rdb, []stored.Key{c.config.With("all")})
	if err != nil || all[0].Err != nil {
		return "it is not known whether permits are booked: this needs +time +llen +lindex"
	}
	s := all[0]
	if !s.HasHistory() {
		return ""
	}
	interval, _ := strconv.ParseInt(fmt.Sprint(c.args[1]), 10, 64)
	upTo, err := s.UpTo(ctx, rdb, []int64{s.Now - interval, s.Now})
	switch {
	case err != nil:
		return "it is not known how many permits are booked"
	case s.Newest > s.Now:
		return fmt.Sprintf("%s booked up to %s ahead at the times they were given:\n"+
			"they stay late; the new rate is for new calls", permitsAre(s.Permits-upTo[1]), length(s.Newest-s.Now))
	case upTo[1] > upTo[0]:
		return permitsAre(upTo[1]-upTo[0]) + " in use: they count against the new rate"
	}
	return ""
}

// permitsAre returns "1 permit is" or "2 permits are".
func permitsAre(n int64) string { return counted(int(n), "permit is", "permits are") }

// before describes the stored config. If the user gave no scope, before takes it from there.
func (c *rateChange) before(ctx context.Context, rdb redis.UniversalClient) (string, error) {
	found, err := rdb.HMGet(ctx, c.keys[0], "rate", "interval", "scope").Result()
	if err != nil {
		return "", err
	}
	var values []int64
	empty := true
	for i, value := range found {
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
		return "no rate was stored: check the subject", nil
	case len(values) == len(found):
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
