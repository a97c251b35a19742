package main

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

//go:embed floor.lua
var floorSource string

//go:embed ways
var ways embed.FS

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

	most    int64 // the largest limit
	atOnce  int64 // the most permits of one call
	looks   bool  // 0 permits look
	always  bool  // it never denies
	slices  int64 // of a ring
	windows int64 // that have so many
	stored  bool  // the first key holds the limit that is in force
	ours    bool
	does    string        // of a way: what it is
	faulty  string        // what it counts wrong
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

// ours are the scripts of the bundle. A ring is a subject for each size. 201 is what the loader gives a window.
func ours() []subject {
	return []subject{
		newOurs(sluice.GCRAV1(), subject{
			kind: buckets, keys: []string{""}, most: 1e7, atOnce: 1e7, longest: 366 * day,
			args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.limit, a.permits, 0} },
		}),
		newOurs(sluice.ListLogV1(), subject{
			kind: logs, keys: []string{""}, most: 1e6, atOnce: 1000, longest: day,
			args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.permits, 0} },
		}),
		ring(201, 1), ring(1000, 1), ring(201, 2), budget(201), charge(201),
		newOurs(sluice.ZSetLogV1(), subject{
			kind: logs, keys: []string{""}, most: 1e4, atOnce: 500, longest: day,
			args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.permits, 0, a.id} },
		}),
		newOurs(sluice.QuotaV1(), subject{
			kind: buckets, keys: []string{""}, most: 1e7, atOnce: 1e7, longest: 366 * day,
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

// ring is slice_ring with so many windows of so many slices.
func ring(slices, windows int64) subject {
	s := newOurs(sluice.SliceRingV1(), subject{
		kind: rings, most: 1e9, atOnce: 1e9, slices: slices, windows: windows, longest: time.Duration(slices) * ringSlice,
		args: func(a ask) []any {
			args := []any{a.permits, 0}
			for range windows {
				args = append(args, a.window.Microseconds()/slices, slices, a.limit)
			}
			return args
		},
	})
	for i := range windows {
		s.keys = append(s.keys, fmt.Sprintf(":%d00000x%d", 3+i, slices))
	}
	s.name = fmt.Sprintf("%s %d", s.name, slices)
	if windows > 1 {
		s.name += fmt.Sprintf(" x %d", windows)
	}
	return s
}

// budget is an estimate on such a ring, under an id of its own.
func budget(slices int64) subject {
	s := newOurs(sluice.BudgetV1(), subject{
		kind: rings, keys: []string{"", ":<id>"}, most: 1e9, atOnce: 1e9, slices: slices, windows: 1,
		longest: time.Duration(slices) * ringSlice,
		args: func(a ask) []any {
			return []any{day.Microseconds(), a.permits, a.window.Microseconds() / slices, slices, a.limit}
		},
	})
	s.name = fmt.Sprintf("%s %d", s.name, slices)
	return s
}

// charge settles an id that is not known: a cost without an estimate. It writes what settling more than an estimate
// does.
func charge(slices int64) subject {
	s := newOurs(sluice.BudgetSettleV1(), subject{
		kind: rings, keys: []string{"", ":<id>"}, most: 1e9, atOnce: 1e9, slices: slices, windows: 1,
		longest: time.Duration(slices) * ringSlice,
		args: func(a ask) []any {
			return []any{day.Microseconds(), a.permits, 1, a.window.Microseconds() / slices, slices}
		},
	})
	s.name, s.always, s.looks = fmt.Sprintf("%s %d", s.name, slices), true, false
	return s
}

func newOurs(script sluice.Script, s subject) subject {
	s.name, s.sha1, s.source, s.ours, s.looks = script.Name, script.SHA1, script.Source, true, true
	s.says = func(reply any) bool { return first(reply) > 0 }
	return s
}

// others are ways that are in use, in our own wording: where the original reads the client's clock, these read the
// server's. Until it is read, a source is the name of its file.
func others() ([]subject, error) {
	list := []subject{
		{
			name: "S1 ZSET", source: "s1_zset_uuid", kind: logs, keys: []string{""}, longest: day,
			does: "a sorted set with a UUID for each permit; " +
				"every call first removes all that has expired, also one that is denied",
			args: func(a ask) []any {
				return []any{a.limit, a.window.Microseconds(), "00000000-0000-4000-8" + a.id} // as long as a UUID
			},
			says:   func(reply any) bool { return reply == int64(1) },
			faulty: "nothing, but a reply is only yes or no",
		},
		{
			name: "S4 counter", source: "s4_counter", kind: grants, keys: []string{"", ":left", ":permits"}, longest: day,
			stored: true,
			does: "Redisson's RRateLimiter: a counter of the permits left, and a sorted set of random numbers; " +
				"every call reads all that has expired into Lua, adds it to the counter and removes it",
			args:   func(a ask) []any { return []any{a.limit, a.window.Microseconds(), a.id, a.permits} },
			says:   func(reply any) bool { return reply == nil },
			faulty: "a random number that comes twice loses permits, and so does a lost key, or grants a whole rate again",
		},
	}
	for i := range list {
		s := &list[i]
		source, err := ways.ReadFile("ways/" + s.source + ".lua")
		if err != nil {
			return nil, err
		}
		s.source, s.sha1, s.most, s.atOnce = string(source), sha1Hex(string(source)), 1e6, 1
	}
	return list, nil
}

// floor is the script that everything is measured against.
func floor() subject {
	return subject{
		name: "floor", source: floorSource, sha1: sha1Hex(floorSource), keys: []string{""},
		args: func(ask) []any { return nil }, says: func(reply any) bool { return reply == int64(1) },
	}
}

func sha1Hex(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

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
	for _, key := range withID(s.at(limiter), a.id) {
		command = append(command, key)
	}
	return append(command, s.args(a)...)
}

// withID is keys of a call that has an id.
func withID(keys []string, id string) []string {
	for i := range keys {
		keys[i] = strings.Replace(keys[i], "<id>", id, 1)
	}
	return keys
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

// configured puts the limit into force where it is stored.
func (s subject) configured(ctx context.Context, p redis.Pipeliner, config string, a ask) {
	if s.stored {
		p.HSet(ctx, config, "rate", a.limit, "interval", a.window.Microseconds())
	}
}

// filler is a script that runs the subject's through a history.
func (s subject) filler() string {
	return strings.Replace(fillerSource, "-- SCRIPT", clockRead.ReplaceAllString(s.source, "clock"), 1)
}

// fill makes a limiter's state by running its script through a history.
func (s subject) fill(ctx context.Context, on *server, limiter string, a ask, h history) error {
	if n := len(clockRead.FindAllString(s.source, -1)); n != 1 {
		return fmt.Errorf("filling %s: it reads the clock in %d places, want 1", s.name, n)
	}
	source := s.filler()
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
