package experiment

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// trial is the run of one limiter.
type trial struct {
	Way
	duration time.Duration
	recorder Recorder
	calls    *callCounter

	mu      sync.Mutex
	granted int
	longest time.Duration // longest wait of a worker for a permit
	first   time.Time     // earliest time for which a permit was granted
	over    bool          // a permit was granted for a time after the end: none are left
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
		t.recorder.Act(due)
		if !sleep(ctx, shortestPayment+rand.N(longestPayment-shortestPayment)) {
			return nil
		}
	}
}

// permit waits until a permit is due and returns the time that it was booked for. The zero time means that the
// experiment is over.
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
func (t *trial) result() Result {
	acts := t.recorder.Acts()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{
		Way: t.Way, Duration: t.duration, Granted: t.granted,
		Calls: int(t.calls.decisions.Load()), LongestWait: t.longest,
	}
	if len(acts) == 0 {
		return r
	}
	start := slices.MinFunc(acts, func(a, b Act) int { return a.Real.Compare(b.Real) }).Real
	for _, act := range acts {
		if booked := act.Booked.Sub(t.first); booked < t.duration {
			r.Booked = append(r.Booked, booked)
			r.Real = append(r.Real, act.Real.Sub(start))
		}
	}
	slices.Sort(r.Booked)
	slices.Sort(r.Real)
	return r
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
