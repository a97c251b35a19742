package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluice-redis/sluice/loader"
)

// What a library promises of the permits in an interval as long as the window.
const (
	anyWindow   = "any window"   // never more than the limit
	burstRate   = "burst + rate" // the burst and what comes back meanwhile: twice the limit where they are alike
	fixedWindow = "fixed window" // the limit between two edges; nothing across one
	estimate    = "estimate"     // about the limit: the window before counts in proportion
	slicewise   = "slices"       // never more than the limit, by a window one slice longer
	none        = "none"         // counts nothing
)

// nothing is a script that does nothing, called as the others are: no limiter, but the least that an EVALSHA takes.
const nothing = "EVALSHA of return 1"

// A decider asks for one permit of a subject.
type decider func(ctx context.Context, subject string) (bool, error)

// A peer is a library, and its limiter made as its own documentation does.
type peer struct {
	name      string
	module    string // empty: ours
	guarantee string
	make      func(on *server, limit int64, window time.Duration) (decider, error)
}

// peers are the libraries in Go that limit on Redis and come as modules, and ours beside them.
func peers() []peer {
	return []peer{
		oursBeside("list_log", anyWindow, (*loader.Loader).ListLog),
		oursBeside("zset_log", anyWindow, (*loader.Loader).ZSetLog),
		oursBeside("token_bucket", anyWindow, (*loader.Loader).TokenBucket),
		oursBeside("slice_ring", slicewise, ringBeside),
		oursBeside("gcra", burstRate, (*loader.Loader).GCRA),
		{name: "redis_rate", module: "github.com/go-redis/redis_rate/v10", guarantee: burstRate, make: newRedisRate},
		{name: "throttled", module: "github.com/throttled/throttled/v2", guarantee: burstRate, make: newThrottled},
		{name: "ulule/limiter", module: "github.com/ulule/limiter/v3", guarantee: fixedWindow, make: newUlule},
		{name: "go-redisstore", module: "github.com/sethvargo/go-redisstore", guarantee: fixedWindow, make: newRedisStore},
		{name: "httprate-redis", module: "github.com/go-chi/httprate-redis", guarantee: estimate, make: newHTTPRate},
		{name: "capped counter", guarantee: fixedWindow, make: newCounter},
		{name: nothing, guarantee: none, make: newNothing},
	}
}

// oursBeside is used as README's example for production does.
func oursBeside[L loader.Limiter](name, guarantee string,
	limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) L) peer {
	build := func(on *server, limit int64, window time.Duration) (decider, error) {
		l := limiter(loader.New(on.Client), "peer", loader.Limit{Permits: limit, Window: window})
		return func(ctx context.Context, subject string) (bool, error) {
			d, err := l.Allow(ctx, subject)
			return d.Granted, err
		}, nil
	}
	return peer{name: name, guarantee: guarantee, make: build}
}

func ringBeside(l *loader.Loader, name string, limit loader.Limit, _ ...loader.LimiterOption) loader.SliceRing {
	return l.SliceRing(name, []loader.Limit{limit})
}

func newRedisRate(on *server, limit int64, window time.Duration) (decider, error) {
	l := redis_rate.NewLimiter(on.Client)
	rate := redis_rate.Limit{Rate: int(limit), Burst: int(limit), Period: window}
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Allow(ctx, subject, rate)
		return err == nil && result.Allowed > 0, err
	}, nil
}

func newThrottled(on *server, limit int64, window time.Duration) (decider, error) {
	l, err := throttledLimiter(on, limit, window)
	return func(ctx context.Context, subject string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, subject, 1)
		return !limited, err
	}, err
}

func throttledLimiter(on *server, limit int64, window time.Duration) (*throttled.GCRARateLimiterCtx, error) {
	store, err := goredisstore.NewCtx(on.Client, "throttled:")
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(limit), window), MaxBurst: int(limit) - 1}
	return throttled.NewGCRARateLimiterCtx(store, quota)
}

func newUlule(on *server, limit int64, window time.Duration) (decider, error) {
	l, err := ululeLimiter(on, limit, window)
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Get(ctx, subject)
		return !result.Reached, err
	}, err
}

func ululeLimiter(on *server, limit int64, window time.Duration) (*limiter.Limiter, error) {
	store, err := ululeredis.NewStore(on.Client)
	return limiter.New(store, limiter.Rate{Period: window, Limit: limit}), err
}

func newRedisStore(on *server, limit int64, window time.Duration) (decider, error) {
	store, err := redisstore.New(&redisstore.Config{
		Tokens: uint64(limit), Interval: window,
		Dial: func() (redigo.Conn, error) { return redigo.Dial("tcp", on.process.Addr) },
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, subject string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, subject)
		return ok, err
	}, nil
}

