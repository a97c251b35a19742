package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/audit"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	slotLimit   = 5
	slotTTL     = 6 * time.Second
	slotCallers = 20
)

// slotCall is a take or a renewal of a slot that was answered: it may have written.
type slotCall struct{ sent, answered time.Time }

// slotLoad is callers who use slots, and what came of it.
type slotLoad struct {
	mu    sync.Mutex
	uses  []audit.Use
	calls []slotCall
}

// note is a hook that writes down the calls.
func (l *slotLoad) note(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmd)
		if err == nil && cmd.Name() == "evalsha" {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = append(l.calls, slotCall{sent, time.Now()})
		}
		return err
	}
}

type slotHook struct {
	redis.Hook
	load *slotLoad
}

func (h slotHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h slotHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return h.load.note(next) }
func (h slotHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// use acquires a slot, and uses it for up to 4 s.
func (l *slotLoad) use(ctx context.Context, c loader.Concurrency) {
	slot, err := c.Acquire(ctx, "s")
	if err != nil {
		return
	}
	u := audit.Use{From: time.Now()}
	ended := make(chan time.Time, 1)
	context.AfterFunc(slot.Context(), func() { ended <- time.Now() })
	select {
	case <-time.After(rand.N(4 * time.Second)):
		u.To = time.Now()
	case u.To = <-ended:
	}
	_ = slot.Release()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uses = append(l.uses, u)
}

// used is how many slots have been used.
func (l *slotLoad) used() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.uses)
}

// within is how many calls may have written after one time and up to another.
func (l *slotLoad) within(after, until time.Time) (n int) {
	for _, c := range l.calls {
		if c.answered.After(after) && c.sent.Before(until) {
			n++
		}
	}
	return n
}

// TestSlots has callers use five slots while a master is killed whose replica was cut off before. More are in use at
// once only after the failover, until all holders have renewed, and not more than writes were lost.
func TestSlots(t *testing.T) {
	inParallel(t)
	s := redistest.StartSentinels(t, time.Second)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs,
		DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	load := &slotLoad{}
	rdb.AddHook(slotHook{load: load})
	slots := loader.New(rdb).Concurrency("chaos", slotLimit, slotTTL, loader.MaxWait(30*time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for range slotCallers {
		callers.Go(func() {
			for ctx.Err() == nil {
				load.use(ctx, slots)
			}
		})
	}
	t.Cleanup(func() { cancel(); callers.Wait() })
	awaitUses(t, load, int(byExtent(10, 50)))

	dying, heir := s.Master.Client(t), s.Replica.Client(t)
	watch := watchMaster(dying)
	time.Sleep(cutOff)
	unplug(t, heir, dying)
	time.Sleep(time.Duration(byExtent(1, 3)) * 500 * time.Millisecond)
	s.Master.Kill()
	killed := time.Now()
	var offset int64
	redistest.Await(t, "the replica is promoted", func() bool { offset = takenOver(heir); return offset > 0 })
	redistest.Await(t, "all sentinels name the replica", func() bool { return s.MasterIs(s.Replica.Addr) })
	awaitUses(t, load, load.used()+5)
	known := time.Now().Add(slotTTL/3 + 2*time.Second) // all holders have renewed or have lost their slots
	redistest.Await(t, "all holders know", func() bool { return time.Now().After(known) })
	awaitUses(t, load, load.used()+int(byExtent(10, 50)))
	cancel()
	callers.Wait()

	lost := load.within(watch.replicated(offset), killed)
	after, otherwise := audit.MostAtOnce(load.uses, audit.Use{From: killed, To: known})
	t.Logf("%d slots used, at most %d of %d at once, and %d after the failover, which lost up to %d writes",
		len(load.uses), otherwise, slotLimit, after, lost)
	if otherwise > slotLimit || after > slotLimit+lost {
		t.Errorf("more than %d at once, of which the failover explains up to %d", slotLimit, lost)
	}
}

// awaitUses waits until so many slots have been used.
func awaitUses(t *testing.T, load *slotLoad, n int) {
	t.Helper()
	for used := load.used(); used < n; used = load.used() {
		redistest.Await(t, "more slots are used", func() bool { return load.used() > used })
	}
}
