package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What a contender promises of the permits in an interval as long as the window.
const (
	anyWindow   = "any window"   // never more than the limit
	burstRate   = "burst + rate" // the burst and what comes back meanwhile: twice the limit where they are alike
	fixedWindow = "fixed window" // the limit between two edges; nothing across one
	estimate    = "estimate"     // about the limit: the window before counts in proportion
	slicewise   = "slices"       // never more than the limit, by a window one slice longer
	none        = "none"         // counts nothing
)

// A decider asks for one permit of a subject.
type decider func(ctx context.Context, subject string) (bool, error)

// A contender is a limiter, made as its own documentation does.
type contender struct {
	name    string
	module  string // empty: ours
	promise string
	make    func(on *server, limit int64, window time.Duration) (decider, error)
}

// row is the contender's, without figures.
func (c contender) row() *Row { return &Row{Name: c.name, Version: c.version(), Promise: c.promise} }

// version is the module's version in this build.
func (c contender) version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == c.module {
			return dep.Version
		}
	}
	return ""
}

const (
	peerLimit  = 1000   // of grants
	fullLimit  = 100    // of denials
	busyLimit  = 10_000 // of grants about many subjects
	peerWindow = day

	subjects = 1000 // that loads go through
)

// subjectOf returns the name of the i-th subject. Subjects repeat after a fixed number.
var subjectOf = func() func(i int) string {
	names := make([]string, subjects)
	for i := range names {
		names[i] = fmt.Sprint("subject-", i)
	}
	return func(i int) string { return names[i%subjects] }
}()

// A load calls from so many goroutines, for a time or so often.
type load struct {
	goroutines int
	batch      int // decisions of a call
	span       time.Duration
	calls      int // where not 0, in place of span
	call       func(ctx context.Context, i int) error
}

// A sample is the cost of one decision under a load, in microseconds.
type sample struct {
	cpu, time float64         // the server's processor time; the time of the load
	latencies []time.Duration // of calls, sorted
}

// load runs a load.
func (b *bench) load(ctx context.Context, l load) (sample, error) {
	var next atomic.Int64
	latencies, failed := make([][]time.Duration, l.goroutines), make([]error, l.goroutines)
	before, err1 := b.server.cpu(ctx)
	begin := time.Now()
	var wg sync.WaitGroup
	for worker := range l.goroutines {
		wg.Go(func() {
			for now := begin; failed[worker] == nil; {
				i := int(next.Add(1) - 1)
				if l.calls > 0 && i >= l.calls || l.calls == 0 && i >= l.goroutines && now.Sub(begin) >= l.span {
					return
				}
				failed[worker] = l.call(ctx, i*l.batch)
				done := time.Now()
				latencies[worker] = append(latencies[worker], done.Sub(now))
				now = done
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	after, err2 := b.server.cpu(ctx)
	all := slices.Sorted(slices.Values(slices.Concat(latencies...)))
	n := float64(len(all) * l.batch)
	return sample{(after - before) / n, took.Seconds() * 1e6 / n, all}, errors.Join(err1, err2, errors.Join(failed...))
}

// noteLoad notes decisions a second; in microseconds percentiles of a call's time, and the server's processor time.
func (r *Row) noteLoad(s sample) {
	r.note("per second", 1e6/s.time)
	r.note("cpu us", s.cpu)
	for name, q := range map[string]float64{"p50 us": 0.5, "p99 us": 0.99} {
		r.note(name, s.latencies[int(q*float64(len(s.latencies)-1))].Seconds()*1e6)
	}
}

// A task is what contenders are asked for: permits that are granted, or where the limit is used up, denied.
type task struct {
	name       string
	limit      int64
	window     time.Duration
	full       bool // one subject, whose limit is used up
	goroutines int  // that ask for a time; 0: one, that asks so many times for a subject of its own
}

var (
	granting = task{name: "granted", limit: peerLimit, window: peerWindow}
	denying  = task{name: "denied", limit: fullLimit, window: peerWindow, full: true}
	alone    = task{name: "one", limit: busyLimit, window: peerWindow, goroutines: 1}
	crowd    = task{name: "64", limit: busyLimit, window: peerWindow, goroutines: 64}
)

// ask has a contender do a task. A call that is not granted or denied as the task says is an error.
func (b *bench) ask(ctx context.Context, c contender, t task, round int) (sample, error) {
	decide, err := c.make(b.server, t.limit, t.window)
	if err != nil {
		return sample{}, err
	}
	one, many := fmt.Sprintf("%s %s %d %d", c.name, t.name, t.limit, round), t.goroutines > 0 && !t.full
	want := true
	l := load{goroutines: max(t.goroutines, 1), batch: 1, call: func(ctx context.Context, i int) error {
		subject := one
		if many {
			subject = c.name + subjectOf(i)
		}
		got, err := decide(ctx, subject)
		if err == nil && got != want && c.promise != none {
			err = fmt.Errorf("granted %t, want %t, limit %d", got, want, t.limit)
		}
		return err
	}}
	for i := range t.limit {
		if !t.full || err != nil {
			break
		}
		err = l.call(ctx, int(i))
	}
	want = !t.full
	if t.goroutines == 0 {
		l.calls = 2 * b.calls
	} else {
		l.span = b.loadSpan / 5 // connections, scripts and keys are there then
		_, warm := b.load(ctx, l)
		err = errors.Join(err, warm)
		l.span = b.loadSpan
	}
	if err != nil {
		return sample{}, err
	}
	return b.load(ctx, l)
}

// A pair is a contender beside another one, which both take turns.
type pair struct {
	*Row
	contenders [2]contender // the second is measured in multiples of the first
	tasks      []task
}

// measure is one round. In every other round the second goes first.
func (b *bench) measure(ctx context.Context, p pair, round int) error {
	for _, t := range p.tasks {
		var samples [2]sample
		for k := range samples {
			i := (k + round) % 2
			var err error
			if samples[i], err = b.ask(ctx, p.contenders[i], t, round); err != nil {
				return fmt.Errorf("%s: %s: %w", p.contenders[i].name, t.name, err)
			}
		}
		p.note(t.name+" CPU", samples[1].cpu/samples[0].cpu)
		p.note(t.name+" time", samples[1].time/samples[0].time)
	}
	return nil
}

// memory is what one subject takes after a thousand permits.
func (c contender) memory(ctx context.Context, on *server) (int64, error) {
	decide, err := c.make(on, peerLimit, peerWindow)
	if err != nil {
		return 0, err
	}
	if err := on.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	for range peerLimit {
		if _, err := decide(ctx, "weighed"); err != nil {
			return 0, err
		}
	}
	return on.memory(ctx)
}
