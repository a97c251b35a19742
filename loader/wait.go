package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// maxBooking is how far ahead the scripts book.
const maxBooking = time.Minute

// minSleep is the shortest sleep of Wait before it asks again.
const minSleep = time.Millisecond

// Wait is WaitN for one permit.
func (c core) Wait(ctx context.Context, subject string) error { return c.WaitN(ctx, subject, 1) }

// WaitN blocks until n permits may be used: see Waiting in the package documentation. It returns a *WaitError at once
// if the context's deadline or MaxWait cannot be met, and the context's error as soon as the context ends. Cost: one
// round trip for each sleep.
func (c core) WaitN(ctx context.Context, subject string, n int64) error {
	observed := c.watch(subject, question{method: "Wait", permits: n})
	ctx = observed.begin(ctx)
	defer observed.abort()
	err := c.waiter(ctx, subject, n, observed, func(ctx context.Context, q question) (Decision, error) {
		r := c.request(subject, q)
		r.observation, r.inWait = observed, true
		return r.do(ctx)
	}).run(ctx)
	observed.end(err)
	return err
}

// waitHere is WaitN for a limiter that may decide in this process.
func (c core) waitHere(
	ctx context.Context, subject string, n int64, observed *observation,
	decide func(context.Context, string, question) (Decision, error),
) error {
	return c.waiter(ctx, subject, n, observed, func(ctx context.Context, q question) (Decision, error) {
		return decide(ctx, subject, q)
	}).run(ctx)
}

// waiter is one call of WaitN.
type waiter struct {
	core
	patience
	subject     string
	n           int64
	id          string
	observation *observation
	ask         func(context.Context, question) (Decision, error)

	failures int                  // in a row
	lost     *OutcomeUnknownError // of a call that may have booked
}

// waiter makes a waiter that asks with the function ask. observed, if not nil, is told of the sleeps.
func (c core) waiter(
	ctx context.Context, subject string, n int64, observed *observation,
	ask func(context.Context, question) (Decision, error),
) *waiter {
	return &waiter{core: c, patience: c.patience(ctx), subject: subject, n: n, id: c.callID(), observation: observed, ask: ask}
}

// run asks until the permits may be used, or until waiting does not help.
func (w *waiter) run(ctx context.Context) error {
	if w.n < 1 {
		return errNoPermits(w.limiterName(), "", w.n)
	}
	for {
		maxWait := min(w.timeLeft(), w.maxBookingPerCall())
		d, err := w.ask(ctx, question{method: "Wait", permits: w.n, maxWait: maxWait, id: w.id})
		granted := false
		if err != nil {
			err = w.pauseAfterFailure(ctx, err)
		} else {
			granted, err = w.sleepUntil(ctx, d)
		}
		if granted || err != nil {
			return err
		}
	}
}

// pauseAfterFailure pauses after an error if a retry may help. Otherwise it returns the error, and the context's if
// that has ended.
func (w *waiter) pauseAfterFailure(ctx context.Context, err error) error {
	if unknown, ok := errors.AsType[*OutcomeUnknownError](err); ok {
		w.lost = unknown
	}
	w.failures++
	bounded := w.maxWait > 0 || !w.deadline.IsZero()
	if bounded && mayHelp(err, w.algorithm.hasIDs) &&
		w.observation.sleep(ctx, w.pause(w.failures)) == nil && w.timeLeft() > 0 {
		return nil
	}
	if w.lost != nil {
		w.giveBackUnused(ctx, Decision{}, w.lost)
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// sleepUntil sleeps until the permits may be used, or until it is time to ask again.
func (w *waiter) sleepUntil(ctx context.Context, d Decision) (granted bool, err error) {
	w.failures = 0
	switch {
	case d.Wait == Never || d.Wait > w.timeLeft():
		err = w.tooLong(w.limiterName(), w.n, d.Wait)
	case d.Granted:
		err = w.observation.sleep(ctx, d.Wait)
	default:
		err = w.observation.sleep(ctx, max(d.Wait-w.maxBookingPerCall(), minSleep))
	}
	if d.Granted && err != nil {
		w.giveBackUnused(ctx, d, nil)
	}
	return d.Granted, err
}

// giveBackUnused gives back what was booked for this waiter only. What was granted ahead of Redis may not be counted.
func (w *waiter) giveBackUnused(ctx context.Context, d Decision, lost error) {
	if !d.Ahead {
		w.core.giveBackUnused(ctx, w.subject, question{permits: w.n, id: w.id}, d, lost)
	}
}

// maxBookingPerCall returns how far ahead the script can book, 0 if it cannot.
func (c core) maxBookingPerCall() time.Duration {
	if c.settings == nil || !c.algorithm.canBook {
		return 0
	}
	return maxBooking
}

// patience is how long a WaitN may take.
type patience struct {
	maxWait  time.Duration // 0: not bounded by the limiter
	started  time.Time
	deadline time.Time // zero: not bounded by the context
}

func (c core) patience(ctx context.Context) patience {
	var p patience
	p.deadline, _ = ctx.Deadline()
	if c.settings != nil && c.maxWait > 0 {
		p.maxWait, p.started = c.maxWait, time.Now()
	}
	return p
}

// Bounds of the pause before Wait asks again after a failure.
const (
	minPause = 10 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// pause returns a random pause after this many failures in a row. It is not longer than timeLeft.
func (p patience) pause(failures int) time.Duration {
	upper := min(minPause<<min(failures, 5), maxPause)
	return min(upper/2+rand.N(upper/2), p.timeLeft())
}

// timeLeft returns the rest of the time, in whole microseconds, at least 0.
func (p patience) timeLeft() time.Duration {
	left := Never
	if !p.deadline.IsZero() {
		left = time.Until(p.deadline)
	}
	if p.maxWait > 0 {
		left = min(left, p.maxWait-time.Since(p.started))
	}
	return max(left, 0).Truncate(time.Microsecond)
}

// tooLong returns the error of a wait that takes too long. It names the bound that is met first.
func (p patience) tooLong(limiter string, n int64, wait time.Duration) error {
	e := &WaitError{Limiter: limiter, Permits: n, Wait: wait, MaxWait: p.maxWait, Deadline: p.deadline}
	switch {
	case p.maxWait == 0, p.deadline.IsZero():
	case p.deadline.Before(p.started.Add(p.maxWait)):
		e.MaxWait = 0
	default:
		e.Deadline = time.Time{}
	}
	return e
}
