package loader

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Concurrency limits how many run at once: a subject has n slots, and all processes together never hold more of them.
// Use it for work that is bounded by what it occupies (connections, renderers, requests in flight), not by how often it
// starts. Most callers should use Acquire:
//
//	slot, err := render.Acquire(ctx, "acme")
//	if err != nil {
//		return err
//	}
//	defer slot.Release()
//	if err := renderPage(slot.Context(), page); err != nil {
//		return cmp.Or(context.Cause(slot.Context()), err) // a *SlotLostError if the slot was lost
//	}
//	return nil
//
// A slot is held under a lease in Redis that ends after ttl, and renews itself: see Slot. So the slots of a process
// that dies are free within ttl. A short ttl frees them sooner; a long one survives longer outages of Redis, and needs
// fewer renewals. 10 s to 1 min suits most work. The ttl need not be as long as the work.
//
// It is not first come, first served across processes: see Acquire. A lease takes 36 bytes of Redis, and 132 if there
// are more than 128. The zero Concurrency is not ready for use: see Loader.Concurrency.
type Concurrency struct{ limiter core }

// Concurrency returns the limiter of this name: n slots for each subject (up to 10000; with 0 everything is denied
// without asking Redis), under leases of ttl (1 ms to 366 days, in whole microseconds; at least ten round trips). Call
// Check when the program starts.
//
// The options are MaxWait, which bounds Acquire, and FailOpen. With FailOpen, TryAcquire and Acquire return a slot when
// Redis does not decide, and a slot whose renewals fail is kept. Such slots are not counted, so more than n may be
// held. FailLocal and RememberDenials are an *ArgumentError: the one limits a rate, and the other would not notice
// releases.
//
// Cost: nothing is sent.
func (l *Loader) Concurrency(name string, n int64, ttl time.Duration, opts ...LimiterOption) Concurrency {
	s := l.configure(&concurrency, name, opts)
	c := Concurrency{core{settings: s, limit: Limit{Window: ttl}}}
	return c.With(n)
}

// With returns a copy with another number of slots. Use it if the number depends on the customer or the plan. It
// applies at once to the slots that are held: if they are more than n, nobody gets one until enough are free, and those
// that are held stay so. Cost: nothing is sent.
func (c Concurrency) With(n int64) Concurrency {
	c.limiter.limit.Permits = n
	if c.limiter.settings != nil {
		c.limiter.limitErr = c.limiter.checkSlots()
	}
	return c
}

// TryAcquire takes a slot now. The slot is nil if none is free:
//
//	slot, d, err := render.TryAcquire(ctx, "acme")
//	if err != nil {
//		return err
//	}
//	if slot == nil {
//		return errBusy // 429
//	}
//	defer slot.Release()
//
// Decision.Wait of a denial is the time until a slot is free if no holder renews or releases its own: it says little
// about when one comes free, so choose the Retry-After header by how long the work takes. If the reply is lost, or
// comes after ctx has ended, a slot that was taken all the same is released in the background. Cost: one round trip;
// for a slot, two timers, a round trip for each third of its ttl, and one for its Release.
func (c Concurrency) TryAcquire(ctx context.Context, subject string) (*Slot, Decision, error) {
	l, sent := c.limiter.newLease(subject), time.Now()
	d, err := c.limiter.decide(ctx, subject, question{method: "TryAcquire", permits: 1, id: l.id})
	l.releaseUnknown(ctx, cmp.Or(err, d.Cause))
	if err != nil || !d.Granted {
		return nil, d, err
	}
	slot, err := l.slot(ctx, sent, d)
	if err != nil {
		return nil, Decision{}, err
	}
	return slot, d, nil
}

