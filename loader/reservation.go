package loader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Reservation is a booking that Reserve has made, or could not make: ask OK first.
type Reservation struct {
	limiter  core
	subject  string
	n        int64
	decision Decision
	at       time.Time // when the permits may be used, by the clock of this process

	cancelled atomic.Bool // the permits were given back, or may have been
}

// booker is a limiter that can book ahead.
type booker struct{ core }

// Reserve is ReserveN for one permit. Cost: one round trip.
func (b booker) Reserve(ctx context.Context, subject string) (*Reservation, error) {
	return b.ReserveN(ctx, subject, 1)
}

// ReserveN books n permits for the earliest time at which they may be used. Use it if the caller has other work to do
// than to sleep in Wait. It books up to MaxWait or 60 s ahead, whichever is less; if that is not enough, the
// reservation is not OK. First come, first served: until booked permits are due, Allow is denied to everyone. Cost: one
// round trip.
func (b booker) ReserveN(ctx context.Context, subject string, n int64) (*Reservation, error) {
	return b.ReserveWithin(ctx, subject, n, maxBooking)
}

// ReserveWithin is ReserveN that books at most maxWait ahead, in whole microseconds, or what ReserveN would if that is
// less. With 0 it grants what Allow would. Cost: one round trip.
func (b booker) ReserveWithin(
	ctx context.Context, subject string, n int64, maxWait time.Duration,
) (*Reservation, error) {
	q := question{method: reserve, permits: n, id: b.callID(), maxWait: min(maxWait, b.maxAhead())}
	d, err := b.decide(ctx, subject, q)
	if err != nil {
		return nil, err
	}
	return b.reservation(subject, q, d), nil
}

// reservation makes a Reservation of a decision that was just made.
func (c core) reservation(subject string, q question, d Decision) *Reservation {
	r := &Reservation{limiter: c, subject: subject, n: q.permits, decision: d}
	if d.Granted {
		r.at = time.Now().Add(d.Wait)
	}
	return r
}

// maxAhead returns how far ahead one call may book.
func (c core) maxAhead() time.Duration {
	if c.settings == nil || c.maxWait == 0 {
		return maxBooking
	}
	return min(c.maxWait, maxBooking)
}

// OK reports whether the permits were booked. Call it first. Cost: nothing is sent.
func (r *Reservation) OK() bool { return r.decision.Granted }

// Decision returns the script's answer. If the reservation is not OK, its Wait is the time until the permits would come
// free. Cost: nothing is sent.
func (r *Reservation) Decision() Decision { return r.decision }

// Delay returns the time from now until the permits may be used: 0 if they may be used now, Never if the reservation is
// not OK. Use it to plan the work. Cost: nothing is sent.
func (r *Reservation) Delay() time.Duration {
	if !r.OK() {
		return Never
	}
	return max(time.Until(r.at), 0)
}

// Wait blocks until the permits may be used. It returns the context's error as soon as the context ends; the permits
// stay booked. It returns a *WaitError if the reservation is not OK. Cost: nothing is sent.
func (r *Reservation) Wait(ctx context.Context) error {
	if !r.OK() {
		return &WaitError{
			Limiter: r.limiter.limiterName(), Permits: r.n, Wait: r.decision.Wait, MaxWait: r.limiter.maxAhead(),
		}
	}
	return wire.Sleep(ctx, r.Delay())
}

// Cancel gives the permits back. Use it if they will not be needed after all. Later bookings keep their times. Once the
// permits are due, Cancel does nothing, as in golang.org/x/time/rate, because they may have been used. It returns nil
// if there is nothing to give back, and if it was called before. GCRA and TokenBucket cannot give back: the error is
// errors.ErrUnsupported; take ListLog or ZSetLog.
//
// After an *OutcomeUnknownError the permits of a ListLog are given back or stay charged, and another Cancel does
// nothing; with ZSetLog it tries again. Cost: one round trip.
func (r *Reservation) Cancel(ctx context.Context) error {
	switch {
	case !r.OK():
		return nil
	case r.limiter.algorithm.makeReturn == nil:
		const text = "loader: %s: %s cannot give permits back, ListLog and ZSetLog can: %w"
		return fmt.Errorf(text, r.limiter.name, r.limiter.algorithm.name, errors.ErrUnsupported)
	case r.Delay() == 0, !r.cancelled.CompareAndSwap(false, true):
		return nil
	}
	_, err := r.limiter.giveBack(ctx, r.subject, r.decision, r.n)
	if err != nil && (r.limiter.algorithm.hasIDs || !errors.Is(err, ErrOutcomeUnknown)) {
		r.cancelled.Store(false)
	}
	return err
}
