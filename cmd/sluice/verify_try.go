package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// checkTry refuses what cannot be tried.
func (d deployment) checkTry() error {
	if len(d.files) > 0 {
		return usagef("--try wants scripts that this program has: it does not know the arguments of a file")
	}
	_, err := keyOf(d.prefix, "verify", "subject", "state")
	return err
}

// tryOn tries the scripts on one node and looks at its state.
func (d deployment) tryOn(ctx context.Context, n node, rdb *redis.Client) visit {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return visit{placed: failedOn(n, err)}
	}
	e := examination{deployment: d, node: n, rdb: rdb}
	e.placed = d.tries(ctx, n, rdb)
	if d.functions {
		failed := slices.DeleteFunc(slices.Clone(e.placed), func(p placement) bool { return p.err == nil })
		libraries := d.functionsOn(ctx, n, rdb)
		for i, library := range libraries {
			if library.state == stateLoaded && len(e.placed) > len(failed) {
				libraries[i].state = stateTried
			}
		}
		e.placed = append(libraries, failed...)
	}
	e.run(ctx)
	return e.visit
}

// tries calls every script once.
func (d deployment) tries(ctx context.Context, n node, rdb *redis.Client) (all []placement) {
	t := trial{deployment: d, rdb: rdb, decides: n.role != "replica" && !n.empty, granted: map[string]int64{}}
	if d.functions && !t.decides {
		return nil // a replica refuses functions that write, and their bytes are compared
	}
	defer t.cleanUp(ctx)
	order := slices.Clone(d.scripts) // those that give back come after those that grant
	slices.SortStableFunc(order, func(a, b sluice.Script) int {
		return cmp.Compare(min(0, index(b, "granted")), min(0, index(a, "granted")))
	})
	for _, script := range order {
		p := placement{node: n, script: fullName(script), sha: script.SHA1, state: stateLoaded}
		if t.decides {
			p.state = stateTried
		}
		switch err := t.call(ctx, script); {
		case err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT"):
			p.state = stateMissing
		case err != nil:
			p.state, p.err = stateFailed, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b placement) int { return cmp.Compare(a.script, b.script) })
	errs := slices.Compact(namesOf(all, func(p placement) string { return fmt.Sprint(p.err) }))
	if len(all) > 1 && len(errs) == 1 && all[0].err != nil {
		return failedOn(n, all[0].err)
	}
	return all
}

// index returns where a field of the reply is, or -1.
func index(script sluice.Script, names ...string) int {
	return slices.IndexFunc(script.Reply, func(f sluice.Field) bool { return slices.Contains(names, f.Name) })
}

// trial calls scripts as the user of the target. A node that decides makes a real decision of each, about a new subject
// of the limiter "verify". Another, such as a replica, gets a call without keys, which every script refuses: that wants
// the script, Lua, and the right to EVALSHA, as a failover does.
type trial struct {
	deployment
	rdb     *redis.Client
	decides bool
	subject string
	began   time.Time        // of the period of a quota, by this program's clock
	granted map[string]int64 // when, by the code of the key
	keys    []string         // that may be left
}

// How long the keys of a trial live if they cannot be removed. That of token_bucket_set lives longer, because its TTL
// is set by this program's clock.
const (
	trialWindow = 10 * time.Second
	trialConfig = time.Minute
)

// cleanUp removes the keys, if the user may do so.
func (t *trial) cleanUp(ctx context.Context) {
	if len(t.keys) > 0 {
		t.rdb.Unlink(context.WithoutCancel(ctx), t.keys...)
	}
}

func (t *trial) call(ctx context.Context, script sluice.Script) error {
	if !t.decides {
		err := t.rdb.EvalSha(ctx, script.SHA1, nil).Err()
		if err != nil && strings.HasPrefix(err.Error(), "BADARG KEYS") {
			return nil
		}
		return cmp.Or(err, errors.New("it took a call without keys"))
	}
	for tries := 3000; ; tries-- { // enough for a master with 1 % of the slots
		if t.subject == "" {
			t.subject, t.granted, t.keys = rand.Text(), map[string]int64{}, nil
			t.began = time.Now().Add(-time.Minute)
		}
		err := t.decide(ctx, script)
		elsewhere := err != nil && (strings.HasPrefix(err.Error(), "MOVED") || strings.HasPrefix(err.Error(), "ASK"))
		if !elsewhere || tries == 0 {
			return err
		}
		t.subject = ""
	}
}

// decide makes one decision and checks that it was granted, or that what was granted is given back.
func (t *trial) decide(ctx context.Context, script sluice.Script) error {
	places := strings.NewReplacer("<prefix>", t.prefix, "<limiter>", "verify", "<subject>", t.subject,
		"<client>", "verify", "<id>", "verify", "<slice>x<size>", fmt.Sprintf("%dx10", trialWindow.Microseconds()/10))
	keys := namesOf(script.Keys, func(key sluice.Key) string { return places.Replace(key.Pattern) })
	code := stored.CodeOf(script)
	window, begin := trialWindow.Microseconds(), t.began.UnixMicro()
	const hour = 3_600_000_000
	values := map[string]any{
		"limit": 100, "limit_i": 100, "burst": 100, "rate": 100, "window": window, "interval": window, "ttl": window,
		"slice_i": window / 10, "size_i": 10, "permits": 1, "reported": 1, "unknown": 1,
		"max_wait": 0, "scope": 0, "renew": 0, "id": "verify", "moment": t.granted[code],
		"first": begin - hour, "second": begin, "third": begin + hour, "after": begin + 2*hour, "begin": begin,
	}
	var args []any
	for _, arg := range script.Args {
		args = append(args, values[arg.Name])
	}
	pipe := t.rdb.Pipeline()
	var decision *redis.Cmd
	if t.functions {
		decision = pipe.FCall(ctx, fullName(script), keys, args...)
	} else {
		decision = pipe.EvalSha(ctx, script.SHA1, keys, args...)
	}
	if script.Name == "token_bucket_set" { // removes the TTL of its key: who may not set one gets no key
		soon := time.Now().Add(trialConfig)
		if err := t.rdb.PExpireAt(ctx, keys[0], soon).Err(); err != nil {
			return err
		}
		pipe.PExpireAt(ctx, keys[0], soon)
	}
	t.keys = append(t.keys, keys...)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	reply, err := decision.Int64Slice()
	if err != nil || len(reply) < len(script.Reply) {
		return fmt.Errorf("its reply is %v: want %d integers", decision.Val(), len(script.Reply))
	}
	grants, done := index(script, "granted") >= 0, index(script, "granted", "returned", "released", "settled")
	if done >= 0 && reply[done] != 1 && (grants || t.granted[code] > 0) {
		return fmt.Errorf("it replied with %s %d to a call that must be granted", script.Reply[done].Name, reply[done])
	}
	if grants {
		t.granted[code] = reply[index(script, "now")]
	}
	return nil
}
