package main

import (
	"context"
	"fmt"
	"time"
)

// A foreign is a limiter that a driver asks.
type foreign struct {
	language string
	name     string // that the driver knows
	module   string // the package that it is in; empty: ours, or none
	client   redisClient
	promise  string
	script   func(limit, us int64) []string // ours: what the driver needs to call it

	readsFirst bool // a decision reads the state, then writes it: the second reply says whether it was charged
}

// A redisClient is what connects a limiter: its name, and the package that it is in.
type redisClient struct{ name, module string }

var (
	lettuce   = redisClient{"Lettuce", "lettuce-core"}
	redisson  = redisClient{"Redisson", "redisson"}
	redisPy   = redisClient{"redis-py", "redis"}
	nodeRedis = redisClient{"node-redis", "redis"}
	ioredis   = redisClient{"ioredis", "ioredis"}
)

// foreigners are the limiters, each after those of ours that are called from the same language.
func foreigners() []foreign {
	return []foreign{
		{language: "Java", name: "list_log", client: lettuce, promise: anyWindow, script: listLogCall},
		{language: "Java", name: "gcra", client: lettuce, promise: burstRate, script: gcraCall},
		{language: "Java", name: "RRateLimiter", module: "redisson", client: redisson, promise: anyWindow},
		{language: "Java", name: "bucket4j", module: "bucket4j_jdk17-lettuce", client: lettuce,
			promise: burstRate, readsFirst: true},
		{language: "Python", name: "list_log", client: redisPy, promise: anyWindow, script: listLogCall},
		{language: "Python", name: "limits", module: "limits", client: redisPy, promise: anyWindow},
		{language: "Python", name: "sorted set", client: redisPy, promise: anyWindow},
		{language: "Python", name: "INCR, EXPIRE", client: redisPy, promise: fixedWindow},
		{language: "Node", name: "list_log", client: nodeRedis, promise: anyWindow, script: listLogCall},
		{language: "Node", name: "slice_ring", client: nodeRedis, promise: slicewise, script: sliceRingCall},
		{language: "Node", name: "rate-limiter-flexible", module: "rate-limiter-flexible", client: ioredis,
			promise: fixedWindow},
	}
}

func listLogCall(limit, us int64) []string {
	return []string{"list_log_v1", "ll1", fmt.Sprint(limit), fmt.Sprint(us), "1", "0"}
}

func gcraCall(limit, us int64) []string {
	return []string{"gcra_v1", "gcra1", fmt.Sprint(limit), fmt.Sprint(us), fmt.Sprint(limit), "1", "0"}
}

// sliceRingCall covers the window by 200 slices and the current one, as the loader does.
func sliceRingCall(limit, us int64) []string {
	slice := fmt.Sprint(us / 200)
	return []string{"slice_ring_v1", "sr1:" + slice + "x201", "1", "0", slice, "201", fmt.Sprint(limit)}
}

// A foreignRun is a limiter while it is measured. Its limits are asked by a driver each.
type foreignRun struct {
	foreign
	contender
	row     *Row
	drivers map[int64]*driver
}

func newForeignRun(f foreign) *foreignRun {
	r := &foreignRun{foreign: f, drivers: map[int64]*driver{}}
	r.contender = contender{name: f.name, promise: f.promise, make: r.ask}
	r.row = &Row{Name: f.name, Promise: f.promise, Ours: f.script != nil}
	return r
}

func foreignRuns() ([]*foreignRun, error) {
	var runs []*foreignRun
	for _, f := range foreigners() {
		run, t := newForeignRun(f), toolchains[f.language]
		client, err := t.pinned(f.client.module)
		run.row.Where = f.language + ", " + f.client.name + " " + client
		if err == nil && f.module != "" {
			run.row.Version, err = t.pinned(f.module)
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// ask returns what asks the limiter with this limit. Its driver runs until the end.
func (r *foreignRun) ask(on *server, limit int64, window time.Duration) (decider, error) {
	if r.drivers[limit] == nil {
		d, err := r.start(on.process.Addr, limit, window)
		if err != nil {
			return nil, err
		}
		r.drivers[limit] = d
	}
	return r.asking(r.drivers[limit]), nil
}

// asking asks by a driver.
func (f foreign) asking(d *driver) decider {
	return func(_ context.Context, subject string) (bool, error) { return d.take(f.subject(subject)) }
}

// subject is one that no other limiter has: some use it as their key.
func (f foreign) subject(name string) string { return f.language + " " + f.name + " " + name }

func stopAll(runs []*foreignRun) {
	for _, run := range runs {
		for _, d := range run.drivers {
			d.stop()
		}
	}
}

// languages measures every limiter: its cost, what it takes, a lost reply, and audits.
func (b *bench) languages(ctx context.Context) ([]*Row, error) {
	if err := b.prepare("Java", "Python", "Node"); err != nil {
		return nil, err
	}
	runs, err := foreignRuns()
	if err != nil {
		return nil, err
	}
	defer func() { stopAll(runs) }()
	err = inTurn(b, runs, func(r *foreignRun, round int) error {
		for _, t := range []task{granting, denying} {
			sample, err := b.ask(ctx, r.contender, t, round)
			if err != nil {
				return fmt.Errorf("%s: %w", r.subject(t.name), err)
			}
			r.row.note(t.name+" cpu us", sample.cpu)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	clocks, err := newClocks()
	if err != nil {
		return nil, err
	}
	defer clocks.remove()
	var rows []*Row
	for _, r := range runs {
		b.progress("%s", r.subject("memory, a lost reply, audit"))
		if r.row.Bytes, err = r.memory(ctx, b.server); err == nil {
			r.row.Lost, err = r.loseReply(ctx, b.server)
		}
		for _, ahead := range []time.Duration{0, foreignAhead} {
			if err == nil {
				err = r.auditApart(ctx, b, clocks, ahead)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.subject(""), err)
		}
		rows = append(rows, r.row)
	}
	return rows, nil
}
