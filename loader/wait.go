package loader

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxBooking is how far ahead the scripts book, at most.
const maxBooking = time.Minute

// minSleep is the least that Wait sleeps before it asks again.
const minSleep = time.Millisecond

// Wait is WaitN for one permit. Use it for workers that would rather be late than refused. Cost: as WaitN.
func (c core) Wait(ctx context.Context, subject string) error { return c.WaitN(ctx, subject, 1) }

// WaitN returns when it has n permits that may be used. It is for workers that would rather be late than refused. It
// books the permits and sleeps once, first come, first served; SliceRing, which cannot book, and waits of more than 60
// s sleep and ask again. It returns a *WaitError at once if the context's deadline or MaxWait cannot be met, and the
// context's error as soon as the context ends.
//
// With a deadline or MaxWait it rides out an outage: while Redis is down, loading, read-only or kept from by a Breaker
// it asks again until then, with pauses of 10 to 250 ms, and returns the last error when the time is up. Without either
// it returns the error of its first call. A lost reply it can ask for again only where the call carries an id: ZSetLog.
// The others return an *OutcomeUnknownError then, and what they booked is lost: workers that must survive an outage
// without losing capacity take ZSetLog.
//
// When the context ends while it sleeps, what it has booked is lost, except with ZSetLog, which gives it back in the
// background, unless the id was the caller's (WithID): the request may come again, or be cancelled.
//
// If the state is lost (eviction, failover, a restart without persistence) while many have booked ahead, those go on
// and new callers are granted as well: up to twice the limit for as long as the queue was deep, 60 s at most. MaxWait
// bounds that. Cost: one round trip a sleep.
func (c core) WaitN(ctx context.Context, subject string, n int64) error {
	seen := c.watch(subject, question{method: "Wait", permits: n})
	ctx = seen.begin(ctx)
	defer seen.abort()
	err := c.waiter(ctx, subject, n, seen, func(ctx context.Context, q question) (Decision, error) {
		r := c.request(subject, q)
		r.observation, r.inWait = seen, true
		return r.do(ctx)
	}).run(ctx)
	seen.end(err)
	return err
}

// waiter is one Wait.
type waiter struct {
	core
	patience
	subject string
	n       int64
	id      string
	seen    *observation
	ask     func(context.Context, question) (Decision, error)

	failures int                  // in a row
	lost     *OutcomeUnknownError // it may have booked
}

// waiter is a Wait that asks by decide. Its observation, if any, is told of the sleeps.
func (c core) waiter(
	ctx context.Context, subject string, n int64, seen *observation, decide func(context.Context, question) (Decision, error),
) *waiter {
	return &waiter{core: c, patience: c.patience(ctx), subject: subject, n: n, id: c.callID(), seen: seen, ask: decide}
}

// run asks until the permits may be used, or until waiting cannot help.
func (w *waiter) run(ctx context.Context) error {
	if w.n < 1 {
		return errNoPermits(w.limiterName(), w.n)
	}
	for {
		d, err := w.ask(ctx, question{method: "Wait", permits: w.n, maxWait: min(w.timeLeft(), w.maxBookingPerCall()), id: w.id})
		var over bool
		if err != nil {
			over = !w.pauseAfterFailure(ctx, err)
		} else {
			over, err = w.sleepUntil(ctx, d)
		}
		if over {
			return err
		}
	}
}

// pauseAfterFailure pauses after a failure, and reports whether to ask again.
func (w *waiter) pauseAfterFailure(ctx context.Context, err error) bool {
	if unknown, ok := errors.AsType[*OutcomeUnknownError](err); ok {
		w.lost = unknown
	}
	w.failures++
	if w.bounded() && mayHelp(err, w.kind.hasIDs) && w.seen.sleep(ctx, w.pause(w.failures)) == nil && w.timeLeft() > 0 {
		return true
	}
	if w.lost != nil {
		w.giveBackLater(ctx, w.subject, w.id, w.n, true, w.lost.inFlight)
	}
	return false
}

// sleepUntil sleeps until the permits may be used, or until it is time to ask again.
func (w *waiter) sleepUntil(ctx context.Context, d Decision) (over bool, err error) {
	w.failures = 0
	switch {
	case d.Wait == Never || d.Wait > w.timeLeft():
		err = w.tooLong(w.limiterName(), w.n, d.Wait)
	case d.Granted:
		err = w.seen.sleep(ctx, d.Wait)
	default:
		err = w.seen.sleep(ctx, max(d.Wait-w.maxBookingPerCall(), minSleep))
	}
	if d.Granted && err != nil {
		w.giveBackLater(ctx, w.subject, w.id, w.n, false, nil)
	}
	return d.Granted || err != nil, err
}

// maxBookingPerCall is how far ahead the script can book.
func (c core) maxBookingPerCall() time.Duration {
	if c.settings == nil || !c.kind.canBook {
		return 0
	}
	return maxBooking
}

// How permits that nobody waits for any more are given back.
const (
	maxGiveBackTries = 5                      // where it is not known whether they were booked
	giveBackPause    = 250 * time.Millisecond // before the second; then 750 ms, and so on
	maxGiveBackDelay = 30 * time.Second       // of waiting for a command that does not come to an end
)

// giveBackLater gives permits back in the background where that can be done: the script knows them by an id, which
// nobody else has. Where it is not known whether they were booked (maybe), the command has to come to an end first, or
// the return could overtake it.
func (c core) giveBackLater(ctx context.Context, subject, id string, n int64, maybe bool, inFlight <-chan struct{}) {
	if !c.kind.hasIDs || c.id != "" {
		return
	}
	ctx = context.WithoutCancel(ctx)
	c.limits.tasks.start(func() error {
		if inFlight != nil {
			awaitEnd(inFlight)
		}
		for try := range maxGiveBackTries {
			_ = sleep(ctx, giveBackPause<<try-giveBackPause)
			returned, err := c.giveBack(ctx, subject, id, n)
			if returned > 0 || err == nil && !maybe || errors.Is(err, redis.ErrClosed) {
				break
			}
		}
		return nil
	})
}

func awaitEnd(inFlight <-chan struct{}) {
	t := time.NewTimer(maxGiveBackDelay)
	defer t.Stop()
	select {
	case <-inFlight:
	case <-t.C:
	}
}

// patience is how long a Wait may take.
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

// bounded reports whether it ends at some time.
func (p patience) bounded() bool { return p.maxWait > 0 || !p.deadline.IsZero() }

// Bounds of the pause before Wait asks again after a failure.
const (
	minPause = 10 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// pause is how long to wait before asking again after so many failures in a row: a random time, and no longer than may
// be waited at all.
func (p patience) pause(failures int) time.Duration {
	most := min(minPause<<min(failures, 5), maxPause)
	return min(most/2+rand.N(most/2), p.timeLeft())
}

// timeLeft is what remains of it now, in whole microseconds and never below 0.
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

// tooLong is the error of a wait that patience does not allow, with the bound that is met first.
func (p patience) tooLong(limiter string, n int64, wait time.Duration) error {
	e := &WaitError{Limiter: limiter, N: n, Wait: wait, MaxWait: p.maxWait, Deadline: p.deadline}
	switch {
	case p.maxWait == 0, p.deadline.IsZero():
	case p.deadline.Before(p.started.Add(p.maxWait)):
		e.MaxWait = 0
	default:
		e.Deadline = time.Time{}
	}
	return e
}

// sleep returns after d, never earlier, or at once with the context's error when the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
