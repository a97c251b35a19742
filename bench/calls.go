package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// batchSize is the decisions of a batch, or of a pipeline of calls for many keys.
const batchSize = 100

// A caller is one way to decide from Go, by one call.
type caller struct {
	way   string
	batch int // decisions of a call
	call  func(ctx context.Context, i int) error
}

// e2eLimit grants every call, lowLimit few.
var (
	e2eLimit = loader.PerSecond(1e7)
	lowLimit = loader.PerSecond(1000)
)

// callers are the ways side by side: a new one of the loader is one more entry.
func callers(rdb *redis.Client) []caller {
	limits := loader.New(rdb, loader.WithoutSharing())
	options := *rdb.Options()
	options.ContextTimeoutEnabled = false
	plain := loader.New(redis.NewClient(&options), loader.WithoutSharing())
	gcra := limits.GCRA("e2e", e2eLimit)
	shared := loader.New(rdb).GCRA("e2e", e2eLimit)
	return []caller{
		{"EVALSHA gcra, bare", 1, bareEvalsha(rdb)},
		{"INCR, bare", 1, bareIncr(rdb)},
		{"loader GCRA", 1, asking(gcra, subjectOf)},
		{"loader GCRA, no ContextTimeoutEnabled", 1, asking(plain.GCRA("e2e", e2eLimit), subjectOf)},
		{"loader ListLog", 1, asking(limits.ListLog("e2e", loader.PerSecond(1000)), subjectOf)},
		{"loader GCRA, shared round trips", 1, asking(shared, subjectOf)},
		{"loader GCRA, batches of 100", batchSize, batching(limits, gcra)},
		{"loader GCRA, one subject", 1, hot(gcra, e2eLimit)},
		{"loader GCRA, one subject, shared round trips", 1, hot(shared, e2eLimit)},
		{"loader GCRA, one subject, mostly denied", 1, hot(gcra, lowLimit)},
		{"loader GCRA, one subject, mostly denied, shared round trips", 1, hot(shared, lowLimit)},
	}
}

// hot asks for permits of one subject.
func hot(limiter loader.GCRA, limit loader.Limit) func(context.Context, int) error {
	subject := fmt.Sprint("hot-", limit.Permits)
	return asking(limiter.With(limit), func(int) string { return subject })
}

// asking asks a limiter for one permit of a subject.
func asking(limiter loader.Limiter, subject func(i int) string) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		_, err := limiter.Allow(ctx, subject(i))
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

func bareEvalsha(rdb *redis.Client) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		return rdb.EvalSha(ctx, sluice.GCRAV1().SHA1, []string{"bare:{" + subjectOf(i) + "}"},
			e2eLimit.Permits, e2eLimit.Window.Microseconds(), e2eLimit.Permits, int64(1), int64(0)).Err()
	}
}

func bareIncr(rdb *redis.Client) func(context.Context, int) error {
	return func(ctx context.Context, i int) error { return rdb.Incr(ctx, "bare:{"+subjectOf(i)+"}n").Err() }
}

// goroutines are how many call at a time.
var goroutines = []int{1, 4, 16, 64}

// A calling is a caller while it is measured.
type calling struct {
	*Row
	load
}

// endToEnd measures every caller at every number of goroutines.
func (b *bench) endToEnd(ctx context.Context) ([]*Row, error) {
	var list []calling
	for _, c := range callers(b.server.Client) {
		for _, n := range goroutines {
			list = append(list, calling{&Row{Name: c.way, Size: int64(n)},
				load{goroutines: n, batch: c.batch, span: b.loadSpan, call: c.call}})
		}
	}
	return b.calling(ctx, list)
}

// calling measures the calls in turn.
func (b *bench) calling(ctx context.Context, list []calling) (rows []*Row, err error) {
	if err := loader.New(b.server.Client).Preload(ctx); err != nil {
		return nil, err
	}
	for _, c := range list {
		rows = append(rows, c.Row)
	}
	return rows, inTurn(b, list, func(c calling, _ int) error {
		sample, err := b.load(ctx, c.load)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		c.noteLoad(sample)
		return nil
	})
}

// together is a script for many keys beside the one for one key.
type together struct {
	one, many sluice.Script
	args      []any
}

var togethers = []together{
	{sluice.GCRAV1(), sluice.GCRAManyV1(), []any{1_000_000, time.Minute.Microseconds(), 1_000_000, 1, 0}},
	{sluice.ListLogV1(), sluice.ListLogManyV1(), []any{10_000, (10 * time.Minute).Microseconds(), 1, 0}},
	{sluice.SliceRingV1(), sluice.SliceRingManyV1(), []any{1, 0, 300_000, 201, 1_000_000}},
}

// keysOfACall are numbers of keys that divide a pipeline of 100 decisions, as far as the script takes so many.
func (t together) keysOfACall() []int {
	return slices.DeleteFunc([]int{1, 5, 10, 20, 25, 50}, func(n int) bool { return n > t.many.KeyGroup.Max })
}

const manyLaps = 7 // over the subjects, in a round: a log holds one permit more after each

// manys measures the server's processor time for one decision in calls for many keys, over 1000 subjects, all granted.
// The decisions come in pipelines of 100, whatever the number of keys in a call; 1 is the script for one key.
func (b *bench) manys(ctx context.Context) ([]*Row, error) {
	var list []calling
	bases := map[*Row]*Row{}
	for _, t := range togethers {
		var base *Row
		for _, keys := range t.keysOfACall() {
			row := &Row{Name: t.many.Name, Size: int64(keys)}
			base = cmp.Or(base, row)
			bases[row] = base
			list = append(list, calling{row, load{goroutines: 1, batch: batchSize, calls: manyLaps * subjects / batchSize,
				call: func(ctx context.Context, i int) error { return t.pipeline(ctx, b.server, i, keys) }}})
		}
	}
	rows, err := b.calling(ctx, list)
	for _, row := range rows {
		if err == nil {
			row.against(bases[row], "cpu us", "to single calls")
		}
	}
	return rows, err
}

func (t together) pipeline(ctx context.Context, on *server, from, keys int) error {
	script := t.many
	if keys == 1 {
		script = t.one
	}
	p := on.Pipeline()
	for at := from; at < from+batchSize; at += keys {
		words := []any{"evalsha", script.SHA1, keys}
		for k := range keys {
			words = append(words, fmt.Sprintf("sluice:many:{%s}:%s:%d", subjectOf(at+k), script.Name, keys))
		}
		p.Do(ctx, append(words, t.args...)...)
	}
	replies, err := p.Exec(ctx)
	if err != nil {
		return err
	}
	for _, cmd := range replies {
		for i := range keys {
			if reply := cmd.(*redis.Cmd).Val(); eachGranted(script, reply, keys, i) != 1 {
				return fmt.Errorf("%v, want %d grants", reply, keys)
			}
		}
	}
	return nil
}

// eachGranted is what was granted for the i-th of the keys of a call, or of its subjects.
func eachGranted(script sluice.Script, reply any, subjects, i int) int64 {
	fields, _ := reply.([]any)
	if script.KeyGroup == nil {
		return first(reply)
	}
	if len(fields) <= subjects {
		return -1
	}
	return first(fields[1+i*(len(fields)-1)/subjects:])
}
