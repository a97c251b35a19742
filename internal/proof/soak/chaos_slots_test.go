//go:build unix

package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
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
	keep  atomic.Bool // slots that are taken now are used until they are lost, or all ends
	kept  atomic.Int64
	mu    sync.Mutex
	uses  []Use
	calls []slotCall
}

// note is a hook that writes down the calls.
func (l *slotLoad) note(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Val() []int64 }); ok && err == nil && reply.Val()[0] == 1 {
			words := cmd.Args()
			c := slotCall{words[len(words)-1], words[1] == sluice.ConcurrencyReleaseV1SHA1, sent, time.Now()}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = append(l.calls, c)
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

// use acquires a slot, and uses it for up to 4 s, or until it is lost.
func (l *slotLoad) use(ctx context.Context, c loader.Concurrency) {
	slot, err := c.Acquire(ctx, "s")
	if err != nil {
		return
	}
	u := Use{From: time.Now()}
	ended := make(chan time.Time, 1)
	context.AfterFunc(slot.Context(), func() { ended <- time.Now() })
	enough := time.After(rand.N(4 * time.Second))
	if l.keep.Load() {
		l.kept.Add(1)
		enough = nil
	}
	select {
	case <-enough:
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

// TestSlots has callers use five slots while a master is killed whose replica was cut off before. More are in use at
// once only after the failover, until all holders have renewed, and not more than were held by writes that were lost.
func TestSlots(t *testing.T) {
	t.Parallel()
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinels(t, time.Second)
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs,
			DisableIdentity: true})
		settled := func() bool { return s.MasterIs(s.Replica.Addr) }
		auditSlots(t, rdb, pair{master: s.Master, replica: s.Replica, settled: settled})
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", nodeTimeout())
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr, nodes[1].Addr},
			DisableIdentity: true})
		c := &cluster{run: &run{t: t}, masters: nodes[:3], replicas: nodes[3:]}
		i := int(nodes[0].Client(t).ClusterKeySlot(context.Background(), "s").Val()) * 3 / redistest.Slots
		auditSlots(t, rdb, pair{master: c.masters[i], replica: c.replicas[i], settled: c.wholeWithout(i)})
	})
}

// auditSlots kills a master, on which the slots are, while they are used.
func auditSlots(t *testing.T, rdb redis.UniversalClient, p pair) {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	load := &slotLoad{}
	rdb.AddHook(slotHook{load: load})
	slots := loader.New(rdb).Concurrency("chaos", usedSlots, usedTTL, loader.MaxWait(30*time.Second))
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
	awaitUses(t, load, int(byExtent(10, 20)))

	p.unplugged = func() {
		load.keep.Store(true)
		redistest.Await(t, "slots are held that are not replicated", func() bool { return load.kept.Load() >= byExtent(1, 3) })
		load.keep.Store(false)
	}
	r := &run{t: t, settles: "the others know it", faults: map[string]int64{}}
	r.killMaster(p, true)
	killed := r.losses[0].until
	awaitUses(t, load, load.used()+5)
	known := time.Now().Add(usedTTL/3 + 2*time.Second) // all holders have renewed or have lost their slots
	redistest.Await(t, "all holders know", func() bool { return time.Now().After(known) })
	awaitUses(t, load, load.used()+int(byExtent(10, 20)))
	cancel()
	callers.Wait()

	lost := load.lost(r.losses[0].after, killed)
	after, otherwise := MostAtOnce(load.uses, Use{From: killed, To: known})
	t.Logf("%d slots used, at most %d of %d at once, and %d after the failover, which lost up to %d",
		len(load.uses), otherwise, usedSlots, after, lost)
	if otherwise > usedSlots || after > usedSlots+lost {
		t.Errorf("more than %d at once, of which the failover explains up to %d", usedSlots, lost)
	}
}

// awaitUses waits until so many slots have been used.
func awaitUses(t *testing.T, load *slotLoad, n int) {
	t.Helper()
	for used := load.used(); used < n; used = load.used() {
		redistest.Await(t, "more slots are used", func() bool { return load.used() > used })
	}
}
