package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Languages are the limiters of other languages and ours called from them, measured in one run on one server.
type Languages struct {
	Date    string    `json:"date"`
	Server  string    `json:"server"`
	CPU     string    `json:"cpu"`
	Rounds  int       `json:"rounds"`
	Expired int64     `json:"expired"` // permits before the slowest call
	Rows    []Foreign `json:"rows"`
}

// A Foreign is a limiter called from another language. It has two audits: with clients' clocks that agree, and with
// half of them ahead.
type Foreign struct {
	Library
	Language string   `json:"language"`
	Client   string   `json:"client"`
	Ours     bool     `json:"ours"`
	Granted  Decision `json:"granted"`
	Denied   Decision `json:"denied"`
	Bytes    int64    `json:"bytes"`    // after a thousand permits
	Worst    float64  `json:"worst_us"` // the slowest command of one decision, when permits have expired
	Lost     Lost     `json:"lost"`
}

// A Decision is what one costs the server.
type Decision struct {
	Sent     float64 `json:"sent"`     // commands that the client sends
	Commands Spread  `json:"commands"` // time in them, in microseconds, by INFO commandstats
	CPU      Spread  `json:"cpu"`      // processor time in all, in microseconds, with reading, parsing and answering
}

// A Lost is what came of a decision whose reply was lost.
type Lost struct {
	Answer  string `json:"answer"`            // what the caller got: granted, denied, error
	Charged int    `json:"charged"`           // permits
	Unshown bool   `json:"unshown,omitempty"` // the library's own client was replaced
}

// A foreign is a limiter that a driver asks.
type foreign struct {
	language  string
	name      string // that the driver knows
	module    string // the package that it is in; empty: ours, or none
	client    redisClient
	guarantee string
	script    func(limit, us int64) []string // ours: what the driver needs to call it

	readsFirst bool // a decision reads the state, then writes it: the second reply says whether it was charged
	standIn    bool // the driver connects it by another client than its own
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
		{language: "Java", name: "list_log", client: lettuce, guarantee: anyWindow, script: listLogCall},
		{language: "Java", name: "gcra", client: lettuce, guarantee: burstRate, script: gcraCall},
		{language: "Java", name: "RRateLimiter", module: "redisson", client: redisson, guarantee: anyWindow},
		{language: "Java", name: "bucket4j", module: "bucket4j_jdk17-lettuce", client: lettuce,
			guarantee: burstRate, readsFirst: true},
		{language: "Python", name: "list_log", client: redisPy, guarantee: anyWindow, script: listLogCall},
		{language: "Python", name: "limits", module: "limits", client: redisPy, guarantee: anyWindow},
		{language: "Python", name: "sorted set", client: redisPy, guarantee: anyWindow},
		{language: "Python", name: "INCR, EXPIRE", client: redisPy, guarantee: fixedWindow},
		{language: "Node", name: "list_log", client: nodeRedis, guarantee: anyWindow, script: listLogCall},
		{language: "Node", name: "slice_ring", client: nodeRedis, guarantee: slicewise, script: sliceRingCall},
		{language: "Node", name: "rate-limiter-flexible", module: "rate-limiter-flexible", client: ioredis,
			guarantee: fixedWindow},
		{language: "Node", name: "@upstash/ratelimit", module: "@upstash/ratelimit", client: nodeRedis,
			guarantee: estimate, standIn: true},
	}
}

func listLogCall(limit, us int64) []string {
	return []string{"list_log_v1", "ll1", fmt.Sprint(limit), fmt.Sprint(us), "1", "0"}
}

func gcraCall(limit, us int64) []string {
	return []string{"gcra_v1", "gcra1", fmt.Sprint(limit), fmt.Sprint(us), fmt.Sprint(limit), "1", "0"}
}

// sliceRingCall covers the window by 60 slices and the current one, as the loader does.
func sliceRingCall(limit, us int64) []string {
	slice := fmt.Sprint(us / 60)
	return []string{"slice_ring_v1", "sr1:" + slice, slice, "1", "61", fmt.Sprint(limit)}
}

// A foreignRun is a limiter while it is measured.
type foreignRun struct {
	foreign
	row             Foreign
	granting        *driver // with peerLimit a day
	denying         *driver // with fullLimit a day
	aging           *driver // with a limit that is filled, and expires during the run
	granted, denied []sample
	shares          map[string]float64 // as of a peerRun
}

// languages measures every limiter. What it fills first expires while it measures the rest.
func (b *bench) languages(ctx context.Context) (*Languages, error) {
	for language, t := range toolchains {
		b.progress("languages: making the driver for %s", language)
		if err := t.prepare(); err != nil {
			return nil, err
		}
	}
	version, err := b.server.version(ctx)
	if err != nil {
		return nil, err
	}
	r := &Languages{Date: time.Now().UTC().Format(time.DateOnly), Server: version, CPU: cpu(), Rounds: b.rounds,
		Expired: b.expired}
	var runs []*foreignRun
	defer func() {
		for _, run := range runs {
			run.stop()
		}
	}()
	for _, f := range foreigners() {
		run, err := b.startForeign(f)
		runs = append(runs, run)
		if err != nil {
			return nil, err
		}
	}
	filled, err := b.fillForeign(runs)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, []*foreignRun) error{b.foreignCosts, b.foreignStates} {
		if err := step(ctx, runs); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(b.foreignWorst(ctx, runs, filled), b.foreignAudits(runs)); err != nil {
		return nil, err
	}
	for _, run := range runs {
		r.Rows = append(r.Rows, run.row)
	}
	return r, b.server.FlushAll(ctx).Err()
}

func (b *bench) startForeign(f foreign) (*foreignRun, error) {
	t := toolchains[f.language]
	run := &foreignRun{foreign: f, shares: map[string]float64{}}
	run.row = Foreign{Language: f.language, Ours: f.script != nil,
		Library: Library{Name: f.name, Module: f.module, Guarantee: f.guarantee}}
	version, err := t.pinned(f.client.module)
	run.row.Client = f.client.name + " " + version
	if err == nil && f.module != "" {
		run.row.Version, err = t.pinned(f.module)
	}
	for _, start := range []struct {
		to     **driver
		limit  int64
		window time.Duration
	}{{&run.granting, peerLimit, peerWindow}, {&run.denying, fullLimit, peerWindow}, {&run.aging, b.expired + 10, b.expiry}} {
		if err == nil {
			*start.to, err = f.start(b.server.process.Addr, start.limit, start.window)
		}
	}
	return run, err
}

func (r *foreignRun) stop() {
	for _, d := range []*driver{r.granting, r.denying, r.aging} {
		if d != nil {
			d.stop()
		}
	}
}

// Where is the language and the client.
func (f Foreign) Where() string { return f.Language + ", " + f.Client }
