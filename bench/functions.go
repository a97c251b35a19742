package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// A Function is a script called as a Redis Function, beside EVALSHA in the same round.
type Function struct {
	Script  string `json:"script"`
	Outcome string `json:"outcome"` // granted, denied
	Evalsha Spread `json:"evalsha_us"`
	Fcall   Spread `json:"fcall_us"`
	Server  Spread `json:"server"` // FCALL to EVALSHA, by INFO commandstats
	Caller  Spread `json:"caller"` // likewise, what the caller waits
}

// A called is a script and what it is asked, with limit for the limit and id for an id of its own.
type called struct {
	script *sluice.Script
	keys   int
	args   func(limit int, id string) []any
}

const hour = int64(time.Hour / time.Microsecond)

var calleds = []called{
	{new(sluice.ListLogV1()), 1, func(limit int, _ string) []any { return []any{limit, hour, 1, 0} }},
	{new(sluice.ZSetLogV1()), 1, func(limit int, id string) []any { return []any{limit, hour, 1, 0, id} }},
	{new(sluice.GCRAV1()), 1, func(limit int, _ string) []any { return []any{1, hour, limit, 1, 0} }},
	{new(sluice.SliceRingV1()), 1, func(limit int, _ string) []any {
		return []any{1, 0, time.Minute.Microseconds(), 61, limit}
	}},
	{new(sluice.TokenBucketV1()), 3, func(limit int, _ string) []any { return []any{limit, hour, 0, 1, 0} }},
}

// A way to call a script.
type way func(script *sluice.Script, keys []string, args []any) ([]int64, error)

// functions calls each script by EVALSHA and by FCALL, in blocks that take turns.
func (b *bench) functions(ctx context.Context) ([]Function, error) {
	for _, limits := range []*loader.Loader{loader.New(b.server), loader.New(b.server, loader.Functions())} {
		if err := limits.Preload(ctx); err != nil {
			return nil, err
		}
	}
	ways := []way{
		func(script *sluice.Script, keys []string, args []any) ([]int64, error) {
			return b.server.EvalSha(ctx, script.SHA1, keys, args...).Int64Slice()
		},
		func(script *sluice.Script, keys []string, args []any) ([]int64, error) {
			return b.server.FCall(ctx, strings.TrimSuffix(script.File, ".lua"), keys, args...).Int64Slice()
		},
	}
	var rows []Function
	for _, c := range calleds {
		for _, outcome := range []string{granted, denied} {
			b.progress("functions: %s, %s", c.script.Name, outcome)
			var usec, waits [2][]float64
			for round := range b.rounds {
				for i := range ways {
					i = (i + round) % 2
					us, wait, err := b.block(ctx, ways[i], c, outcome)
					if err != nil {
						return nil, fmt.Errorf("%s, %s: %w", c.script.Name, outcome, err)
					}
					usec[i], waits[i] = append(usec[i], us), append(waits[i], wait)
				}
			}
			rows = append(rows, Function{c.script.Name, outcome, spreadOf(usec[0]), spreadOf(usec[1]),
				spreadOf(ratios(usec)), spreadOf(ratios(waits))})
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// ratios are the second figures to the first, round by round.
func ratios(figures [2][]float64) []float64 {
	all := slices.Clone(figures[1])
	for i := range all {
		all[i] /= figures[0][i]
	}
	return all
}

// block is the server's microseconds for a call, and the caller's, over the calls of a round on an empty server. A
// limiter that denies holds one permit.
func (b *bench) block(ctx context.Context, call way, c called, outcome string) (us, wait float64, err error) {
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, 0, err
	}
	keys, limit, want := make([]string, c.keys), 10_000, int64(1)
	for i := range keys {
		keys[i] = fmt.Sprintf("{function}:%d", i)
	}
	if outcome == denied {
		limit, want = 1, 0
		if _, err := call(c.script, keys, c.args(limit, "first")); err != nil {
			return 0, 0, err
		}
	}
	if err := b.server.ConfigResetStat(ctx).Err(); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	for i := range b.calls {
		reply, err := call(c.script, keys, c.args(limit, fmt.Sprintf("%019d", i)))
		if err != nil || reply[0] != want {
			return 0, 0, fmt.Errorf("%v, %w; want granted %d", reply, err, want)
		}
	}
	wait = float64(time.Since(begin).Microseconds()) / float64(b.calls)
	stats, err := b.server.commandStats(ctx)
	if err != nil {
		return 0, 0, err
	}
	return (stats["evalsha"].usec + stats["fcall"].usec) / float64(b.calls), wait, nil
}
