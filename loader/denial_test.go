package loader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// remembering runs a test in a bubble with limits whose attempts to decide are counted.
func remembering(t *testing.T, test func(t *testing.T, limits *loader.Loader, asked *atomic.Int64)) {
	var asked atomic.Int64
	count := loader.ObserverFunc(func(_ context.Context, e loader.Event) { asked.Add(int64(e.Attempts)) })
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, limits *loader.Loader) {
		must(t, limits.Preload(background))
		test(t, limits, &asked)
	}, loader.Observe(count))
}

// TestDenialIsRemembered follows a log of 3 permits in 10 s; asked is how many calls reach the server.
func TestDenialIsRemembered(t *testing.T) {
	const s = time.Second
	steps := []struct {
		at      time.Duration
		n       int64
		asked   int64
		granted bool
		wait    time.Duration
		reset   time.Duration
	}{
		{0, 2, 1, true, 0, 10 * s},
		{0, 2, 1, false, 10 * s, 10 * s},
		{1 * s, 2, 0, false, 9 * s, 9 * s},
		{1500 * time.Microsecond * 1000, 3, 1, false, 8500 * time.Millisecond, 8500 * time.Millisecond},
		{2 * s, 1, 1, true, 0, 10 * s}, // fewer than were denied
		{2 * s, 2, 0, false, 8 * s, 8 * s},
		{2 * s, 1, 1, false, 8 * s, 10 * s},
		{9*s + 999999*time.Microsecond, 1, 0, false, time.Microsecond, 2*s + time.Microsecond},
		{10 * s, 1, 1, true, 0, 10 * s},
		{10 * s, 3, 1, false, 10 * s, 10 * s},
		{20 * s, 3, 1, true, 0, 10 * s},
	}
	remembering(t, func(t *testing.T, limits *loader.Loader, asked *atomic.Int64) {
		log := limits.ListLog("x", loader.Limit{Permits: 3, Window: 10 * s}, loader.RememberDenials(10))
		started := time.Now()
		for _, step := range steps {
			time.Sleep(step.at - time.Since(started))
			before := asked.Load()
			got, err := log.AllowN(background, "s", step.n)
			want := loader.Decision{
				Granted: step.granted, Remaining: got.Remaining, Wait: step.wait, ResetAfter: step.reset, Now: time.Now(),
				Limit: loader.Limit{Permits: 3, Window: 10 * s},
			}
			if diff := cmp.Diff(want, got, ofGrants); err != nil || diff != "" || asked.Load()-before != step.asked {
				t.Errorf("at %v, %d: %d calls, want %d; %v\n%s", step.at, step.n, asked.Load()-before, step.asked, err, diff)
			}
		}
	})
}

// What a remembered denial may not answer is asked.
func TestDenialIsNotUsed(t *testing.T) {
	remembering(t, func(t *testing.T, limits *loader.Loader, asked *atomic.Int64) {
		log := limits.ZSetLog("x", loader.Limit{Permits: 2, Window: 10 * time.Second}, loader.RememberDenials(10))
		asks := func(what string, want int64, do func() error) {
			t.Helper()
			before := asked.Load()
			must(t, do())
			if got := asked.Load() - before; got != want {
				t.Errorf("%s: %d calls, want %d", what, got, want)
			}
		}
		allow := func(log loader.ZSetLog, want bool) func() error {
			return func() error {
				d, err := log.Allow(background, "s")
				if d.Granted != want {
					t.Errorf("%+v, want granted: %v", d, want)
				}
				return err
			}
		}
		asks("a grant", 1, allow(log.WithID("a"), true))
		asks("a grant", 1, allow(log, true))
		asks("a denial", 1, allow(log, false))
		asks("the same", 0, allow(log, false))
		asks("an id that was granted", 1, allow(log.WithID("a"), true))
		asks("another limit", 1, allow(log.With(loader.Limit{Permits: 3, Window: 10 * time.Second}), true))
		asks("another subject", 1, func() error { _, err := log.Allow(background, "t"); return err })
		asks("a look", 1, func() error { _, err := log.Peek(background, "s"); return err })
		asks("a booking", 1, func() error {
			r, err := log.Reserve(background, "s")
			if err == nil && !r.OK() {
				t.Error("not booked")
			}
			return err
		})
		asks("a wait", 1, func() error { return log.Wait(background, "s") })

		ring := limits.SliceRing("x", []loader.Limit{{Permits: 1, Window: 10 * time.Second}}, loader.RememberDenials(10))
		for i, want := range []int64{1, 1, 0} {
			asks("a ring", want, func() error {
				d, err := ring.Allow(background, "s")
				if d.Granted != (i == 0) {
					t.Errorf("%d: %+v", i, d)
				}
				return err
			})
		}
		asks("other windows", 1, func() error {
			wantGrant(t, ring.With(loader.Limit{Permits: 2, Window: 10 * time.Second}), "s", 1)
			return nil
		})
	})
}

