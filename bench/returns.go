package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// A Return is what the server spends on giving permits back, by INFO commandstats.
type Return struct {
	Subject string  `json:"subject"`
	Entries int64   `json:"entries"` // permits stored, or slices of a ring
	Later   int64   `json:"later"`   // entries, or slices, behind those that are given back
	Permits int64   `json:"permits"` // given back by one call
	Usec    Spread  `json:"usec"`
	Max     float64 `json:"max_us"` // of a round, on average over its calls
	Ratio   Spread  `json:"ratio"`  // to the floor, in the same round
}

// A giveback is one row before it is measured.
type giveback struct {
	script  sluice.Script
	entries int64
	later   int64
	permits int64
	fill    func(ctx context.Context, b *bench, g *giveback) error
	args    func(g *giveback) []any
	moment  time.Time // that the permits were granted for
	usec    []float64
	ratio   []float64
}

// givebacks are the rows whose state is no larger than a run allows.
func (b *bench) givebacks() []*giveback {
	list := func(entries, later, permits int64) *giveback {
		return &giveback{script: sluice.ListLogReturnV1(), entries: entries, later: later, permits: permits, fill: fillList,
			args: func(g *giveback) []any { return []any{g.moment.UnixMicro(), g.permits} }}
	}
	zset := func(entries, later, permits int64) *giveback {
		return &giveback{script: sluice.ZSetLogReturnV1(), entries: entries, later: later, permits: permits, fill: fillZSet,
			args: func(g *giveback) []any { return []any{"id", g.permits} }}
	}
	sliced := func(slices, later int64) *giveback {
		return &giveback{script: sluice.SliceRingReturnV1(), entries: slices, later: later, permits: 1, fill: fillRing,
			args: func(g *giveback) []any {
				return []any{g.moment.UnixMicro(), g.permits, ringSlice.Microseconds(), g.entries}
			}}
	}
	all := []*giveback{
		list(100, 0, 1), list(1e4, 0, 1), list(1e4, 20, 1), list(1e4, 1000, 1), list(1e6, 0, 1), list(1e6, 1000, 1),
		list(1e6, 0, 1000), list(1e6, 1000, 1000),
		zset(100, 0, 1), zset(1e4, 0, 1), zset(1e4, 0, 500), zset(1e4, 5000, 500),
		sliced(201, 0), sliced(201, 1), sliced(1000, 999),
	}
	return slices.DeleteFunc(all, func(g *giveback) bool { return g.entries > b.mostLive })
}

func (g *giveback) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", g.script.Name, g.entries, g.later, g.permits)
}

func (g *giveback) template() string { return "{returns/" + g.String() + "}" }

// times are those of the entries, oldest first: each a microsecond after the last, but for the permits, which are of
// one moment.
func (g *giveback) times() []int64 {
	begin := time.Now().Add(-10 * time.Minute).UnixMicro()
	times := make([]int64, g.entries)
	first := g.entries - g.later - g.permits
	for i := range g.entries {
		times[i] = begin + 100*i
		if i > first && i < first+g.permits {
			times[i] = times[first]
		}
	}
	g.moment = time.UnixMicro(times[first])
	return times
}

// entriesAtOnce is how many entries one command writes.
const entriesAtOnce = 10_000

func fillList(ctx context.Context, b *bench, g *giveback) error {
	for chunk := range slices.Chunk(g.times(), entriesAtOnce) {
		entries := make([]any, len(chunk))
		for i, at := range chunk {
			entries[i] = at
		}
		if err := b.server.RPush(ctx, g.template(), entries...).Err(); err != nil {
			return err
		}
	}
	return b.server.PExpire(ctx, g.template(), day).Err()
}

func fillZSet(ctx context.Context, b *bench, g *giveback) error {
	members := make([]redis.Z, 0, g.entries)
	first := g.entries - g.later - g.permits
	for i, at := range g.times() {
		name := fmt.Sprintf("%016d", i)
		switch k := int64(i) - first + 1; {
		case k == 1:
			name = "id"
		case k > 1 && k <= g.permits:
			name = fmt.Sprintf("id||%d", k)
		}
		members = append(members, redis.Z{Score: float64(at), Member: name})
	}
	for chunk := range slices.Chunk(members, entriesAtOnce) {
		if err := b.server.ZAdd(ctx, g.template(), chunk...).Err(); err != nil {
			return err
		}
	}
	return b.server.PExpire(ctx, g.template(), day).Err()
}

func fillRing(ctx context.Context, b *bench, g *giveback) error {
	s := ring(g.entries, 1)
	s.keys = []string{""}
	g.moment = time.Now().Add(-time.Duration(g.later) * ringSlice)
	a := ask{limit: s.most, window: s.longest, permits: 1}
	h := history{1 + min(g.later, 1), g.moment, time.Duration(g.later) * ringSlice}
	return s.fill(ctx, b.server, g.template(), a, h)
}

// calls are fewer where a copy of the state takes long.
func (g *giveback) calls(b *bench) int { return max(min(b.calls, int(4e5/g.entries)), 2) }

// measure runs one round: the floor, then the return on copies of the state, one call each.
func (g *giveback) measure(ctx context.Context, b *bench) error {
	base := floor()
	below, err := b.server.run(ctx, base, 1, b.calls, true, func(_, _ int) []any { return base.command("floor:0", ask{}) })
	if err != nil {
		return err
	}
	key := func(i int) string { return fmt.Sprint(g.template(), i) }
	calls := g.calls(b)
	_, err = b.server.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range calls {
			p.Copy(ctx, g.template(), key(i), 0, true)
		}
		return nil
	})
	if err != nil {
		return err
	}
	of := subject{name: g.String(), source: g.script.Source,
		says: func(reply any) bool { return first(reply) == g.permits }}
	usec, err := b.server.run(ctx, of, calls, 1, true, func(i, _ int) []any {
		return append([]any{"evalsha", g.script.SHA1, 1, key(i)}, g.args(g)...)
	})
	g.usec, g.ratio = append(g.usec, usec), append(g.ratio, usec/below)
	return err
}

// returns measures every row once a round.
func (b *bench) returns(ctx context.Context) ([]Return, error) {
	all := b.givebacks()
	for _, g := range all {
		b.progress("returns: filling %s", g)
		if err := g.fill(ctx, b, g); err != nil {
			return nil, fmt.Errorf("%s: %w", g, err)
		}
	}
	for round := range b.rounds {
		b.progress("returns: round %d of %d", round+1, b.rounds)
		for i := range all {
			if err := all[(i+round)%len(all)].measure(ctx, b); err != nil {
				return nil, err
			}
		}
	}
	rows := make([]Return, len(all))
	for i, g := range all {
		rows[i] = Return{g.script.Name, g.entries, g.later, g.permits, spreadOf(g.usec), slices.Max(g.usec),
			spreadOf(g.ratio)}
	}
	return rows, b.server.FlushAll(ctx).Err()
}
