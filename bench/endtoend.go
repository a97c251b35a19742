package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// An EndToEnd is what callers in Go see.
type EndToEnd struct {
	Way        string `json:"way"`
	Goroutines int    `json:"goroutines"`
	Batch      int    `json:"batch"` // decisions of one call
	PerSecond  Spread `json:"per_second"`
	// of PerSecond to a bare EVALSHA, one by one, from as many goroutines in the same round
	Ratio Spread  `json:"ratio"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
}

// A caller is one way to decide from Go. It makes one round trip, for so many decisions.
type caller struct {
	way   string
	batch int
	call  func(ctx context.Context, i int) error
}

const (
	bareEvalsha  = "EVALSHA gcra, bare"
	bareIncr     = "INCR, bare"
	loaderGCRA   = "loader GCRA"
	loaderShared = "loader GCRA, shared round trips"

	hotGCRA      = "loader GCRA, one subject"
	hotShared    = "loader GCRA, one subject, shared round trips"
	deniedGCRA   = "loader GCRA, one subject, mostly denied"
	deniedShared = "loader GCRA, one subject, mostly denied, shared round trips"

	batchSize = 100
	subjects  = 1000 // that the callers go through
)

// The contexts that the loader is called with.
const (
	atConnection = "can be cancelled" // and the client has ContextTimeoutEnabled
	background   = "background, no ContextTimeoutEnabled"
	withDeadline = "deadline, no ContextTimeoutEnabled"
)

// e2eLimit grants every call, lowLimit few.
var (
	e2eLimit = loader.PerSecond(1e7)
	lowLimit = loader.PerSecond(1000)
)

// callers are the ways side by side: a new one of the loader is one more entry.
func callers(rdb redis.UniversalClient) []caller {
	limits := loader.New(rdb, loader.WithoutSharing())
	gcra := limits.GCRA("e2e", e2eLimit)
	shared := loader.New(rdb).GCRA("e2e", e2eLimit)
	log := limits.ListLog("e2e", loader.PerSecond(1000))
	bare := newBareKeys()
	return []caller{
		{bareEvalsha, 1, func(ctx context.Context, i int) error { return bare.evalsha(ctx, rdb, i) }},
		{bareIncr, 1, func(ctx context.Context, i int) error { return bare.incr(ctx, rdb, i) }},
		{loaderGCRA, 1, allowing(gcra)},
		{"loader ListLog", 1, allowing(log)},
		{loaderShared, 1, allowing(shared)},
		{loaderGCRA, batchSize, batching(limits, gcra)},
		{hotGCRA, 1, hot(gcra, e2eLimit)},
		{hotShared, 1, hot(shared, e2eLimit)},
		{deniedGCRA, 1, hot(gcra, lowLimit)},
		{deniedShared, 1, hot(shared, lowLimit)},
		{bareIncr, batchSize, pipelined(rdb, bare.incr)},
		{bareEvalsha, batchSize, pipelined(rdb, bare.evalsha)},
	}
}

// subjectOf returns the name of the i-th subject. Subjects repeat after a fixed number.
var subjectOf = func() func(i int) string {
	names := make([]string, subjects)
	for i := range names {
		names[i] = fmt.Sprint("subject-", i)
	}
	return func(i int) string { return names[i%subjects] }
}()

// allowing asks a limiter for one permit of each subject in turn.
func allowing(limiter loader.Limiter) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		_, err := limiter.Allow(ctx, subjectOf(i))
		return err
	}
}

// batching asks for the permits of many subjects in one batch.
func batching(limits *loader.Loader, gcra loader.GCRA) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		batch := limits.Batch()
		for k := range batchSize {
			batch.Allow(gcra, subjectOf(i+k))
		}
		_, err := batch.Do(ctx)
		return err
	}
}

// hot asks for permits of one subject.
func hot(limiter loader.GCRA, limit loader.Limit) func(context.Context, int) error {
	limiter = limiter.With(limit)
	subject := fmt.Sprint("hot-", limit.Permits)
	return func(ctx context.Context, _ int) error {
		_, err := limiter.Allow(ctx, subject)
		return err
	}
}

// bareKeys are the keys of the calls without the loader.
type bareKeys []string

func newBareKeys() bareKeys {
	keys := make(bareKeys, subjects)
	for i := range keys {
		keys[i] = "bare:{" + subjectOf(i) + "}"
	}
	return keys
}

func (b bareKeys) evalsha(ctx context.Context, c redis.Cmdable, i int) error {
	return c.EvalSha(ctx, sluice.GCRAV1().SHA1, []string{b[i%subjects]},
		e2eLimit.Permits, e2eLimit.Window.Microseconds(), e2eLimit.Permits, int64(1), int64(0)).Err()
}

func (b bareKeys) incr(ctx context.Context, c redis.Cmdable, i int) error {
	return c.Incr(ctx, b[i%subjects]+"n").Err()
}

// pipelined sends many commands in one pipeline.
func pipelined(rdb redis.UniversalClient,
	send func(ctx context.Context, c redis.Cmdable, i int) error) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		p := rdb.Pipeline()
		for k := range batchSize {
			_ = send(ctx, p, i+k) // Exec has the errors
		}
		_, err := p.Exec(ctx)
		return err
	}
}

// goroutines are how many call at a time.
var goroutines = []int{1, 4, 16, 64}

// A load is a caller under so many goroutines while it is measured.
type load struct {
	caller
	goroutines       int
	perSecond, ratio []float64
	latencies        []time.Duration
}

// endToEnd runs every caller for a short time in each round, at every number of goroutines.
func (b *bench) endToEnd(ctx context.Context) ([]EndToEnd, error) {
	if err := loader.New(b.server.Client).Preload(ctx); err != nil {
		return nil, err
	}
	levels := make([][]*load, len(goroutines))
	for i, n := range goroutines {
		for _, c := range callers(b.server.Client) {
			levels[i] = append(levels[i], &load{caller: c, goroutines: n})
		}
	}
	rounds := max(b.rounds/3, 1)
	for round := range rounds {
		b.progress("end to end: round %d of %d", round+1, rounds)
		for _, loads := range levels {
			if err := inTurn(round, loads, func(l *load) error { return l.run(ctx, b.loadSpan) }); err != nil {
				return nil, err
			}
			base := loads[0].perSecond[round]
			for _, l := range loads {
				l.ratio = append(l.ratio, l.perSecond[round]/base)
			}
		}
	}
	var rows []EndToEnd
	for _, l := range slices.Concat(levels...) {
		slices.Sort(l.latencies)
		rows = append(rows, EndToEnd{l.way, l.goroutines, l.batch, spreadOf(l.perSecond), spreadOf(l.ratio),
			l.percentile(0.5), l.percentile(0.99)})
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// inTurn runs all of a list; the first is another one in each round.
func inTurn[T any](round int, list []T, run func(T) error) error {
	for i := range list {
		if err := run(list[(i+round)%len(list)]); err != nil {
			return err
		}
	}
	return nil
}

// percentile is of the time of a call, in microseconds; 0 if a quick run had no time for one. The latencies are sorted.
func (l *load) percentile(q float64) float64 {
	if len(l.latencies) == 0 {
		return 0
	}
	return float64(l.latencies[int(q*float64(len(l.latencies)-1))].Nanoseconds()) / 1000
}

// run calls for that long and notes how long each call took.
func (l *load) run(ctx context.Context, span time.Duration) error {
	var next atomic.Int64
	latencies := make([][]time.Duration, l.goroutines)
	begin := time.Now()
	failed := make([]error, l.goroutines)
	var wg sync.WaitGroup
	for worker := range l.goroutines {
		wg.Go(func() {
			for now := time.Now(); now.Sub(begin) < span && failed[worker] == nil; {
				failed[worker] = l.call(ctx, int(next.Add(int64(l.batch))))
				done := time.Now()
				latencies[worker] = append(latencies[worker], done.Sub(now))
				now = done
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	all := slices.Concat(latencies...)
	l.latencies = append(l.latencies, all...)
	l.perSecond = append(l.perSecond, float64(len(all)*l.batch)/took.Seconds())
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("%s: %w", l.way, err)
	}
	return nil
}

// A LoaderCost is what a GCRA of the loader adds to the EVALSHA that it sends, from one goroutine.
type LoaderCost struct {
	Context      string  `json:"context"` // and the client
	BareAllocs   float64 `json:"bare_allocs"`
	LoaderAllocs float64 `json:"loader_allocs"`
	Time         Spread  `json:"time"` // of a call, to the bare one's in the same round
}

// loaderCosts alternates the bare call and the loader's, with README's client, and with and without a deadline with one
// that does not end calls in time by itself.
func (b *bench) loaderCosts(ctx context.Context) ([]LoaderCost, error) {
	if err := loader.New(b.server.Client).Preload(ctx); err != nil {
		return nil, err
	}
	options := *b.server.Client.Options()
	options.ContextTimeoutEnabled = false
	plain := redis.NewClient(&options)
	defer func() { _ = plain.Close() }()
	limited, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	keys := newBareKeys()
	var rows []LoaderCost
	for _, c := range []struct {
		ctx  context.Context
		rdb  *redis.Client
		kind string
	}{{ctx, b.server.Client, atConnection}, {context.Background(), plain, background}, {limited, plain, withDeadline}} {
		b.progress("loader: %s", c.kind)
		gcra := loader.New(c.rdb).GCRA("cost", e2eLimit)
		var failed error
		bare := func() { failed = cmp.Or(failed, keys.evalsha(c.ctx, c.rdb, 0)) }
		allow := func() {
			_, err := gcra.Allow(c.ctx, "subject")
			failed = cmp.Or(failed, err)
		}
		ratios := b.ratios(bare, allow)
		rows = append(rows, LoaderCost{c.kind, testing.AllocsPerRun(b.calls, bare), testing.AllocsPerRun(b.calls, allow),
			spreadOf(ratios)})
		if failed != nil {
			return nil, failed
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// ratios are what calls of the other take, to calls of the one in the same round. Either is the first of a pair as
// often: to come second is not the same.
func (b *bench) ratios(one, other func()) []float64 {
	var ratios []float64
	for range 2 * b.rounds {
		below, above := inTurns(b.calls/2, one, other)
		first, second := inTurns(b.calls/2, other, one)
		ratios = append(ratios, (above+first).Seconds()/(below+second).Seconds())
	}
	return ratios
}

// inTurns is how long so many calls of each take, one of the one and then one of the other.
func inTurns(calls int, one, other func()) (ofOne, ofOther time.Duration) {
	for range calls {
		begin := time.Now()
		one()
		between := time.Now()
		other()
		ofOne += between.Sub(begin)
		ofOther += time.Since(between)
	}
	return ofOne, ofOther
}