// What this process does to a limiter is taken into account at once.
func TestDenialIsDropped(t *testing.T) {
	limit := loader.Limit{Permits: 2, Window: 10 * time.Second}
	denies := func(t *testing.T, limiter loader.Limiter) {
		t.Helper()
		for range 2 {
			wantDenial(t, limiter, "s", 1)
		}
	}
	eachLimiter(t, func(t *testing.T, i int) {
		remembering(t, func(t *testing.T, limits *loader.Loader, asked *atomic.Int64) {
			limiter := makers[i].make(limits, limit, loader.RememberDenials(10))
			wantGrant(t, limiter, "s", 2)
			denies(t, limiter)
			must(t, limiter.Reset(background, "s"))
			wantGrant(t, limiter, "s", 1)
		})
	})
	remembering(t, func(t *testing.T, limits *loader.Loader, asked *atomic.Int64) {
		log := limits.ZSetLog("x", limit, loader.RememberDenials(10))
		d := wantGrant(t, log.WithID("a"), "s", 2)
		denies(t, log)
		wantReturned(t, log, "s", d, 2, 2)
		wantGrant(t, log, "s", 1)

		bucket := limits.TokenBucket("x", limit, loader.RememberDenials(10))
		wantGrant(t, bucket, "s", 2)
		denies(t, bucket)
		must(t, bucket.SetRate(background, "s", loader.Limit{Permits: 3, Window: 10 * time.Second}))
		wantGrant(t, bucket, "s", 1)

		ring := limits.SliceRing("x", []loader.Limit{{Permits: 4, Window: 10 * time.Second}}, loader.RememberDenials(10))
		d = wantGrant(t, ring, "s", 3)
		for range 2 {
			wantDenial(t, ring, "s", 2)
		}
		must(t, errOf(ring.GiveBack(background, "s", d, 1)))
		wantGrant(t, ring, "s", 2)
	})
}

// A denial that was on its way while the limiter was reset is not remembered: it was decided before.
func TestDenialOvertakenByReset(t *testing.T) {
	m := miniredis.RunT(t)
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(options(m.Addr()))
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb, loader.Timeout(never)) // the replies come as late as calls may take by default
		must(t, limits.Preload(background))
		rdb.AddHook(hook{
			before: func(redis.Cmder) { m.SetTime(time.Now()) },
			after: func(cmd redis.Cmder, _ error) {
				if cmd.Name() == "evalsha" {
					time.Sleep(time.Second)
				}
			},
		})
		log := limits.ListLog("x", loader.PerMinute(1), loader.RememberDenials(1))
		wantGrant(t, log, "s", 1)
		go func() { _, _ = log.Allow(background, "s") }()
		time.Sleep(time.Second / 2)
		must(t, log.Reset(background, "s"))
		time.Sleep(time.Second)
		wantGrant(t, log, "s", 1)
	})
}

func TestDenialsAreBounded(t *testing.T) {
	remembering(t, func(t *testing.T, limits *loader.Loader, asked *atomic.Int64) {
		log := limits.ListLog("x", loader.PerMinute(1), loader.RememberDenials(3))
		ask := func(subject int) int64 {
			before := asked.Load()
			_, err := log.Allow(background, fmt.Sprint(subject))
			must(t, err)
			return asked.Load() - before
		}
		for subject := range 10 {
			granted, denied, again := ask(subject), ask(subject), ask(subject)
			if granted != 1 || denied != 1 || again != 0 {
				t.Errorf("subject %d is not remembered", subject)
			}
		}
		calls := int64(0)
		for subject := range 10 {
			if calls += ask(subject); calls < int64(subject)-2 {
				t.Errorf("%d of %d are remembered, want at most 3", int64(subject)+1-calls, subject+1)
			}
		}
	})
}

// A remembered denial is never wrong: the server, asked at the same time, denies as well, and grants no
// permit sooner. Others take and book permits of the same subjects meanwhile.
func TestRememberedDenialsAreRight(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		remembering(t, func(t *testing.T, limits *loader.Loader, asked *atomic.Int64) {
			right := 0
			for seed := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, 9))
				limit := loader.Limit{Permits: 1 + random.Int64N(12), Window: time.Duration(1+random.IntN(9)) * time.Second}
				b := contenders{
					t: t, asked: asked, random: random, limit: limit, name: fmt.Sprint(seed),
					mine: makers[i].make(limits, limit, loader.RememberDenials(2)), theirs: makers[i].make(limits, limit),
				}
				for range 150 {
					right += b.step()
				}
			}
			if right < 100 {
				t.Errorf("only %d denials were remembered", right)
			}
			t.Logf("%d denials answered here, all right", right)
		})
	})
}

// contenders ask for more than there is: one process that remembers denials, and one that does not.
type contenders struct {
	t            *testing.T
	asked        *atomic.Int64
	random       *rand.Rand
	limit        loader.Limit
	name         string
	mine, theirs loader.Limiter
}

// step does one thing, and returns 1 if it was a denial that was answered without asking.
func (b contenders) step() (right int) {
	n, subject := 1+b.random.Int64N(b.limit.Permits), fmt.Sprint(b.name, b.random.IntN(3))
	var err error
	switch b.random.IntN(16) {
	case 0:
		time.Sleep(time.Duration(b.random.Int64N(int64(b.limit.Window))))
	case 1:
		if booker, books := b.theirs.(loader.Reserver); books {
			_, err = booker.ReserveN(background, subject, n)
		}
	case 2:
		_, err = b.theirs.AllowN(background, subject, n)
	case 3:
		if b.random.IntN(3) == 0 {
			err = b.mine.Reset(background, subject)
		}
	default:
		time.Sleep(time.Duration(b.random.Int64N(int64(b.limit.Window / 50))))
		right = b.ask(subject, n)
	}
	must(b.t, err)
	return right
}

func (b contenders) ask(subject string, n int64) (right int) {
	before := b.asked.Load()
	got, err := b.mine.AllowN(background, subject, n)
	must(b.t, err)
	if b.asked.Load() > before {
		return 0
	}
	want := wantDenial(b.t, b.theirs, subject, n)
	if got.Granted || got.Wait > want.Wait {
		b.t.Errorf("it says %+v, the server %+v", got, want)
	}
	return 1
}
