package loader

import (
	"context"
	"time"
)

// Reservation is a booking that Reserve has made, or could not make: ask OK first.
type Reservation struct {
	limiter  core
	subject  string
	id       string
	n        int64
	decision Decision
	at       time.Time // when the permits may be used, by the clock of this process
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
	q := question{method: reserve, permits: n, id: b.callID(), maxWait: b.maxAhead()}
	d, err := b.decide(ctx, subject, q)
	if err != nil {
		return nil, err
	}
	return b.reservation(subject, q, d), nil
}

// reservation makes a Reservation of a decision that was just made.
func (c core) reservation(subject string, q question, d Decision) *Reservation {
	r := &Reservation{limiter: c, subject: subject, id: q.id, n: q.permits, decision: d}
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
		return &WaitError{Limiter: r.limiter.limiterName(), N: r.n, Wait: r.decision.Wait, MaxWait: r.limiter.maxAhead()}
	}
	return sleep(ctx, r.Delay())
}

// Cancel gives the permits back. Use it if they will not be needed after all. Later bookings keep their times. Once the
// permits are due, Cancel does nothing, as in golang.org/x/time/rate, because they may have been used. It returns nil
// if there is nothing to give back. Only ZSetLog can give back: with the others the error is errors.ErrUnsupported.
// Cost: one round trip.
func (r *Reservation) Cancel(ctx context.Context) error {
	switch {
	case !r.OK():
		return nil
	case !r.limiter.kind.hasIDs:
		return r.limiter.errCannotGiveBack()
	case r.Delay() == 0:
		return nil
	}
	_, err := r.limiter.giveBack(ctx, r.subject, r.id, r.n)
	return err
}
