//go:build unix

package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	usedSlots   = 5
	usedTTL     = 6 * time.Second
	slotCallers = 20
)

// slotCall is a take or a renewal of a slot that was granted, or a release.
type slotCall struct {
	id             any // of the holder
	release        bool
	sent, answered time.Time
}

// slotLoad is callers who use slots, and what came of it.
type slotLoad struct {
	*run
	redis.Hook
	subject string
	end     func()
	keep    atomic.Bool // slots that are taken now are used until they are lost, or all ends
	kept    atomic.Int64
	uses    Record
	mu      sync.Mutex
	calls   []slotCall
}

// useSlots starts callers who use five slots.
func (r *run) useSlots(rdb redis.UniversalClient, subject string) *slotLoad {
	r.t.Helper()
	l := &slotLoad{run: r, subject: subject}
	rdb.AddHook(l)
	slots := loader.New(rdb).Concurrency("chaos", usedSlots, usedTTL, loader.MaxWait(30*time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for range slotCallers {
		callers.Go(func() {
			for ctx.Err() == nil {
				l.use(ctx, slots)
			}
		})
	}
	l.end = func() { cancel(); callers.Wait() }
	r.t.Cleanup(l.end)
	l.awaitUses(int(byExtent(10, 20)))
	return l
}

func (l *slotLoad) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *slotLoad) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook writes down the calls.
func (l *slotLoad) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmd)
		words := cmd.Args()
		if len(words) < 2 || words[1] != sluice.ConcurrencyV1SHA1 && words[1] != sluice.ConcurrencyReleaseV1SHA1 {
			return err
		}
		if reply, ok := cmd.(interface{ Val() []int64 }); ok && err == nil && reply.Val()[0] == 1 {
			l.mu.Lock()
			defer l.mu.Unlock()
			release := words[1] == sluice.ConcurrencyReleaseV1SHA1
			l.calls = append(l.calls, slotCall{words[len(words)-1], release, sent, time.Now()})
		}
		return err
	}
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

// lost is how many slots were held at a time that were taken or renewed after another time.
func (l *slotLoad) lost(after, until time.Time) int {
	l.mu.Lock() // an abandoned call may be noted later
	defer l.mu.Unlock()
	lost := map[any]bool{}
	for _, c := range l.calls {
		switch {
		case c.sent.After(until):
		case c.release:
			delete(lost, c.id)
		case c.answered.After(after):
			lost[c.id] = true
		}
	}
	return len(lost)
}

// audit ends the callers. More slots than there are were in use at once only after the loss of a master's writes, until
// all holders have renewed, and not more than were held by writes that were lost.
func (l *slotLoad) audit(loss loss) {
	l.t.Helper()
	used := func() int { return len(l.uses.Spent()) }
	l.awaitUses(used() + 5)
	known := time.Now().Add(usedTTL/3 + 2*time.Second) // all holders have renewed or have lost their slots
	redistest.Await(l.t, "all holders know", func() bool { return time.Now().After(known) })
	l.awaitUses(used() + int(byExtent(10, 20)))
	l.end()

	lost := l.lost(loss.after, loss.until)
	after, otherwise := MostAtOnce(l.uses.Spent(), Spent{From: loss.until, To: known})
	l.t.Logf("%d slots used, at most %d of %d at once, and %d after the failover, which lost up to %d",
		used(), otherwise, usedSlots, after, lost)
	if otherwise > usedSlots || after > usedSlots+lost {
		l.t.Errorf("more than %d at once, of which the failover explains up to %d", usedSlots, lost)
	}
}

// awaitUses waits until so many slots have been used.
func (l *slotLoad) awaitUses(n int) {
	l.t.Helper()
	for used := len(l.uses.Spent()); used < n; used = len(l.uses.Spent()) {
		redistest.Await(l.t, "more slots are used", func() bool { return len(l.uses.Spent()) > used })
	}
}
