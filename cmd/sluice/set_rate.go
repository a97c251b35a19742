package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/loader"
)

func (a app) setRate(ctx context.Context, args []string) error {
	var f serverFlags
	flags := f.register("set-rate")
	prefix := flags.String("prefix", "sluice", "")
	perClient := flags.Bool("per-client", false, "")
	isNew := flags.Bool("new", false, "")
	others, err := parseFlags(flags, args)
	if err == nil {
		err = wantSubject(others, "a rate, as in 50/1s")
	}
	if err != nil {
		return err
	}
	rate, err := parseRate(others[2])
	if err != nil {
		return usagef("the rate is %s: %v", given(others[2]), err)
	}
	rdb, begins, release, err := a.openSubject(ctx, f, *prefix, limited{limiter: others[0], name: others[1]})
	if err != nil {
		return err
	}
	defer release()
	begin := begins[0]
	key, _ := stored.ParseKey(begin + "tb1")
	found, _, err := stored.Read(ctx, rdb, []stored.Key{key})
	if err == nil {
		err = found[0].Err
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", rdb.Options().Addr, err)
	}
	if err := a.wantBucket(ctx, rdb, begin, *prefix+":"+others[0]+":{*", found[0].Exists, *isNew); err != nil {
		return err
	}
	before := "no rate was stored: check limiter and subject"
	if config := found[0].Config; config != nil {
		before = configText(*config)
	} else if found[0].Exists {
		before = "the stored rate was damaged"
	}
	scope := 0
	if *perClient {
		scope = 1
	}
	reply, err := callLoaded(ctx, rdb, sluice.TokenBucketSetV1(), key.Text,
		rate.Permits, rate.Window.Microseconds(), scope)
	if err == nil && len(reply) != 3 {
		err = fmt.Errorf("the script replied with %d integers, want 3", len(reply))
	}
	if err != nil {
		return rateError(rdb.Options().Addr, err)
	}
	out := newScreen(a.stdout)
	inForce := stored.Config{Rate: reply[0], Interval: reply[1], PerClient: reply[2] == 1}
	out.printf("key %s on %s\nbefore: %s\n%s\n", key.Text, rdb.Options().Addr, before,
		out.paint(green, "in force: "+configText(inForce)))
	out.printf("this is the rate of %s alone, in all processes; other subjects keep theirs\n", others[1])
	return nil
}

// errNoBucket is in the error of a limiter that is no token_bucket, and would not read a rate.
var errNoBucket = errors.New("only a token_bucket reads a rate from Redis; nothing was written")

// wantBucket refuses a subject with state of another script and no permits of a token_bucket. It looks by SCAN only if
// it finds neither under the keys that it knows. If no rate is stored for the subject, so it does with all subjects of
// the limiter on the server together, and if nothing is stored of them, unless the limiter is new. A rate alone proves
// nothing, because set-rate may have written it.
func (a app) wantBucket(ctx context.Context, rdb *redis.Client, begin, limiter string, hasRate, isNew bool) error {
	other, bucket := "", false
	add := func(keys []string) error {
		for _, text := range keys {
			key, _ := stored.ParseKey(text)
			script, found := key.Script()
			isBucket := key.Config().IsConfig()
			if found && !isBucket {
				other = fmt.Sprintf("limiter %s is one of %s", key.Limiter, script.Name)
			}
			bucket = bucket || isBucket && !key.IsConfig()
		}
		return nil
	}
	there, err := known(ctx, rdb, begin, nil)
	if err != nil {
		return err
	}
	_ = add(there)
	for _, pattern := range []string{globEscape.Replace(begin) + "*", limiter} {
		if other != "" || bucket || hasRate && pattern == limiter {
			break
		}
		all := scan{pattern: pattern, page: searchPage, share: searchShare, status: newScreen(a.stderr)}
		if _, err := all.run(ctx, rdb, add); err != nil {
			return fmt.Errorf("asking %s: %w", rdb.Options().Addr, err)
		}
	}
	switch {
	case bucket:
	case other != "":
		return fmt.Errorf("%s: %w", other, errNoBucket)
	case !hasRate && !isNew:
		return fmt.Errorf("no permits of a token_bucket are stored under %s: %w", limiter, errNoBucket)
	}
	return nil
}

// errMayBeSet is in the error of a call without a reply.
var errMayBeSet = errors.New("no reply, so the rate may or may not be set")

func rateError(addr string, err error) error {
	if !stored.IsReply(err) {
		err = fmt.Errorf("%w: %w", errMayBeSet, err)
	}
	return fmt.Errorf("asking %s: %w", addr, err)
}

// callLoaded calls a script that replies with integers, and loads it if the server does not have it.
func callLoaded(
	ctx context.Context, rdb *redis.Client, script sluice.Script, key string, args ...any,
) ([]int64, error) {
	reply, err := rdb.EvalSha(ctx, script.SHA1, []string{key}, args...).Int64Slice()
	if err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return reply, err
	}
	if err := rdb.ScriptLoad(ctx, script.Source).Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", loader.ErrNotLoaded, err)
	}
	return rdb.EvalSha(ctx, script.SHA1, []string{key}, args...).Int64Slice()
}
