package loader_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// An audit keeps when permits were spent: no earlier and no later than noted.
type audit struct {
	start time.Time
	mu    sync.Mutex
	spent []spending
}

type spending struct{ after, before time.Duration }

// note asks for a permit and notes when it was spent, if it was.
func (a *audit) note(ask func() (loader.Decision, error)) error {
	s := spending{after: time.Since(a.start)}
	d, err := ask()
	s.before = time.Since(a.start)
	if d.Granted {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.spent = append(a.spent, s)
	}
	return err
}

// most is how many permits some window of this length surely holds.
func (a *audit) most(window time.Duration) (most int) {
	slices.SortFunc(a.spent, func(x, y spending) int { return int(x.after - y.after) })
	for i, first := range a.spent {
		held := 0
		for _, s := range a.spent[i:] {
			if s.after >= first.after+window {
				break
			}
			if s.before < first.after+window {
				held++
			}
		}
		most = max(most, held)
	}
	return most
}

// Three processes that lease and one that does not, all on one key, in bursts and pauses that make them hold permits
// as long as they may: of the times at which permits are spent no window ever holds more than the limit.
func TestLeaseAudit(t *testing.T) {
	t.Parallel()
	const limit = 40
	most, spent := auditLeases(t, limit, 20*time.Second, func(r loader.SliceRing) loader.SliceRing { return r })
	if most > limit || most < limit*3/4 {
		t.Errorf("at most %d of %d spendings in a window, want at most %d and not much less", most, spent, limit)
	}
}

// The same where the windows do not count the age: the audit sees it in a third of the time. Two seconds are enough.
func TestLeaseAuditFails(t *testing.T) {
	t.Parallel()
	const limit = 40
	if most, _ := auditLeases(t, limit, 7*time.Second, loader.SliceRing.ChargePlainWindow); most <= limit {
		t.Errorf("at most %d in a window: the audit does not see what is wrong", most)
	}
}

const (
	auditWindow = 100 * time.Millisecond
	auditSlice  = 10 * time.Millisecond
	auditAge    = 80 * time.Millisecond
)

// auditLeases lets so much time pass in a bubble. Calls take up to 4 ms to the server and 4 ms back.
func auditLeases(t *testing.T, limit int64, length time.Duration, as func(loader.SliceRing) loader.SliceRing,
) (most, spent int) {
	m := miniredis.RunT(t)
	synctest.Test(t, func(t *testing.T) {
		a := &audit{start: time.Now()}
		var all sync.WaitGroup
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 4))
			var mu sync.Mutex
			pause := func(most time.Duration) {
				mu.Lock()
				d := time.Duration(random.Int64N(int64(most)))
				mu.Unlock()
				time.Sleep(d)
			}
			rdb := redis.NewClient(options(m.Addr()))
			defer func() { _ = rdb.Close() }()
			rdb.AddHook(hook{
				before: func(redis.Cmder) { pause(4 * time.Millisecond); m.SetTime(time.Now()) },
				after:  func(redis.Cmder, error) { pause(4 * time.Millisecond) },
			})
			ring := as(loader.New(rdb).SliceRing("x", []loader.Limit{{Permits: limit, Window: auditWindow}},
				loader.Slice(auditSlice), loader.LeaseAge(auditAge)))
			limiter := loader.Limiter(ring)
			if seed > 0 {
				leased := lease(t, ring, loader.LeaseOptions{Block: 16, Idle: time.Hour})
				defer func() { _ = leased.Close(background) }()
				limiter = leased
			}
			all.Go(func() {
				for time.Since(a.start) < length {
					mu.Lock()
					burst := 1 + random.IntN(12)
					mu.Unlock()
					for range burst {
						must(t, a.note(func() (loader.Decision, error) { return limiter.Allow(background, "s") }))
					}
					pause(2 * auditAge)
				}
			})
		}
		all.Wait()
		most, spent = a.most(auditWindow), len(a.spent)
		t.Logf("at most %d of %d spendings in a window", most, spent)
	})
	return most, spent
}

// A call for permits whose reply is lost loses them, and so does a return: nothing is asked for or given back twice.
func TestLeaseLostReplies(t *testing.T) {
	p := newProxy(t, real(t).Options().Addr)
	limits := loader.New(client(t, p.addr))
	must(t, limits.Preload(background))
	ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(100)}, loader.LeaseAge(10*time.Second))
	leased := lease(t, ring, loader.LeaseOptions{Block: 20})
	defer func() { _ = leased.Close(background) }()
	remaining := func(want int64) {
		t.Helper()
		wantRemaining(t, ring, "s", want)
	}
	take := func() {
		t.Helper()
		wantGrant(t, leased, "s", 5)
	}

	p.next(fault{dropReply: true})
	_, err := leased.AllowN(background, "s", 5)
	as[*loader.OutcomeUnknownError](t, err)
	remaining(95)
	take()
	take() // of ten
	remaining(80)
	p.next(fault{dropReply: true})
	as[*loader.OutcomeUnknownError](t, leased.Close(background))
	remaining(85)
	if seen := p.seen.Load(); seen != 7 {
		t.Errorf("%d calls, want 7", seen)
	}
}
