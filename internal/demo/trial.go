package demo

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// kind says what a limiter promises.
type kind int

const (
	books  kind = iota // one of our scripts that books ahead: one call a permit
	asks               // one of our scripts that says when to ask again
	faulty             // a faulty limiter, for comparison
)

// way is a limiter under test: what it is, and how a worker asks it for a permit.
type way struct {
	name string
	text string // what it does, in a few words
	kind kind
	take func(context.Context) (answer, error)
}

// answer is a limiter's reply to a worker.
type answer struct {
	granted bool
	now     time.Time     // the server's clock
	wait    time.Duration // granted: act after this; denied: ask again after this
}

// due returns the server's time at which to act, or to ask again.
func (a answer) due() time.Time { return a.now.Add(a.wait) }

// trial is the run of one limiter.
type trial struct {
	way
	duration time.Duration
	calls    callCounter

	mu      sync.Mutex
	acts    []act
	granted int
	longest time.Duration // longest wait of a worker for a permit
	first   time.Time     // earliest time for which a permit was granted
	over    bool          // a permit was granted for a time after the end: none are left
}

// act is one payment: the time it was booked for by the server's clock, and the time it happened by our clock. The two
// clocks are never compared.
type act struct{ booked, real time.Time }

// record notes an act that happens now. It does not look at the limit and is the same for every limiter.
func (t *trial) record(booked time.Time) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acts = append(t.acts, act{booked, now})
}

// work runs one worker: wait for a permit, act, repeat.
func (t *trial) work(ctx context.Context, join time.Duration) error {
	if !sleep(ctx, join) {
		return nil
	}
	for {
		due, err := t.permit(ctx)
		if err != nil || due.IsZero() {
			return err
		}
		t.record(due)
		if !sleep(ctx, shortestPayment+rand.N(longestPayment-shortestPayment)) {
			return nil
		}
	}
}

// permit waits until a permit is due and returns the time that it was booked for; zero if the experiment is over.
func (t *trial) permit(ctx context.Context) (time.Time, error) {
	wanted := time.Now()
	for !t.isOver() {
		a, err := t.take(ctx)
		if err != nil && ctx.Err() == nil {
			return time.Time{}, err
		}
		if err != nil || t.isPast(a) || !sleep(ctx, a.wait) {
			break
		}
		t.noteWait(time.Since(wanted))
		if a.granted {
			return a.due(), nil
		}
	}
	return time.Time{}, nil
}

// isPast records an answer and reports whether its time is after the end.
func (t *trial) isPast(a answer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.granted {
		t.granted++
		if t.first.IsZero() || a.due().Before(t.first) {
			t.first = a.due()
		}
	}
	past := !t.first.IsZero() && a.due().Sub(t.first) >= t.duration
	if past && a.granted {
		t.over = true
	}
	return past
}

func (t *trial) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

func (t *trial) noteWait(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest = max(t.longest, d)
}

// result returns the result so far.
func (t *trial) result() result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := result{
		way: t.way, duration: t.duration, granted: t.granted,
		calls: int(t.calls.decisions.Load()), longestWait: t.longest,
	}
	if len(t.acts) == 0 {
		return r
	}
	start := slices.MinFunc(t.acts, func(a, b act) int { return a.real.Compare(b.real) }).real
	for _, a := range t.acts {
		if booked := a.booked.Sub(t.first); booked < t.duration {
			r.booked = append(r.booked, booked)
			r.real = append(r.real, a.real.Sub(start))
		}
	}
	slices.Sort(r.booked)
	slices.Sort(r.real)
	return r
}

// callCounter counts the commands that decide about permits.
type callCounter struct{ decisions atomic.Int64 }

func (c *callCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *callCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *callCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (c *callCounter) count(cmd redis.Cmder) {
	if strings.HasPrefix(cmd.Name(), "eval") {
		c.decisions.Add(1)
	}
}

// sleep reports whether it slept that long; false means that ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	// stallTick is how often the watch checks that the machine is running.
	stallTick = 10 * time.Millisecond
	// minStall is the shortest pause that counts as a stall. Shorter ones are normal scheduling delays.
	minStall = 100 * time.Millisecond
)

// stallWatch adds up how long the machine stopped, so that limiters are not blamed for it.
type stallWatch struct{ total atomic.Int64 }

// run watches until ctx ends.
func (w *stallWatch) run(ctx context.Context) {
	last := time.Now()
	for sleep(ctx, stallTick) {
		now := time.Now()
		if gap := now.Sub(last) - stallTick; gap >= minStall {
			w.total.Add(int64(gap))
		}
		last = now
	}
}

func (w *stallWatch) sum() time.Duration { return time.Duration(w.total.Load()) }
