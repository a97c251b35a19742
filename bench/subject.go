package main

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

//go:embed floor.lua
var floorSource string

//go:embed filler.lua
var fillerSource string

// An ask is what a decision is about, whatever the script.
type ask struct {
	limit   int64
	window  time.Duration
	permits int64
	id      string // of this call, 16 characters, where a script takes one
}

// A subject is a script that decides, and how to call it.
type subject struct {
	name   string
	sha1   string
	source string
	kind   kind
	keys   []string // their ends, behind the key that all share; <id> is that of the call
	args   func(ask) []any
	says   func(reply any) bool // whether a reply is a grant

	most    int64         // the largest limit
	atOnce  int64         // the most permits of one call
	looks   bool          // 0 permits look
	always  bool          // it never denies
	slices  int64         // of a ring
	stored  bool          // the first key holds the limit that is in force
	single  *subject      // of many keys: what fills each of them
	longest time.Duration // the window to measure with: nothing is to leave it during a run
}

// A kind is how the state depends on when permits were granted.
type kind int

const (
	logs    kind = iota // an entry for each permit
	grants              // an entry for each call
	rings               // a count for each slice
	buckets             // one moment
)

// day is a window that nothing leaves while a benchmark runs.
const day = 24 * time.Hour

// ringSlice is the slice of a ring: a run seldom lies across its end, when permits would leave.
const ringSlice = 12 * time.Hour

// scripts are those of the bundle, with a ring of the size that the loader gives a window and larger ones.
func scripts() []subject {
	return []subject{
		newOurs(sluice.GCRAV1(), subject{
			kind: buckets, most: 1e7, atOnce: 1e7, longest: 366 * day,
			args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.limit, a.permits, 0} },
		}),
		listLog(),
		ring(201, 1), ring(1000, 1), ring(201, 2), budget(201), charge(201),
		zsetLog(),
		newOurs(sluice.QuotaV1(), subject{
			kind: buckets, most: 1e7, atOnce: 1e7, longest: 366 * day,
			args: func(a ask) []any {
				today := time.Now().Truncate(day)
				return []any{a.limit, a.permits, 0, today.Add(-2 * day).UnixMicro(), today.Add(-day).UnixMicro(),
					today.UnixMicro(), today.Add(a.window).UnixMicro()}
			},
		}),
		newOurs(sluice.TokenBucketV1(), subject{
			kind: grants, keys: []string{"", ":all", ":by:x"}, stored: true, most: 1e6, atOnce: 1e6, longest: day,
			args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), 0, a.permits, 0} },
		}),
	}
}

func listLog() subject {
	return newOurs(sluice.ListLogV1(), subject{
		kind: logs, most: 1e6, atOnce: 1000, longest: day,
		args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.permits, 0} },
	})
}

func zsetLog() subject {
	return newOurs(sluice.ZSetLogV1(), subject{
		kind: logs, most: 1e4, atOnce: 500, longest: day,
		args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.permits, 0, a.id} },
	})
}

// listLogMany is 64 logs in one call.
func listLogMany() subject {
	one := listLog()
	s := newOurs(sluice.ListLogManyV1(), one)
	s.single, s.name, s.most, s.atOnce, s.keys = &one, s.name+", 64 keys", 1e5, 1000/64, nil
	for i := range 64 {
		s.keys = append(s.keys, fmt.Sprint(":", i))
	}
	return s
}

// ring is slice_ring with so many windows of so many slices.
func ring(slices, windows int64) subject {
	s := ringOf(sluice.SliceRingV1(), slices, func(a ask) []any {
		args := []any{a.permits, 0}
		for range windows {
			args = append(args, a.window.Microseconds()/slices, slices, a.limit)
		}
		return args
	})
	s.keys = nil
	for i := range windows {
		s.keys = append(s.keys, fmt.Sprintf(":%d00000x%d", 3+i, slices))
	}
	if windows > 1 {
		s.name += fmt.Sprintf(" x %d", windows)
	}
	return s
}

// budget is an estimate on such a ring, under an id of its own.
func budget(slices int64) subject {
	s := ringOf(sluice.BudgetV1(), slices, func(a ask) []any {
		return []any{day.Microseconds(), a.permits, a.window.Microseconds() / slices, slices, a.limit}
	})
	s.keys = []string{"", ":<id>"}
	return s
}

// charge settles an id that is not known, a cost without an estimate. It writes what settling a higher cost does.
func charge(slices int64) subject {
	s := ringOf(sluice.BudgetSettleV1(), slices, func(a ask) []any {
		return []any{day.Microseconds(), a.permits, 1, a.window.Microseconds() / slices, slices}
	})
	s.keys, s.always, s.looks = []string{"", ":<id>"}, true, false
	return s
}