func newHTTPRate(on *server, limit int64, window time.Duration) (decider, error) {
	l := httprateLimiter(on, limit, window)
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	return func(_ context.Context, subject string) (bool, error) {
		return !l.OnLimit(httptest.NewRecorder(), request, subject), nil
	}, nil
}

func httprateLimiter(on *server, limit int64, window time.Duration) *httprate.RateLimiter {
	counter := httprateredis.NewCounter(&httprateredis.Config{Client: on.Client, FallbackDisabled: true})
	return httprate.NewRateLimiter(int(limit), window, httprate.WithLimitCounter(counter),
		httprate.WithKeyFuncs(func(r *http.Request) (string, error) { return subjectOfRequest(r), nil }))
}

// newNothing grants as many as the limit, whatever the subject: a call costs the same either way.
func newNothing(on *server, limit int64, _ time.Duration) (decider, error) {
	script, calls := redis.NewScript("return 1"), new(atomic.Int64)
	return func(ctx context.Context, subject string) (bool, error) {
		return calls.Add(1) <= limit, script.Run(ctx, on, []string{subject}).Err()
	}, nil
}

// version is that of the module in this build.
func (p peer) version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == p.module {
			return dep.Version
		}
	}
	return ""
}

// A Library is what a library promises and lets through.
type Library struct {
	Name      string  `json:"name"`
	Module    string  `json:"module,omitempty"`
	Version   string  `json:"version,omitempty"`
	Guarantee string  `json:"guarantee"`
	Audits    []Audit `json:"audits"`
}

// A Peer is what a library costs.
type Peer struct {
	Library
	Ours    bool  `json:"ours"`
	Granted Cost  `json:"granted"`
	Denied  Cost  `json:"denied"`
	Alone   Cost  `json:"alone"` // granted, about one of many subjects
	Crowd   Cost  `json:"crowd"` // likewise, from 64 goroutines
	Bytes   int64 `json:"bytes"` // after a thousand permits
}

// A Cost is of one decision, to the floor called alike in the same round.
type Cost struct {
	CPU  Spread `json:"cpu"`  // the server's processor time, with reading, parsing and answering
	Time Spread `json:"time"` // until the caller has its answer; with many callers, the time of the run by decisions
}

// tooMany reports whether an audit found more in a window than the promise allows.
func (l Library) tooMany() bool {
	return slices.ContainsFunc(l.Audits, func(a Audit) bool {
		return a.Most > 2*a.Limit || a.Most > a.Limit && l.Guarantee != burstRate
	})
}

// A peerRun is a peer while it is measured.
type peerRun struct {
	peer
	granted, denied []sample
	alone, crowd    []sample
}

// A sample is the cost of a decision, in microseconds or as multiples of the floor's.
type sample struct{ cpu, time float64 }

func (s sample) over(floor sample) sample {
	return sample{s.cpu / floor.cpu, s.time / floor.time}
}

func costOf(samples []sample) Cost {
	cpu, time := make([]float64, len(samples)), make([]float64, len(samples))
	for i, s := range samples {
		cpu[i], time[i] = s.cpu, s.time
	}
	return Cost{spreadOf(cpu), spreadOf(time)}
}

const (
	peerLimit  = 1000   // of grants
	fullLimit  = 100    // of denials
	busyLimit  = 10_000 // of grants about many subjects
	peerWindow = day

	crowd = 64 // goroutines
)

