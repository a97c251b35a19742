package loader

import (
	"context"
	"errors"
	"time"
)

// bookable is how far ahead the scripts book, at most.
const bookable = time.Minute

// shortest is the least that Wait sleeps before it asks again.
const shortest = time.Millisecond

// giveBackTimeout bounds how long permits that nobody waits for any more are tried to be given back.
const giveBackTimeout = time.Second

// Wait is WaitN for one permit.
func (c core) Wait(ctx context.Context, subject string) error { return c.WaitN(ctx, subject, 1) }

// WaitN returns when it has n permits that may be used. It books them and sleeps once, first come, first
// served; SliceRing, which cannot book, and waits of more than 60 s sleep and ask again. It returns
// a *WaitError at once if the context's deadline or MaxWait cannot be met. When the context ends
// it returns the context's error at once. What it has booked, or may have, is lost then, except with ZSetLog, which
// gives it back in the background, unless the id was the caller's (WithID): the request may come again, or be
// cancelled. Cost: one round trip a sleep.
func (c core) WaitN(ctx context.Context, subject string, n int64) error {
	c.seen = c.watch(subject, question{method: "Wait", permits: n})
	err := c.waitFor(c.seen.begin(ctx), subject, n, c.decide)
	c.seen.end(err)
	return err
}

// waitFor is WaitN by decisions of decide.
func (c core) waitFor(ctx context.Context, subject string, n int64, decide decider) error {
	if n < 1 {
		return errNoPermits()
	}
	p, id := c.patience(ctx), c.callID()
	for {
		q := question{method: "Wait", permits: n, maxWait: min(p.left(), c.ahead()), id: id}
		d, err := decide(ctx, subject, q)
		switch {
		case err != nil:
			return c.forsaken(ctx, subject, id, n, err)
		case d.Wait == Never || d.Wait > p.left():
			err = p.tooLong(n, d.Wait)
		case d.Granted:
			err = c.seen.sleep(ctx, d.Wait)
		default:
			err = c.seen.sleep(ctx, max(d.Wait-c.ahead(), shortest))
		}
		if d.Granted && err != nil {
			c.drop(ctx, subject, id, n)
		}
		if d.Granted || err != nil {
			return err
		}
	}
}

// decider asks for a decision.
type decider func(ctx context.Context, subject string, q question) (Decision, error)

// ahead is how far ahead the script can book.
func (c core) ahead() time.Duration {
	if c.settings == nil || !c.kind.books {
		return 0
	}
	return bookable
}

// forsaken is the error of a call that was not answered. What it may have booked nobody will wait for.
func (c core) forsaken(ctx context.Context, subject, id string, n int64, err error) error {
	lost, ok := errors.AsType[*OutcomeUnknownError](err)
	if ok && c.drop(ctx, subject, id, n) {
		lost.ID = "" // asking with it again would meet the giving back
	}
	return err
}

// drop gives permits back in the background where that can be done, and reports whether it can: the script knows
// them by an id, which nobody else has.
func (c core) drop(ctx context.Context, subject, id string, n int64) bool {
	if !c.kind.ids || c.id != "" {
		return false
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
		defer cancel()
		_ = c.giveBack(ctx, subject, id, n)
	}()
	return true
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

// left is what remains of it now, in whole microseconds and never below 0.
func (p patience) left() time.Duration {
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
func (p patience) tooLong(n int64, wait time.Duration) error {
	e := &WaitError{N: n, Wait: wait, MaxWait: p.maxWait, Deadline: p.deadline}
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
