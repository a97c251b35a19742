package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Worst is the server's time for one call that finds a big limiter, most or all of which has expired. Microseconds
// are those of INFO commandstats for that one call.
type Worst struct {
	Subject string  `json:"subject"`
	Entries int64   `json:"entries"`           // permits, or slices of a ring
	Expired string  `json:"expired,omitempty"` // none, half, all but one, all
	Call    string  `json:"call"`              // one permit, most permits, look; of worstRings what it finds
	Median  float64 `json:"median_us"`
	Max     float64 `json:"max_us"`
	Repeats int     `json:"repeats"`
	Ours    bool    `json:"ours"`
}

// State is what has expired, and what the call asks for.
func (w Worst) State() string {
	if w.Expired == "" {
		return w.Call
	}
	return w.Expired + " expired, " + w.Call
}

// What has expired when the call comes, and what it asks for.
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

// worsts measures one call at a time, each on a copy.
func (b *bench) worsts(ctx context.Context, list []subject) ([]Worst, error) {
	var rows []Worst
	for _, s := range list {
		b.progress("worst call: %s, %d entries", s.name, b.size(s))
		more, err := b.worstOf(ctx, s, b.size(s))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// size is the largest that the header's ranges allow, up to mostLive.
func (b *bench) size(s subject) int64 {
	switch s.kind {
	case buckets:
		return 1e6
	case rings:
		return s.slices
	}
	return min(s.most, b.mostLive)
}

func (b *bench) worstOf(ctx context.Context, s subject, entries int64) ([]Worst, error) {
	a, err := b.age(ctx, s, entries)
	if err != nil {
		return nil, err
	}
	var rows []Worst
	states := []string{expiredNone, expiredHalf, expiredButOne, expiredAll}
	calls := []string{onePermit, mostPermits, aLook}
	if s.always {
		calls = calls[:2]
	}
	switch {
	case s.kind == rings:
		states = []string{expiredNone, expiredAll} // a search through the ring, and a gap as long as it is
	case s.kind == buckets:
		states = states[:1] // nothing in it expires
	case !s.ours:
		states, calls = states[2:], calls[:1]
	}
	for _, expired := range states {
		for _, call := range calls {
			row, err := b.worstCall(ctx, a, expired, call)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// age fills a limiter. The permits are spread over ten minutes and end ten minutes ago.
func (b *bench) age(ctx context.Context, s subject, entries int64) (*aged, error) {
	now := time.Now()
	a := &aged{subject: s, entries: entries, from: now.Add(-20 * time.Minute), to: now.Add(-10 * time.Minute), last: now}
	ask := ask{limit: s.most, window: s.longest, permits: 1}
	fill := func(h history) error { return s.fill(ctx, b.server, a.template(), ask, h) }
	switch s.kind {
	case rings: // one permit a window ago
		ago := s.longest * time.Duration(entries-2) / time.Duration(entries)
		return a, fill(history{calls: 1, from: now.Add(-ago), step: time.Second})
	case buckets:
		ask.limit, ask.permits = entries, entries
	default:
		h := history{calls: entries - 1, from: a.from, step: a.to.Sub(a.from) / time.Duration(entries)}
		if err := fill(h); err != nil {
			return a, err
		}
	}
	return a, fill(history{calls: 1, from: now, step: time.Second})
}

func (b *bench) worstCall(ctx context.Context, a *aged, expired, call string) (Worst, error) {
	repeats := b.repeats
	switch {
	case a.entries > 1e5 && !a.subject.ours:
		repeats = 1 // seconds each
	case a.entries > 1e5:
		repeats = min(repeats, 3) // a copy takes as long
	}
	w := Worst{Subject: a.subject.name, Entries: a.entries, Expired: expired, Call: call, Ours: a.subject.ours}
	return w.measured(repeats, func() (float64, error) { return b.oneCall(ctx, a, expired, call) })
}

// measured is the row with its figures, those of so many calls.
func (w Worst) measured(repeats int, call func() (float64, error)) (Worst, error) {
	usec := make([]float64, repeats)
	for i := range usec {
		var err error
		if usec[i], err = call(); err != nil {
			return w, fmt.Errorf("%s, %d entries, %s: %w", w.Subject, w.Entries, w.State(), err)
		}
	}
	w.Median, w.Max, w.Repeats = spreadOf(usec).Median, slices.Max(usec), repeats
	return w, nil
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
	if s.kind == rings {
		ask.limit, ask.window = s.most, s.longest
		if expired == expiredNone {
			ask.limit = 1
		}
	}
	switch call {
	case aLook:
		ask.permits = 0
	case mostPermits:
		ask.permits = min(s.atOnce, max(ask.limit-1, 1)) // one may be live
	}
	key := a.template() + ":one"
	want := 0 < ask.permits && (s.always || ask.permits <= a.free(expired))
	reply, usec, err := b.server.single(ctx, s.source, func(p redis.Pipeliner) {
		from, to := s.at(a.template()), s.at(key)
		if !a.copied {
			p.Del(ctx, to...) // not UNLINK, which frees beside the call that is to be measured
			for i := range to {
				p.Copy(ctx, from[i], to[i], 0, false)
			}
		}
		s.configured(ctx, p, to[0], ask)
	}, s.command(key, ask)...)
	a.copied = s.ours && !want
	if got := s.says(reply); err == nil && got != want {
		err = fmt.Errorf("granted %t, want %t", got, want)
	}
	return usec, err
}

// single is the reply of one call after a preparation, and the server's time for it, in microseconds.
func (s *server) single(ctx context.Context, source string, prepare func(redis.Pipeliner), words ...any) (
	reply any, usec float64, err error) {
	_, err = s.Pipelined(ctx, func(p redis.Pipeliner) error {
		prepare(p)
		p.ScriptLoad(ctx, source)
		p.ConfigResetStat(ctx)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	reply, err = s.Do(ctx, words...).Result()
	if err != nil && err != redis.Nil {
		return nil, 0, err
	}
	stats, err := s.commandStats(ctx)
	return reply, stats["evalsha"].usec, err
}