// Acquire takes a slot as soon as one is free. It returns the context's error as soon as the context ends, and a
// *WaitError after MaxWait, or at once if n is 0. Slot.Context descends from ctx: to bound only the waiting, use
// MaxWait. To stop the waiting on a signal, and let work that has begun come to its end:
//
//	work, cancel := context.WithCancel(context.WithoutCancel(interrupted))
//	defer cancel()
//	keep := context.AfterFunc(interrupted, cancel)
//	slot, err := render.Acquire(work, "acme")
//	if err == nil {
//		keep() // from here on, the signal does not end the work
//	}
//
// Callers in this process are served in the order of asking, for each subject and each n. Only the first of them asks
// Redis: when this process releases a slot of the subject, when the first lease ends, and otherwise after 125 to 250
// ms, down to every 10 to 20 ms after 1.2 s. There is no order across processes, but where another process waits too,
// this one leaves every fourth slot that it releases to the others for 20 ms.
//
// With a deadline or MaxWait, Acquire goes on through an outage as Wait does. Without both it returns the error of the
// first call that fails. With FailOpen, all who wait get a slot as soon as one call has failed. What a lost reply may
// have taken is kept if a slot is granted later, and otherwise released in the background. Cost: one round trip if a
// slot is free; while callers wait, one for each time that the first of them asks.
func (c Concurrency) Acquire(ctx context.Context, subject string) (*Slot, error) {
	o := c.limiter.watch(subject, question{method: acquire, permits: 1})
	observed := o.begin(ctx)
	defer o.abort()
	slot, err := c.limiter.acquire(wire.NotNil(ctx), observed, subject, o)
	o.end(err)
	return slot, err
}

// Peek returns how many slots are free, and changes nothing. Use it for dashboards. Wait is the time until one is free,
// and ResetAfter until all are, if no holder renews or releases its own. Cost: one round trip.
func (c Concurrency) Peek(ctx context.Context, subject string) (Decision, error) {
	return c.limiter.Peek(ctx, subject)
}

// Reset frees all slots of the subject, by removing its key. Use it if leases are left that nobody holds, as after a
// step back of Redis's clock. The contexts of slots that are held end at their next renewal; until then more than n may
// be held. Cost: one round trip, UNLINK.
func (c Concurrency) Reset(ctx context.Context, subject string) error {
	err := c.limiter.Reset(ctx, subject)
	if key, _ := c.limiter.key(subject); err == nil {
		c.limiter.loader.slotQueues.released(key)
	}
	return err
}

// Name returns the limiter's name. Use it in logs and headers. It is empty for a zero limiter. Cost: nothing.
func (c Concurrency) Name() string { return c.limiter.limiterName() }

// Check returns what is wrong with the limiter's name, numbers and options, and with the options of its Loader. Call it
// once, when the program starts. Cost: nothing is sent.
func (c Concurrency) Check() error { return c.limiter.Check() }

var concurrency = algorithm{
	name: "Concurrency", script: &concurrencyV1, code: codeConcurrency, hasIDs: true, capacity: limitCapacity,
	setArgs: setConcurrencyArgs, maxPermits: math.MaxInt64, keys: onlyKey,
	unused: []string{"FailLocal", "RememberDenials"},
}

func setConcurrencyArgs(c core, call *wire.Call, q question) { c.setLeaseArgs(call, 0, q.id) }

// checkSlots returns what is wrong with the number of slots or the ttl.
func (c core) checkSlots() error {
	n, ttl := c.limit.Permits, c.limit.Window
	maxSlots, maxTTL := c.algorithm.maxArgument("limit"), time.Duration(c.algorithm.maxArgument("ttl"))*time.Microsecond
	switch {
	case n < 0 || n > maxSlots:
		return c.errArgument("n", n, fmt.Sprintf("0 to %d", maxSlots))
	case ttl < minWindow || ttl > maxTTL:
		return c.errArgument("ttl", ttl, fmt.Sprintf("%v to %s", minWindow, span(maxTTL)))
	case ttl%time.Microsecond != 0:
		return c.errArgument("ttl", ttl, "whole microseconds")
	}
	return nil
}
