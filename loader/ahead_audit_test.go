package loader_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var aheadAudit = flag.Duration("ahead-audit", 2*time.Second, "length of each audit of Aheads")

// aheadProcess stands for a process: an Ahead with a client and a way to the server of its own.
type aheadProcess struct {
	proxy *redistest.Proxy
	rdb   *redis.Client
	ring  loader.SliceRing
	*loader.Ahead
}

// Eight processes under random faults: their connections are cut, delayed, swallowed and refused, the server is frozen,
// and processes die. No window holds more than the limit and the error.
func TestServerAheadAudit(t *testing.T) {
	for name, c := range map[string]struct {
		limit int64
		error float64
		pause time.Duration // of callers, between bursts
	}{
		"1 %, evenly":    {1600, 0.01, 0},
		"5 %, in bursts": {640, 0.05, 40 * time.Millisecond},
		"20 %, evenly":   {400, 0.2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked, most := auditAheads(t, c.limit, c.error, c.pause)
			bound := int(float64(c.limit) * (1 + c.error))
			t.Logf("%d calls; at most %d in any window, of %d to %d", asked, most, c.limit, bound)
			if most > bound || most < int(c.limit)/2 {
				t.Errorf("at most %d in a window: want up to %d, and not much less", most, bound)
			}
		})
	}
}

func auditAheads(t *testing.T, limit int64, share float64, pause time.Duration) (asked int64, most int) {
	const processes, window = 8, time.Second
	server := redistest.Start(t)
	admin := server.Client(t)
	var current [processes]atomic.Pointer[aheadProcess]
	start := func(i int) {
		p := &aheadProcess{proxy: redistest.StartProxy(t, server.Addr)}
		p.rdb = clientOf(t, options(p.proxy.Addr))
		p.ring = loader.New(p.rdb, loader.Timeout(100*time.Millisecond), loader.ShareRoundTrips()).
			SliceRing("x", []loader.Limit{{Permits: limit, Window: window}})
		var err error
		p.Ahead, err = p.ring.Ahead(loader.AheadOptions{Processes: processes, Error: share})
		must(t, err)
		current[i].Store(p)
	}
	a := audit{start: time.Now()}
	ctx, cancel := context.WithTimeout(background, *aheadAudit)
	defer cancel()
	var wg sync.WaitGroup
	var calls atomic.Int64
	for i := range processes {
		start(i)
		for caller := range 6 {
			wg.Go(func() {
				for ctx.Err() == nil {
					for range 30 {
						p := current[i].Load()
						limiter := loader.Limiter(p)
						if caller < 2 {
							limiter = p.ring
						}
						_ = a.note(func() (loader.Decision, error) { return limiter.Allow(ctx, "s") })
						calls.Add(1)
					}
					time.Sleep(time.Millisecond + rand.N(pause+1))
				}
			})
		}
	}
	for died := time.Now(); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		i := rand.IntN(processes)
		p := current[i].Load()
		switch rand.IntN(8) {
		case 0:
			p.proxy.CutReplies(rand.IntN(3))
		case 1:
			p.proxy.Delay(rand.N(20*time.Millisecond), rand.N(20*time.Millisecond))
		case 2:
			p.proxy.Swallow()
		case 3:
			p.proxy.Disconnect()
		case 4:
			must(t, admin.Do(background, "CLIENT", "PAUSE", "30").Err())
		default:
			p.proxy.Pass()
		}
		if time.Since(died) > window/processes+window/40 { // at most so many die in a window
			died = time.Now()
			_ = p.rdb.Close() // it reports nothing any more
			start(i)
		}
	}
	wg.Wait()
	return calls.Load(), a.most(window)
}