// peers measures every library once a round, beside the floor called in the same way.
func (b *bench) peers(ctx context.Context) ([]Peer, error) {
	base := &peerRun{peer: peer{name: "floor", make: newFloor}}
	var runs []*peerRun
	for _, p := range peers() {
		runs = append(runs, &peerRun{peer: p})
	}
	for round := range b.rounds {
		b.progress("peers: round %d of %d", round+1, b.rounds)
		for i := range runs {
			run := runs[(i+round)%len(runs)]
			if err := b.peerRound(ctx, run, base, round); err != nil {
				return nil, fmt.Errorf("%s: %w", run.name, err)
			}
		}
	}
	var rows []Peer
	for _, run := range runs {
		b.progress("peers: %s: memory, audit", run.name)
		row, err := run.row(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", run.name, err)
		}
		rows = append(rows, row)
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// counter is what INCREX of Redis 8.8 does, with a cap and a lifetime, for servers without it.
const counter = `
if tonumber(redis.call("GET", KEYS[1]) or "0") >= tonumber(ARGV[1]) then return 0 end
if redis.call("INCR", KEYS[1]) == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[2]) end
return 1`

func newCounter(on *server, limit int64, window time.Duration) (decider, error) {
	script := redis.NewScript(counter)
	return func(ctx context.Context, subject string) (bool, error) {
		n, err := script.Run(ctx, on, []string{"counter:" + subject}, limit, window.Milliseconds()).Int()
		return n == 1, err
	}, nil
}

// newFloor is the floor, called as the libraries call their scripts.
func newFloor(on *server, _ int64, _ time.Duration) (decider, error) {
	script := redis.NewScript(floorSource)
	return func(ctx context.Context, subject string) (bool, error) {
		return true, script.Run(ctx, on, []string{"floor:" + subject}).Err()
	}, nil
}

// peerRound is one round of one library: grants, then denials, each beside the floor.
func (b *bench) peerRound(ctx context.Context, run, base *peerRun, round int) error {
	calls := 2 * b.calls
	below, err := base.decide(ctx, b, peerLimit, fmt.Sprint("floor", round), 0, calls, true)
	if err != nil {
		return err
	}
	subject := fmt.Sprintf("%s %d", run.name, round)
	grant, err := run.decide(ctx, b, peerLimit, "granted "+subject, 0, calls, true)
	if err != nil {
		return err
	}
	denial, err := run.decide(ctx, b, fullLimit, "denied "+subject, fullLimit, calls, false)
	if err != nil {
		return err
	}
	run.granted = append(run.granted, grant.over(below))
	run.denied = append(run.denied, denial.over(below))
	for goroutines, samples := range map[int]*[]sample{1: &run.alone, crowd: &run.crowd} {
		below, err := base.busy(ctx, b, goroutines)
		if err != nil {
			return err
		}
		grant, err := run.busy(ctx, b, goroutines)
		if err != nil {
			return err
		}
		*samples = append(*samples, grant.over(below))
	}
	return nil
}

// busy has so many goroutines ask about many subjects, far from their limit, and returns the cost of one decision.
func (r *peerRun) busy(ctx context.Context, b *bench, goroutines int) (sample, error) {
	decide, err := r.make(b.server, busyLimit, peerWindow)
	if err != nil {
		return sample{}, err
	}
	l := load{goroutines: goroutines, caller: caller{r.name, 1, func(ctx context.Context, i int) error {
		granted, err := decide(ctx, subjectOf(i))
		if err == nil && !granted && r.guarantee != none {
			err = errors.New("denied")
		}
		return err
	}}}
	if err := l.run(ctx, b.loadSpan/5); err != nil { // connections, scripts and keys are there
		return sample{}, err
	}
	before, err := b.server.cpu(ctx)
	warm := len(l.latencies)
	if err := errors.Join(err, l.run(ctx, b.loadSpan)); err != nil {
		return sample{}, err
	}
	after, err := b.server.cpu(ctx)
	return sample{cpu: (after - before) / float64(len(l.latencies)-warm), time: 1e6 / l.perSecond[1]}, err
}

// decide takes some permits beforehand, then calls and returns the cost of one decision. Each call must be granted, or
// denied, as the caller says.
func (r *peerRun) decide(ctx context.Context, b *bench, limit int64, subject string, before, calls int,
	grant bool) (sample, error) {
	decide, err := r.make(b.server, limit, peerWindow)
	if err != nil {
		return sample{}, err
	}
	expect := func(times int, want bool) error {
		for range times {
			got, err := decide(ctx, subject)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("granted %t, want %t, limit %d", got, want, limit)
			}
		}
		return nil
	}
	if err := expect(before, true); err != nil {
		return sample{}, err
	}
	cpu, err := b.server.cpu(ctx)
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	if err := expect(calls, grant); err != nil {
		return sample{}, err
	}
	took := time.Since(begin)
	used, err := b.server.cpu(ctx)
	n := float64(calls)
	return sample{(used - cpu) / n, took.Seconds() * 1e6 / n}, err
}

func (r *peerRun) row(ctx context.Context, b *bench) (Peer, error) {
	bytes, err := r.memory(ctx, b.server)
	if err != nil {
		return Peer{}, err
	}
	library, err := r.library(ctx, b)
	return Peer{
		Library: library, Ours: r.module == "" && r.guarantee != none, Granted: costOf(r.granted),
		Denied: costOf(r.denied), Alone: costOf(r.alone), Crowd: costOf(r.crowd), Bytes: bytes,
	}, err
}

// library audits a library.
func (r *peerRun) library(ctx context.Context, b *bench) (Library, error) {
	l := Library{Name: r.name, Module: r.module, Version: r.version(), Guarantee: r.guarantee}
	if r.guarantee == none {
		return l, nil
	}
	var err error
	l.Audits, err = r.audit(ctx, b.server, b.windows)
	return l, err
}

// memory is what one subject takes after a thousand permits.
func (r *peerRun) memory(ctx context.Context, on *server) (int64, error) {
	decide, err := r.make(on, peerLimit, peerWindow)
	if err != nil {
		return 0, err
	}
	before, err := on.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	for range peerLimit {
		if _, err := decide(ctx, "weighed"); err != nil {
			return 0, err
		}
	}
	keys, err := on.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	return on.memory(ctx, slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(before, key) }))
}
