//go:build unix

package soak

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// What callers of a run use. A lease is renewed after a third of its time, so it outlasts a failover with two thirds.
const (
	usedSlots   = 5
	usedTTL     = 9 * time.Second
	slotCallers = 20
)

// slotLoad is callers who use slots, and what came of it.
type slotLoad struct {
	t       *testing.T
	subject string
	callers *crowd
	keep    atomic.Bool // slots that are taken now are used until they are lost, or all ends
	kept    atomic.Int64
	uses    Record
}

// useSlots starts callers who use five slots.
func (r *run) useSlots(rdb redis.UniversalClient, subject string) *slotLoad {
	r.t.Helper()
	l := &slotLoad{t: r.t, subject: subject}
	slots := loader.New(rdb).Concurrency("chaos", usedSlots, usedTTL, loader.MaxWait(30*time.Second))
	l.callers = startCrowd(slotCallers, func(ctx context.Context, _ int) { l.use(ctx, slots) })
	r.t.Cleanup(l.callers.stop)
	l.awaitUses(byExtent(10, 20))
	return l
}

// use acquires a slot, and uses it for up to 4 s, or until it is lost.
func (l *slotLoad) use(ctx context.Context, c loader.Concurrency) {
	slot, err := c.Acquire(ctx, l.subject)
	if err != nil {
		return
	}
	enough := time.After(rand.N(4 * time.Second))
	if l.keep.Load() {
		l.kept.Add(1)
		enough = nil
	}
	use := useOf(slot, time.Now(), enough, nil)
	_ = slot.Release()
	l.uses.Add(use)
}

// useOf is the use of a slot since a time: until it is lost, or either channel says so.
func useOf(slot *loader.Slot, since time.Time, enough <-chan time.Time, drop <-chan struct{}) Spent {
	ended := make(chan time.Time, 1)
	context.AfterFunc(slot.Context(), func() { ended <- time.Now() })
	select {
	case at := <-ended:
		return Spent{since, at, 1}
	case <-enough:
	case <-drop:
	}
	return Spent{since, time.Now(), 1}
}

// keepSome waits until some slots have been taken that are kept.
func (l *slotLoad) keepSome() {
	l.keep.Store(true)
	enough := func() bool { return l.kept.Load() >= byExtent(1, 3) }
	redistest.Await(l.t, "slots are held that are not replicated", enough)
	l.keep.Store(false)
}

// lostBy is how many slots were held when an outage began whose leases may have been lost with it: all that were taken
// after what was replicated. If the outage lasted for half of a lease, those of all others may have ended meanwhile.
func lostBy(o *outage, uses []Spent) (lost int) {
	const answered = 100 * time.Millisecond // after the outage began: a slot that was taken before
	for _, use := range uses {
		held := use.From.Before(o.until.Add(answered)) && use.To.After(o.until)
		if held && (use.From.After(o.after) || max(o.whole, o.first) > usedTTL/2) {
			lost++
		}
	}
	return lost
}

// audit ends the callers. More slots than there are were in use at once only after the loss of a master's writes, until
// all holders have renewed, and not more than were held by writes that were lost.
func (l *slotLoad) audit(o *outage) {
	l.t.Helper()
	l.awaitUses(5)
	known := time.Now().Add(usedTTL/3 + 2*time.Second) // all holders have renewed or have lost their slots
	redistest.Await(l.t, "all holders know", func() bool { return time.Now().After(known) })
	l.awaitUses(byExtent(10, 20))
	l.callers.stop()

	uses := l.uses.Spent()
	lost := lostBy(o, uses)
	after, otherwise := MostAtOnce(uses, Spent{From: o.until, To: known})
	l.t.Logf("%d slots used, at most %d of %d at once, and %d after the failover, which lost up to %d",
		len(uses), otherwise, usedSlots, after, lost)
	if otherwise > usedSlots || after > usedSlots+lost {
		l.t.Errorf("more than %d at once, of which the failover explains up to %d", usedSlots, lost)
	}
}

// awaitUses waits until so many more slots have been used.
func (l *slotLoad) awaitUses(n int64) {
	l.t.Helper()
	awaitMore(l.t, "slots are used", n, func() int64 { return int64(len(l.uses.Spent())) })
}
