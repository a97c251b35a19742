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
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/internal/proof/soak"
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
	for _, c := range auditsOfAheads {
		t.Run(c.name, func(t *testing.T) {
			auditAheads(t, c, false).judge(t, c.bound(false))
		})
	}
}

// The same where the Aheads are strict, and those who ask Redis use Direct: no window holds more than the limit.
func TestServerAheadAuditStrict(t *testing.T) {
	for _, c := range auditsOfAheads {
		t.Run(c.name, func(t *testing.T) { auditAheads(t, c, true).judge(t, c.bound(true)) })
	}
}

type auditOfAheads struct {
	name  string
	limit int64
	error float64
	pause time.Duration // of callers, between bursts
}

// bound returns the most permits that a window may hold.
func (c auditOfAheads) bound(strict bool) int {
	if strict {
		return int(c.limit)
	}
	return int(float64(c.limit) * (1 + c.error))
}

var auditsOfAheads = []auditOfAheads{
	{"1 %, evenly", 1600, 0.01, 0},
	{"5 %, in bursts", 640, 0.05, 40 * time.Millisecond},
	{"20 %, evenly", 400, 0.2, 0},
}

// The worst that the rule lets happen: eight processes with an answer that says that there is room grant what may be
// ahead, have no reply and die; eight more do the same, and then all is used up.
func TestServerAheadAuditOfDeaths(t *testing.T) {
	const limit = 400
	most := auditDeaths(t, limit, 1, false)
	if most > 2*limit || most <= limit { // a slow machine spreads the deaths over more than a window
		t.Errorf("at most %d in a window: want more than %d, up to %d", most, limit, 2*limit)
	}
}

// The same where four fifths of the limit are taken off it: sixteen Aheads grant them, and no window holds more than
// the limit.
func TestServerAheadAuditOfDeathsStrict(t *testing.T) {
	const limit, share = 400, 0.8
	most := auditDeaths(t, limit, share, true)
	if enforced := limit / 5; most > limit || most <= enforced {
		t.Errorf("at most %d in a window: want more than %d, up to %d", most, enforced, limit)
	}
}

func auditDeaths(t *testing.T, limit int64, share float64, strict bool) (most int) {
	a := startAheads(t, limit, share, strict)
	ctx, cancel := context.WithTimeout(background, *aheadAudit+4*aheadWindow)
	defer cancel()
	a.resting.Store(true)
	a.callAll(ctx, 0)
	for ctx.Err() == nil {
		for range 2 {
			for i := range a.current {
				a.replace(i)
				await(t, func() bool { return errOf(a.current[i].Load().Allow(background, "s")) == nil })
				a.current[i].Load().proxy.Swallow()
			}
			a.resting.Store(false)
			time.Sleep(aheadWindow / 8)
			a.resting.Store(true)
		}
		for i := range a.current {
			a.current[i].Load().proxy.Pass()
		}
		a.resting.Store(false)
		time.Sleep(aheadWindow)
		a.resting.Store(true)
		time.Sleep(aheadWindow * 5 / 4)
	}
	a.callers.Wait()
	most = int(soak.MostWithin(a.granted.Spent(), aheadWindow))
	t.Logf("%d calls; at most %d in any window, of %d, error %.0f %%", a.calls.Load(), most, limit, 100*share)
	return most
}

const aheadWindow = time.Second

// aheads are the processes of an audit.
type aheads struct {
	*testing.T
	granted soak.Record
	server  *redistest.Server
	limit   int64
	error   float64
	strict  bool
	current [8]atomic.Pointer[aheadProcess]
	resting atomic.Bool // nobody calls
	callers sync.WaitGroup
	calls   atomic.Int64
}

func startAheads(t *testing.T, limit int64, share float64, strict bool) *aheads {
	a := &aheads{T: t, server: redistest.Start(t), limit: limit, error: share, strict: strict}
	for i := range a.current {
		a.replace(i)
	}
	return a
}

// replace has a process die, which reports nothing any more, and starts another one.
func (a *aheads) replace(i int) {
	p := &aheadProcess{proxy: redistest.StartProxy(a.T, a.server.Addr)}
	p.rdb = clientOf(a.T, options(p.proxy.Addr))
	p.ring = loader.New(p.rdb, loader.Timeout(100*time.Millisecond), loader.WithoutBreaker()).
		SliceRing("x", []loader.Limit{{Permits: a.limit, Window: aheadWindow}})
	var err error
	p.Ahead, err = p.ring.Ahead(loader.AheadOptions{Processes: len(a.current), Error: a.error, Strict: a.strict})
	must(a.T, err)
	p.ring = p.Direct()
	if died := a.current[i].Swap(p); died != nil {
		_ = died.rdb.Close()
	}
}

// callAll starts six callers of each process, two of which ask Redis.
func (a *aheads) callAll(ctx context.Context, pause time.Duration) {
	for i := range a.current {
		for caller := range 6 {
			a.callers.Go(func() {
				for ctx.Err() == nil {
					for n := 0; n < 30 && !a.resting.Load(); n++ {
						p := a.current[i].Load()
						limiter := loader.Limiter(p)
						if caller < 2 {
							limiter = p.ring
						}
						_ = a.granted.Ask(func() (bool, error) {
							d, err := limiter.Allow(ctx, "s")
							return d.Granted, err
						})
						a.calls.Add(1)
					}
					time.Sleep(time.Millisecond + rand.N(pause+1))
				}
			})
		}
	}
}

// audited is what an audit found.
type audited struct{ asked, most, limit int }

func auditAheads(t *testing.T, c auditOfAheads, strict bool) audited {
	a := startAheads(t, c.limit, c.error, strict)
	admin := a.server.Client(t)
	ctx, cancel := context.WithTimeout(background, *aheadAudit)
	defer cancel()
	a.callAll(ctx, c.pause)
	for died := time.Now(); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		i := rand.IntN(len(a.current))
		p := a.current[i].Load()
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
		if time.Since(died) > aheadWindow/8+aheadWindow/40 { // at most so many die in a window
			died = time.Now()
			a.replace(i)
		}
	}
	a.callers.Wait()
	return audited{int(a.calls.Load()), int(soak.MostWithin(a.granted.Spent(), aheadWindow)), int(c.limit)}
}

// judge fails the test if a window holds more than the bound, or so little that nothing was audited.
func (a audited) judge(t *testing.T, bound int) {
	t.Logf("%d calls; at most %d in any window, of %d to %d", a.asked, a.most, a.limit, bound)
	if enough := min(a.limit/2, a.asked/8); a.most > bound || a.most < enough { // a slow machine asks for less
		t.Errorf("at most %d in a window: want %d to %d", a.most, enough, bound)
	}
}
