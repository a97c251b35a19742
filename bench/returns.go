package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// A giveback is a call that gives back what one call was granted, after so many calls more.
type giveback struct {
	script  sluice.Script
	granted subject
	later   int64 // calls
}

// givebacks are of entries that stand far from the end. Those of rings are among ringCalls.
func givebacks() []giveback {
	var list []giveback
	for _, s := range ours() {
		switch s.name {
		case sluice.ListLogV1().Name:
			list = append(list, giveback{sluice.ListLogReturnV1(), s, 1})
		case sluice.ZSetLogV1().Name:
			list = append(list, giveback{sluice.ZSetLogReturnV1(), s, 10})
		}
	}
	return list
}

// entries are as many as a run allows.
func (g giveback) entries(b *bench) int64 { return min(g.granted.most, b.mostLive) }

// worstReturns measures each on copies of a full limiter, of which all calls took the most permits.
func (b *bench) worstReturns(ctx context.Context) ([]Worst, error) {
	var rows []Worst
	for _, g := range givebacks() {
		entries, permits := g.entries(b), g.granted.atOnce
		b.progress("worst call: %s, %d entries", g.script.Name, entries)
		template, key := "{"+g.script.Name+"}", "{"+g.script.Name+"}:one"
		calls := entries / permits
		h := history{calls, time.Now().Add(-10 * time.Minute), time.Millisecond}
		a := ask{limit: entries, window: day, permits: permits}
		if err := g.granted.fill(ctx, b.server, template, a, h); err != nil {
			return nil, err
		}
		back := calls - 1 - g.later
		moment := fmt.Sprintf("%016d", h.from.Add(time.Duration(back)*h.step).UnixMicro()) // and the id, where one is taken
		w := Worst{Subject: g.script.Name, Entries: entries, Ours: true}
		w.Call = fmt.Sprintf("%d permits, %d later", permits, g.later*permits)
		w, err := w.measured(b.repeats, func() (float64, error) {
			reply, us, err := b.server.single(ctx, g.script.Source,
				func(p redis.Pipeliner) { p.Copy(ctx, template, key, 0, true) }, "evalsha", g.script.SHA1, 1, key, moment, permits)
			if err == nil && first(reply) != permits {
				err = fmt.Errorf("%v", reply)
			}
			return us, err
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, w)
	}
	return rows, b.server.FlushAll(ctx).Err()
}
