//go:build unix

package soak

import (
	"context"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// How long a lease of an attack lasts, and how long it is held: some are renewed.
const (
	slotTTL  = 2 * time.Second
	slotHold = 4 * time.Second
)

// slots are audited by the times in which they were held, and by the leases that are left when all are released.
var slots = &script{
	name: "concurrency", ledger: loader.Limit{Permits: 10_000, Window: slotTTL}, slots: true,
	make: func(l *limits, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
		return slotLimiter{of: l.Concurrency(name, limit.Permits, limit.Window, opts...)}
	},
}

// slotLimiter is a Concurrency in the shape of a limiter, of which it has Peek and Reset only.
type slotLimiter struct {
	loader.Limiter
	of loader.Concurrency
}

func (l slotLimiter) Peek(ctx context.Context, subject string) (loader.Decision, error) {
	return l.of.Peek(ctx, subject)
}

func (l slotLimiter) Reset(ctx context.Context, subject string) error {
	return l.of.Reset(ctx, subject)
}

// ask fills in the answer.
func (l slotLimiter) ask(ctx context.Context, h how, a *answer) {
	a.permits = 1
	if h == waiting {
		a.slot, a.err = l.of.Acquire(ctx, a.subject)
	} else {
		a.slot, a.decided, a.err = l.of.TryAcquire(ctx, a.subject)
	}
}

// hold holds a slot for a while, or until it is lost or all are to be released. It ends the slot's context at last.
func (w *worker) hold(slot *loader.Slot, a *answer, since time.Time, end context.CancelFunc) {
	b, drop, held := w.book(a.place), w.drop, upTo(w.random, slotHold)
	w.attack.counts.add(slotsTaken, 1)
	w.held.Go(func() {
		defer end()
		select {
		case <-slot.Context().Done():
		case <-time.After(held):
		case <-drop:
		}
		until := time.Now().Add(-w.attack.pulse.lag(since)) // the context may have ended late
		if until.Before(since) {
			until = since
		}
		b.released(Spent{since, until, 1}, a.ledger, w.release(slot))
	})
}

// release releases a slot, and reports whether that is certain.
func (w *worker) release(slot *loader.Slot) (certain bool) {
	defer func() {
		if raised := recover(); raised != nil {
			c := &called{worker: w, panicked: raised, event: w.attack.last.Load()}
			c.judgePanic()
		}
	}()
	return slot.Release() == nil
}

// released records that a slot is not held any more. Its lease may last until its end if that is not certain.
func (b *book) released(use Spent, ledger, certain bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !certain {
		b.unknown++
	}
	if ledger {
		b.returned.Add(Spent{use.To, use.To, 1})
	} else {
		b.uses.Add(use)
	}
}
