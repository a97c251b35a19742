package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Languages are the limiters of other languages and ours called from them, measured in one run on one server.
type Languages struct {
	Date   string    `json:"date"`
	Server string    `json:"server"`
	CPU    string    `json:"cpu"`
	Rounds int       `json:"rounds"`
	Rows   []Foreign `json:"rows"`
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
	Bytes    int64    `json:"bytes"` // after a thousand permits
	Lost     Lost     `json:"lost"`
}

// A Decision is what one costs the server.
type Decision struct {
	CPU Spread `json:"cpu"` // processor time, in microseconds, with reading, parsing and answering
}

// A Lost is what came of a decision whose reply was lost. It is empty where the driver replaces the library's client.
type Lost struct {
	Answer  string `json:"answer"`  // that the caller got: granted, denied, error
	Charged int    `json:"charged"` // permits
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

// sliceRingCall covers the window by 200 slices and the current one, as the loader does.
func sliceRingCall(limit, us int64) []string {
	return []string{"slice_ring_v1", fmt.Sprintf("sr1:%dx201", us/200), "1", "0", fmt.Sprint(us / 200), "201", fmt.Sprint(limit)}
}

// A foreignRun is a limiter while it is measured. Its limits are asked by a driver each.
type foreignRun struct {
	foreign
	peerRun
	row     Foreign
	drivers map[int64]*driver
}

// languages measures every limiter.
func (b *bench) languages(ctx context.Context) (*Languages, error) {
	for language, t := range toolchains {
		b.progress("languages: making the driver for %s", language)
		if err := t.prepare(); err != nil {
			return nil, err
		}
	}
	server, err := b.server.version(ctx)
	if err != nil {
		return nil, err
	}
	r := &Languages{time.Now().UTC().Format(time.DateOnly), server, cpu(), b.rounds, nil}
	runs, err := foreignRuns()
	defer func() {
		for _, run := range runs {
			run.stop()
		}
	}()
	for _, step := range []func(context.Context, []*foreignRun) error{
		b.foreignCosts, b.foreignStates, b.foreignAudits} {
		if err == nil {
			err = step(ctx, runs)
		}
	}
	for _, run := range runs {
		r.Rows = append(r.Rows, run.row)
	}
	return r, errors.Join(err, b.server.FlushAll(ctx).Err())
}

func foreignRuns() ([]*foreignRun, error) {
	var runs []*foreignRun
	for _, f := range foreigners() {
		run := &foreignRun{foreign: f, drivers: map[int64]*driver{}}
		run.row = Foreign{Language: f.language, Ours: f.script != nil}
		run.row.Name, run.row.Module, run.row.Guarantee = f.name, f.module, f.guarantee
		version, err := toolchains[f.language].pinned(f.client.module)
		run.row.Client = f.client.name + " " + version
		if err == nil && f.module != "" {
			run.row.Version, err = toolchains[f.language].pinned(f.module)
		}
		if err != nil {
			return nil, err
		}
		run.peer = peer{name: f.name, make: run.ask}
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
	return func(_ context.Context, subject string) (bool, error) {
		return r.drivers[limit].take(r.subject(subject))
	}, nil
}

// subject is one that no other limiter has: some use it as their key.
func (f foreign) subject(name string) string { return f.language + " " + f.name + " " + name }

func (r *foreignRun) stop() {
	for _, d := range r.drivers {
		d.stop()
	}
}

// Where is the language and the client.
func (f Foreign) Where() string { return f.Language + ", " + f.Client }

// String is a cell of a table.
func (d Decision) String() string { return fmt.Sprintf("%.0f", d.CPU.Median) }

// String is what the caller got, and what it was charged.
func (l Lost) String() string {
	switch {
	case l.Answer == "":
		return ""
	case l.Charged > 1:
		return fmt.Sprintf("%s, **%d charged**", l.Answer, l.Charged)
	}
	return fmt.Sprintf("%s, %d charged", l.Answer, l.Charged)
}

// Agree is what the audit found with clocks that agree.
func (f Foreign) Agree() string { return f.auditText(0) }

// Apart is what the audit found with half of the clocks ahead.
func (f Foreign) Apart() string { return f.auditText(1) }

func (f Foreign) auditText(i int) string { f.Audits = f.Audits[i : i+1]; return f.Found() }

// Window is that of the audits.
func (l *Languages) Window() time.Duration { return l.Rows[0].Audits[0].Window }

// Processes is how many audit a limiter.
func (*Languages) Processes() int { return foreignProcesses }

// Ahead is how far half of their clocks are ahead in the second audit.
func (*Languages) Ahead() time.Duration { return foreignAhead }
