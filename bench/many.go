package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// A Many is the server's processor time for one decision in calls for many keys, over 1000 subjects, all granted.
type Many struct {
	Script string `json:"script"`
	Keys   int    `json:"keys"` // of a call; 1: the script for one key
	CPU    Spread `json:"cpu_us"`
	Ratio  Spread `json:"ratio"` // to the script for one key, in the same round
}

// together is a script for many keys beside the one for one key.
type together struct {
	one, many sluice.Script
	args      []any
}

var togethers = []together{
	{sluice.GCRAV1(), sluice.GCRAManyV1(), []any{1_000_000, time.Minute.Microseconds(), 1_000_000, 1, 0}},
	{sluice.ListLogV1(), sluice.ListLogManyV1(), []any{1000, (10 * time.Minute).Microseconds(), 1, 0}},
	{sluice.SliceRingV1(), sluice.SliceRingManyV1(), []any{1, 0, 300_000, 201, 1_000_000}},
}

// keysOfACall are numbers of keys that divide a pipeline of 100 decisions, as far as the script takes so many.
func (t together) keysOfACall() []int {
	return slices.DeleteFunc([]int{1, 5, 10, 20, 25, 50}, func(n int) bool { return n > t.many.KeyGroup.Max })
}

const manyLaps = 8 // over the subjects, in a round: a log holds one permit more after each

// manys sends the decisions in pipelines of 100, whatever the number of keys in a call.
func (b *bench) manys(ctx context.Context) ([]Many, error) {
	var rows []Many
	for _, t := range togethers {
		numbers := t.keysOfACall()
		usec, ratio := make([][]float64, len(numbers)), make([][]float64, len(numbers))
		for round := range b.rounds {
			b.progress("many keys: %s, round %d of %d", t.many.Name, round+1, b.rounds)
			for i, keys := range numbers {
				us, err := b.spentOn(ctx, t, keys)
				if err != nil {
					return nil, fmt.Errorf("%s, %d keys: %w", t.many.Name, keys, err)
				}
				usec[i] = append(usec[i], us)
				ratio[i] = append(ratio[i], us/usec[0][round])
			}
		}
		for i, keys := range numbers {
			rows = append(rows, Many{t.many.Name, keys, spreadOf(usec[i]), spreadOf(ratio[i])})
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// spentOn is the processor time of the server for one decision.
func (b *bench) spentOn(ctx context.Context, t together, keys int) (float64, error) {
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	for _, script := range []sluice.Script{t.one, t.many} {
		if err := b.server.ScriptLoad(ctx, script.Source).Err(); err != nil {
			return 0, err
		}
	}
	var before float64
	for lap := range manyLaps {
		if lap == 1 { // the first makes the keys
			var err error
			if before, err = b.server.cpu(ctx); err != nil {
				return 0, err
			}
		}
		for from := 0; from < subjects; from += batchSize {
			if err := t.pipeline(ctx, b.server, from, keys); err != nil {
				return 0, err
			}
		}
	}
	after, err := b.server.cpu(ctx)
	return (after - before) / ((manyLaps - 1) * subjects), err
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
			words = append(words, "sluice:many:{"+subjectOf(at+k)+"}:"+script.Name)
		}
		p.Do(ctx, append(words, t.args...)...)
	}
	replies, err := p.Exec(ctx)
	if err != nil {
		return err
	}
	for _, cmd := range replies {
		reply, _ := cmd.(*redis.Cmd).Int64Slice()
		granted := 0
		for i := range keys {
			granted += int(slices.Concat(reply, make([]int64, 5))[min(keys-1, 1)+(len(reply)-1)/keys*i])
		}
		if granted != keys {
			return fmt.Errorf("%v, want %d grants", reply, keys)
		}
	}
	return nil
}

// manyEntries is the size of the logs of worstManys.
func (b *bench) manyEntries() int64 { return min(100_000, b.mostLive) }

// worstManys are single calls of list_log_many for 64 full logs, in which none, half or all but one entry has left.
func (b *bench) worstManys(ctx context.Context) ([]Worst, error) {
	var list subject
	for _, s := range ours() {
		if s.name == sluice.ListLogV1().Name {
			list = s
		}
	}
	a, err := b.age(ctx, list, b.manyEntries())
	if err != nil {
		return nil, err
	}
	var rows []Worst
	for _, expired := range []string{expiredNone, expiredHalf, expiredButOne, expiredAll} {
		for _, call := range []string{onePermit, mostPermits, aLook} {
			b.progress("worst call for 64 keys: %s expired, %s", expired, call)
			row, err := b.worstMany(ctx, a, expired, call)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

func (b *bench) worstMany(ctx context.Context, a *aged, expired, call string) (Worst, error) {
	const keys = 64
	permits := map[string]int64{onePermit: 1, mostPermits: 1000 / keys, aLook: 0}[call]
	words := []any{"evalsha", sluice.ListLogManyV1().SHA1, keys}
	for i := range keys {
		words = append(words, fmt.Sprint(a.template(), i))
	}
	words = append(words, a.entries, a.window(expired).Microseconds(), permits, 0)
	w := Worst{Subject: "list_log_many, 64 keys", Entries: a.entries, Expired: expired, Call: call, Ours: true}
	return w.measured(b.repeats, func() (float64, error) {
		_, us, err := b.server.single(ctx, sluice.ListLogManyV1().Source, func(p redis.Pipeliner) {
			for i := range keys {
				p.Del(ctx, fmt.Sprint(a.template(), i))
				p.Copy(ctx, a.template(), fmt.Sprint(a.template(), i), 0, false)
			}
		}, words...)
		return us, err
	})
}
