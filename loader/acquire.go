package loader

import (
	"context"
	"errors"
	"time"
)

// acquire is the Method of an Event.
const acquire = "Acquire"

// Bounds of the pause before the first caller in a queue asks again. No slot may have been released in this process,
// and no lease may be about to end.
const (
	maxPoll = 250 * time.Millisecond
	fewer   = 100 * time.Millisecond // after this time the pause is half as long, after twice this time a third
)

// acquirer is one call of Acquire.
type acquirer struct {
	slotLease
	patience
	observation *observation
	place       *place

	sent     time.Time // when the last question was sent
	failures int       // in a row
	failed   bool      // Redis did not answer the last question, and Acquire ends
	lost     error     // of the last question with an unknown outcome
}

// acquire takes a slot as soon as one is free, for a caller with the context ctx. It asks in the context observed.
func (c core) acquire(ctx, observed context.Context, subject string, o *observation) (*Slot, error) {
	if _, err := c.key(subject); err != nil {
		return nil, err
	}
	a := &acquirer{slotLease: c.newLease(subject), patience: c.patience(ctx), observation: o}
	a.started = time.Now()
	a.place = c.loader.slotQueues.join(a.key, c.limit.Permits)
	d, err := a.run(observed)
	if err != nil {
		a.releaseUnknown(ctx, a.lost)
		return nil, err
	}
	a.releaseUnknown(ctx, d.Cause)
	return a.slot(ctx, a.sent, d)
}

// run asks until a slot is granted, or until waiting does not help.
func (a *acquirer) run(ctx context.Context) (d Decision, err error) {
	defer func() { a.place.leave(a.failed) }()
	for {
		why, pause := a.place.turn()
		if why == noReason {
			err = a.wait(ctx, pause)
		} else {
			d, err = a.ask(ctx, why)
		}
		if err != nil || d.Granted {
			return d, err
		}
	}
}

// ask asks once.
func (a *acquirer) ask(ctx context.Context, why reason) (Decision, error) {
	r := a.request(a.subject, question{method: acquire, permits: 1, id: a.id})
	r.observation, r.inWait = a.observation, true
	a.sent = time.Now()
	d, err := r.do(ctx)
	switch {
	case err != nil:
		return d, a.afterFailure(ctx, err)
	case d.Wait == Never:
		return d, &WaitError{Limiter: a.name, Permits: 1, Wait: Never, text: "Acquire would never end: n is 0"}
	case d.Degraded:
		a.failed = true
	case d.Granted:
		a.place.granted(why, d.Remaining > 0, a.poll())
	default:
		a.place.denied(why, max(min(d.Wait, a.poll()), minSleep))
	}
	a.failures = 0
	return d, nil
}

// afterFailure sets a pause if a retry may help. Otherwise it returns the error.
func (a *acquirer) afterFailure(ctx context.Context, err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		a.lost = err
	}
	if ctx.Err() != nil {
		a.place.pollIn(0)
		return ctx.Err()
	}
	bounded := a.maxWait > 0 || !a.deadline.IsZero()
	if a.failed = !bounded || !mayHelp(err, a.algorithm.hasIDs); a.failed {
		return err
	}
	a.failures++
	a.place.pollIn(max(a.pause(a.failures), minSleep))
	return nil
}

// wait waits until the place may have a new turn, or until the time is up.
func (a *acquirer) wait(ctx context.Context, pause time.Duration) error {
	began := time.Now()
	if a.maxWait > 0 {
		pause = min(pause, a.maxWait-began.Sub(a.started))
	}
	select {
	case <-a.place.wake:
	case <-a.place.round:
	case <-time.After(pause):
	case <-ctx.Done():
	}
	a.observation.addSlept(time.Since(began))
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.maxWait > 0 && time.Since(a.started) >= a.maxWait {
		text := "no slot came free within MaxWait " + a.maxWait.String()
		return &WaitError{Limiter: a.name, Permits: 1, MaxWait: a.maxWait, text: text}
	}
	return nil
}

// poll returns the pause before the next question. The longer a caller has waited, the shorter it is, so that callers
// in processes that hold no slots get one in the end.
func (a *acquirer) poll() time.Duration {
	return jitter(max(maxPoll/(1+time.Since(a.started)/fewer), minPoll))
}