func ringOf(script sluice.Script, slices int64, args func(ask) []any) subject {
	s := newOurs(script, subject{kind: rings, most: 1e9, atOnce: 1e9, slices: slices,
		longest: time.Duration(slices) * ringSlice, args: args})
	s.name = fmt.Sprintf("%s %d", s.name, slices)
	return s
}

func newOurs(script sluice.Script, s subject) subject {
	s.name, s.sha1, s.source, s.looks = script.Name, script.SHA1, script.Source, true
	if s.keys == nil {
		s.keys = []string{""}
	}
	s.says = func(reply any) bool { return eachGranted(script, reply, 64, 0) > 0 }
	return s
}

// floor is the script that everything is measured against.
func floor() subject {
	return subject{
		name: "floor", sha1: sha1Hex(floorSource), source: floorSource, keys: []string{""},
		args: func(ask) []any { return nil }, says: func(reply any) bool { return reply == int64(1) },
	}
}

func sha1Hex(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// first is the first of the integers in a reply.
func first(reply any) int64 {
	list, _ := reply.([]any)
	if len(list) == 0 {
		return 0
	}
	n, _ := list[0].(int64)
	return n
}

// at is the keys of one limiter.
func (s subject) at(limiter string) []string {
	keys := make([]string, len(s.keys))
	for i, end := range s.keys {
		keys[i] = limiter + end
	}
	return keys
}

// command is one call, as it is sent.
func (s subject) command(limiter string, a ask) []any {
	command := []any{"evalsha", s.sha1, len(s.keys)}
	for _, key := range s.at(limiter) {
		command = append(command, strings.Replace(key, "<id>", a.id, 1))
	}
	return append(command, s.args(a)...)
}

// clockRead is where a script reads the clock.
var clockRead = regexp.MustCompile(`[\w.]+\("TIME"\)`)

// fillChunk is how many runs one call of the filler makes.
const fillChunk = 50_000

// A history is when permits were granted: so many calls, the first at from, each a step after the last.
type history struct {
	calls int64
	from  time.Time
	step  time.Duration
}

// spreadOut is how so many permits are granted evenly over the slices of a ring, or the last ten minutes, in calls of
// so many permits each.
func (s subject) spreadOut(permits int64) (each int64, h history) {
	calls, over := permits, 10*time.Minute
	now := time.Now()
	switch s.kind {
	case buckets:
		return permits, history{calls: 1, from: now}
	case rings:
		calls, over = divisor(permits, s.slices), s.longest-ringSlice
	case logs:
		calls = divisor(permits, 10_000)
	}
	each = min(permits/calls, s.atOnce)
	calls = permits / each
	step := over / time.Duration(calls)
	return each, history{calls: calls, from: now.Add(-step * time.Duration(calls-1)), step: step}
}

// divisor is the largest one of n up to most.
func divisor(n, most int64) int64 {
	d := min(n, most)
	for n%d != 0 {
		d--
	}
	return d
}

// copied makes a limiter a copy of another one.
func (s subject) copied(ctx context.Context, p redis.Pipeliner, from, to string) {
	keys := s.at(to)
	p.Del(ctx, keys...) // not UNLINK, which frees beside the call that is to be measured
	for i, key := range s.at(from) {
		p.Copy(ctx, key, keys[i], 0, false)
	}
}

// configured puts the limit into force where it is stored.
func (s subject) configured(ctx context.Context, p redis.Pipeliner, limiter string, a ask) {
	if s.stored {
		p.HSet(ctx, limiter, "rate", a.limit, "interval", a.window.Microseconds())
	}
}

// fill makes a limiter's state by running its script through a history.
func (s subject) fill(ctx context.Context, on *server, limiter string, a ask, h history) error {
	if s.single != nil {
		first := limiter + s.keys[0]
		err := s.single.fill(ctx, on, first, a, h)
		for _, key := range s.at(limiter)[1:] {
			err = errors.Join(err, on.Copy(ctx, first, key, 0, true).Err())
		}
		return err
	}
	if n := len(clockRead.FindAllString(s.source, -1)); n != 1 {
		return fmt.Errorf("filling %s: it reads the clock in %d places, want 1", s.name, n)
	}
	source := strings.Replace(fillerSource, "-- SCRIPT", clockRead.ReplaceAllString(s.source, "clock"), 1)
	a.id = "<id>"
	for done := int64(0); done < h.calls; done += fillChunk {
		args := []any{h.from.Add(time.Duration(done) * h.step).UnixMicro(), h.step.Microseconds(),
			min(fillChunk, h.calls-done)}
		args = append(args, s.args(a)...)
		if err := on.Eval(ctx, source, s.at(limiter), args...).Err(); err != nil {
			return fmt.Errorf("filling %s: %w", s.name, err)
		}
	}
	return on.ScriptFlush(ctx).Err() // reset the interpreter, so that its heap holds nothing of the filler
}
