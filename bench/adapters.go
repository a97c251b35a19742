package main

import (
	"context"
	"slices"
	"time"

	redis_rate "github.com/sluice-redis/sluice/adapters/redisrate"
	"github.com/sluice-redis/sluice/adapters/ulule"
)

// adapters measures each adapter beside the library that it stands in for.
func (b *bench) adapters(ctx context.Context) ([]*Row, error) {
	if err := b.prepare("Python"); err != nil {
		return nil, err
	}
	var started []*foreignRun
	defer func() { stopAll(started) }()
	python := func(name string) contender {
		run := newForeignRun(foreign{language: "Python", name: name})
		started = append(started, run)
		return run.contender
	}
	limits := [2]contender{python("limits"), python("sluice_redis.limits")}
	large := []task{granting, denying}
	large[0].limit, large[1].limit = busyLimit, peerLimit+1
	inGo, inPython := []task{granting, denying, crowd}, []task{granting, denying}
	var rows []*Row
	var pairs []pair
	redisRate := [2]contender{{name: "redis_rate", make: newRedisRate}, {name: "ours", make: oursForRedisRate}}
	byStore := [2]contender{{name: "ulule/limiter", make: newUlule}, {name: "ours", make: oursForUlule}}
	for _, p := range []pair{
		{contenders: redisRate, tasks: inGo},
		{contenders: byStore, tasks: inGo},
		{contenders: limits, tasks: inPython},
		{contenders: limits, tasks: large},
	} {
		p.Row = &Row{Name: p.contenders[0].name, Size: p.tasks[0].limit}
		pairs, rows = append(pairs, p), append(rows, p.Row)
	}
	err := inTurn(b, pairs, func(p pair, round int) error { return b.measure(ctx, p, round) })
	for _, p := range pairs[:2] {
		for _, c := range p.contenders {
			if err != nil {
				return nil, err
			}
			var audits []Audit
			audits, err = c.audit(ctx, b.server, b.windows[:1])
			p.Audits = slices.Concat(p.Audits, audits)
		}
	}
	return rows, err
}

func oursForRedisRate(on *server, limit int64, window time.Duration) (decider, error) {
	l := redis_rate.NewLimiter(on.Client)
	rate := redis_rate.Limit{Rate: int(limit), Burst: int(limit), Period: window}
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Allow(ctx, subject, rate)
		return err == nil && result.Allowed > 0, err
	}, nil
}

func oursForUlule(on *server, limit int64, window time.Duration) (decider, error) {
	store, err := ulule.NewStore(on.Client)
	return byUlule(store, limit, window), err
}
