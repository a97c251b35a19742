package loader

import (
	"context"
	"time"
)

// Reservation is what Reserve booked.
type Reservation struct {
	limiter  core
	subject  string
	id       string
	n        int64
	decision Decision
	at       time.Time // when the permits may be used, by the clock of this process
}

// booker is a limiter that books ahead.
type booker struct{ core }

// Reserve is ReserveN for one permit. Cost: one round trip.
func (b booker) Reserve(ctx context.Context, subject string) (*Reservation, error) {
	return b.ReserveN(ctx, subject, 1)
}

// ReserveN books n permits for as soon as they may be used. Use it where the caller has something better to do than to
// sleep in Wait. It books up to MaxWait or 60 s ahead, whichever is less. The reservation is not OK if they would come
// free later than that. First come, first served: until they have been used, Allow grants nobody anything. Cost: one
// round trip.
func (b booker) ReserveN(ctx context.Context, subject string, n int64) (*Reservation, error) {
	q := question{method: reserve, permits: n, id: b.callID(), maxWait: b.maxAhead()}
	d, err := b.decide(ctx, subject, q)
	if err != nil {
		return nil, err
	}
	return b.reservation(subject, q, d), nil
}

// reservation is what a question to book was answered, just now.
func (c core) reservation(subject string, q question, d Decision) *Reservation {
	r := &Reservation{limiter: c, subject: subject, id: q.id, n: q.permits, decision: d}
	if d.Granted {
		r.at = time.Now().Add(d.Wait)
	}
	return r
}

// maxAhead is how far ahead one call may book.
func (c core) maxAhead() time.Duration {
	if c.settings == nil || c.maxWait == 0 {
		return maxBooking
	}
	return min(c.maxWait, maxBooking)
}

// OK reports whether the permits were booked. Ask it first. Cost: nothing is sent.
func (r *Reservation) OK() bool { return r.decision.Granted }

// Decision returns what the script answered. Of a reservation that is not OK, Wait says when the permits
// would come free. Cost: nothing is sent.
func (r *Reservation) Decision() Decision { return r.decision }

// Delay returns how long to hold off from now until the permits may be used: 0 when they may be, Never
// when the reservation is not OK. Use it to plan the work. Cost: nothing is sent.
func (r *Reservation) Delay() time.Duration {
	if !r.OK() {
		return Never
	}
	return max(time.Until(r.at), 0)
}

// Wait returns when the permits may be used, or the context's error as soon as the context ends; the
// permits stay booked then. Use it to sleep until they are due. It returns a *WaitError if the reservation is not OK.
// Cost: nothing is sent.
func (r *Reservation) Wait(ctx context.Context) error {
	if !r.OK() {
		return &WaitError{Limiter: r.limiter.limiterName(), N: r.n, Wait: r.decision.Wait, MaxWait: r.limiter.maxAhead()}
	}
	return sleep(ctx, r.Delay())
}

// Cancel gives the permits back, for use by others. Use it where they will not be needed after all. Those who have
// booked behind them keep their moments. Once the moment of the permits has come it does nothing, as
// golang.org/x/time/rate does: they may have been used. Only ZSetLog can: of the others it is an error that is
// errors.ErrUnsupported. It is nil if there is nothing to give back. Cost: one round trip.
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
