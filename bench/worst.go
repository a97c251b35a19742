package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// What has expired when a call comes, and what it asks for.
const (
	expiredNone   = "none"
	expiredHalf   = "half"
	expiredButOne = "all but one"
	expiredAll    = "all"

	onePermit   = "one permit"
	mostPermits = "most permits"
	aLook       = "look"
)

// An aged limiter is as full as can be, of permits that were granted between from and to, and one at the end.
type aged struct {
	subject  subject
	entries  int64
	from, to time.Time
	last     time.Time

	copied bool // there is a copy that nothing has written to
}

func (a *aged) template() string { return fmt.Sprintf("{worst/%s/%d}", a.subject.name, a.entries) }

// window is the one by which so much has expired now.
func (a *aged) window(expired string) time.Duration {
	switch expired {
	case expiredHalf:
		return time.Since(a.from.Add(a.to.Sub(a.from) / 2)).Truncate(time.Microsecond)
	case expiredButOne:
		return time.Since(a.last.Add(-time.Minute)).Truncate(time.Microsecond)
	case expiredAll:
		return time.Millisecond
	}
	return a.subject.longest
}

// worsts measures the server's time for one call at a time, each on a copy of a big limiter, most or all of which has
// expired; and for one that gives back what another one was granted.
func (b *bench) worsts(ctx context.Context) ([]*Row, error) {
	var rows []*Row
	for _, s := range append(scripts(), listLogMany()) {
		if s.kind == rings {
			continue // worstRings has them
		}
		b.progress("%s, %d entries", s.name, b.size(s))
		of, err := b.worstOf(ctx, s, b.size(s))
		if err != nil {
			return nil, err
		}
		rows = append(rows, of...)
	}
	for _, g := range givebacks() {
		row, err := b.worstReturn(ctx, g)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// size is the largest that the header's ranges allow, up to mostLive.
func (b *bench) size(s subject) int64 {
	if s.kind == buckets {
		return 1e6
	}
	return min(s.most, b.mostLive)
}

func (b *bench) worstOf(ctx context.Context, s subject, entries int64) ([]*Row, error) {
	a, err := b.age(ctx, s, entries)
	if err != nil {
		return nil, err
	}
	repeats := b.repeats
	if entries > 1e5 {
		repeats = min(repeats, 3) // a copy takes seconds
	}
	var rows []*Row
	states := []string{expiredNone, expiredHalf, expiredButOne, expiredAll}
	calls := []string{onePermit, mostPermits, aLook}
	if s.kind == buckets {
		states = states[:1] // nothing in it expires
	}
	for _, expired := range states {
		for _, call := range calls {
			row := &Row{Name: s.name, Size: entries, Case: expired + " expired, " + call}
			rows = append(rows, row)
			err := row.single(repeats, func() (float64, error) { return b.oneCall(ctx, a, expired, call) })
			if err != nil {
				return nil, err
			}
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// single notes the time of so many single calls.
func (r *Row) single(repeats int, call func() (float64, error)) error {
	for range repeats {
		usec, err := call()
		if err != nil {
			return fmt.Errorf("%s, %d entries, %s: %w", r.Name, r.Size, r.Case, err)
		}
		r.note("us", usec)
	}
	return nil
}

// age fills a limiter. The permits are spread over ten minutes and end ten minutes ago.
func (b *bench) age(ctx context.Context, s subject, entries int64) (*aged, error) {
	now := time.Now()
	a := &aged{subject: s, entries: entries, from: now.Add(-20 * time.Minute), to: now.Add(-10 * time.Minute), last: now}
	ask := ask{limit: s.most, window: s.longest, permits: 1}
	fill := func(h history) error { return s.fill(ctx, b.server, a.template(), ask, h) }
	step := a.to.Sub(a.from) / time.Duration(entries)
	if s.kind == buckets {
		ask.limit, ask.permits = entries, entries
	} else if err := fill(history{calls: entries - 1, from: a.from, step: step}); err != nil {
		return a, err
	}
	return a, fill(history{calls: 1, from: now, step: time.Second})
}

// free is the permits that can be granted when so much has expired.
func (a *aged) free(expired string) int64 {
	switch expired {
	case expiredHalf:
		return a.entries / 2
	case expiredButOne:
		return a.entries - 1
	case expiredAll:
		return a.subject.most
	}
	return 0
}

// oneCall measures one call on a copy of the limiter.
func (b *bench) oneCall(ctx context.Context, a *aged, expired, call string) (float64, error) {
	s := a.subject
	b.asked++
	ask := ask{limit: a.entries, window: a.window(expired), permits: 1, id: fmt.Sprintf("%016d", b.asked)}
	switch call {
	case aLook:
		ask.permits = 0
	case mostPermits:
		ask.permits = min(s.atOnce, max(ask.limit-1, 1)) // one may be live
	}
	key := a.template() + ":one"
	want := 0 < ask.permits && ask.permits <= a.free(expired)
	reply, usec, err := b.server.single(ctx, s.source, func(p redis.Pipeliner) {
		if !a.copied {
			s.copied(ctx, p, a.template(), key)
		}
		s.configured(ctx, p, key, ask)
	}, s.command(key, ask)...)
	a.copied = !want
	if got := s.says(reply); err == nil && got != want {
		err = fmt.Errorf("granted %t, want %t: %v", got, want, reply)
	}
	return usec, err
}

// single is the reply of one call after a preparation, and the server's time for it, in microseconds.
func (s *server) single(ctx context.Context, source string, prepare func(redis.Pipeliner), words ...any) (
	any, float64, error) {
	replies, usec, err := s.timed(ctx, source, prepare, words)
	if err != nil {
		return nil, 0, err
	}
	return replies[0].(*redis.Cmd).Val(), usec, nil
}

// A giveback is a call that gives back what one call was granted, after so many calls more: of entries that stand far
// from the end. Those of rings are among ringCalls.
type giveback struct {
	script  sluice.Script
	granted subject
	later   int64 // calls
}

func givebacks() []giveback {
	return []giveback{{sluice.ListLogReturnV1(), listLog(), 1}, {sluice.ZSetLogReturnV1(), zsetLog(), 10}}
}

// worstReturn measures one on copies of a full limiter, of which all calls took the most permits.
func (b *bench) worstReturn(ctx context.Context, g giveback) (*Row, error) {
	s := g.granted
	entries, permits := b.size(s), s.atOnce
	b.progress("%s, %d entries", g.script.Name, entries)
	template, key := "{"+g.script.Name+"}", "{"+g.script.Name+"}:one"
	h := history{entries / permits, time.Now().Add(-10 * time.Minute), time.Millisecond}
	if err := s.fill(ctx, b.server, template, ask{limit: entries, window: day, permits: permits}, h); err != nil {
		return nil, err
	}
	back := h.calls - 1 - g.later
	moment := fmt.Sprintf("%016d", h.from.Add(time.Duration(back)*h.step).UnixMicro()) // and the id, where one is taken
	row := &Row{Name: g.script.Name, Size: entries, Case: fmt.Sprintf("%d permits, %d later", permits, g.later*permits)}
	return row, row.single(b.repeats, func() (float64, error) {
		reply, us, err := b.server.single(ctx, g.script.Source,
			func(p redis.Pipeliner) { p.Copy(ctx, template, key, 0, true) }, "evalsha", g.script.SHA1, 1, key, moment, permits)
		if err == nil && first(reply) != permits {
			err = fmt.Errorf("%v", reply)
		}
		return us, err
	})
}
