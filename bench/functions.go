package main

import (
	"context"
	"fmt"
	"slices"
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
	Caller  Spread `json:"caller"` // likewise, what the caller of the loader waits
}

// A called is a script and what it is asked, with limit for the limit and id for an id of its own.
type called struct {
	script *sluice.Script
	keys   int
	args   func(limit int, id string) []any
}

var calleds = []called{
	{&sluice.ListLogV1, 1, func(limit int, _ string) []any { return []any{limit, time.Hour, 1, 0} }},
	{&sluice.ZSetLogV1, 1, func(limit int, id string) []any { return []any{limit, time.Hour, 1, 0, id} }},
	{&sluice.GCRAV1, 1, func(limit int, _ string) []any { return []any{1, time.Hour, limit, 1, 0} }},
	{&sluice.SliceRingV1, 1, func(limit int, _ string) []any { return []any{time.Minute, 1, 61, limit} }},
	{&sluice.TokenBucketV1, 3, func(limit int, _ string) []any { return []any{limit, time.Hour, 0, 1, 0} }},
}

// functions calls each script by EVALSHA and by FCALL, in blocks that take turns.
func (b *bench) functions(ctx context.Context) ([]Function, error) {
	ways := []*loader.Loader{loader.New(b.server), loader.New(b.server, loader.Functions())}
	for _, way := range ways {
		if err := way.Preload(ctx); err != nil {
			return nil, err
		}
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
func (b *bench) block(ctx context.Context, way *loader.Loader, c called, outcome string) (us, wait float64, err error) {
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, 0, err
	}
	keys, limit, want := make([]string, c.keys), 10_000, int64(1)
	for i := range keys {
		keys[i] = fmt.Sprintf("{function}:%d", i)
	}
	if outcome == denied {
		limit, want = 1, 0
		if _, err := way.Call(ctx, c.script, keys, c.args(limit, "first")...); err != nil {
			return 0, 0, err
		}
	}
	if err := b.server.ConfigResetStat(ctx).Err(); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	for i := range b.calls {
		reply, err := way.Call(ctx, c.script, keys, c.args(limit, fmt.Sprintf("%019d", i))...)
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
