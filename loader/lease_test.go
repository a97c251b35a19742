package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

var _ loader.Limiter = (*loader.Leased)(nil)

// A process is one that leases, in a bubble: its clock and the server's are the bubble's.
type process struct {
	t      *testing.T
	m      *miniredis.Miniredis
	rdb    *redis.Client
	limits *loader.Loader
	ring   loader.SliceRing
	leased *loader.Leased
	asked  atomic.Int64 // calls of slice_ring
	gave   atomic.Int64 // and of slice_ring_return
}

// leasing runs a test of a ring of 100 permits in 10 s, in slices of 1 s, with leases of 2 s.
func leasing(t *testing.T, lease loader.LeaseOptions, test func(p *process), opts ...loader.LimiterOption) {
	m := miniredis.RunT(t)
	synctest.Test(t, func(t *testing.T) {
		p := &process{t: t, m: m, rdb: redis.NewClient(options(m.Addr()))}
		defer func() { _ = p.rdb.Close() }()
		time.Sleep(1234567 * time.Microsecond) // to the middle of a slice
		p.rdb.AddHook(hook{before: p.see})
		p.limits = loader.New(p.rdb, loader.Timeout(never))
		must(t, p.limits.Preload(background))
		opts := append(opts, loader.Slice(time.Second), loader.LeaseAge(2*time.Second))
		p.ring = p.limits.SliceRing("x", []loader.Limit{{Permits: 100, Window: 10 * time.Second}}, opts...)
		var err error
		p.leased, err = p.ring.Leased(lease)
		must(t, err)
		defer func() { _ = p.leased.Close(background) }()
		test(p)
	})
}

func (p *process) see(cmd redis.Cmder) {
	p.m.SetTime(time.Now())
	if cmd.Name() == "evalsha" {
		switch cmd.Args()[1] {
		case sluice.SliceRingV1().SHA1:
			p.asked.Add(1)
		case sluice.SliceRingReturnV1().SHA1:
			p.gave.Add(1)
		}
	}
}

// take has the leased limiter grant n permits.
func (p *process) take(n int64) loader.Decision {
	p.t.Helper()
	d := wantGrant(p.t, p.leased, "s", n)
	return d
}

// counted is what the ring counts.
func (p *process) counted() int64 {
	p.t.Helper()
	p.m.SetTime(time.Now())
	d, err := p.ring.Peek(background, "s")
	must(p.t, err)
	p.asked.Add(-1)
	return 100 - d.Remaining
}

func (p *process) want(asked, gave, counted, idle int64) {
	p.t.Helper()
	got := [4]int64{p.asked.Load(), p.gave.Load(), p.counted(), p.leased.Stats().Held}
	if want := [4]int64{asked, gave, counted, idle}; got != want {
		p.t.Fatalf("asked, gave back, counted, idle: %v, want %v", got, want)
	}
}

const leasedKey = "sluice:x:{s}:sr1:2000000"

func TestLeaseBlocksDouble(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10, Idle: time.Second}, func(p *process) {
		for i, want := range []struct{ asked, counted, idle int64 }{
			{1, 1, 0}, {2, 3, 1}, {2, 3, 0}, {3, 7, 3}, {3, 7, 2}, {3, 7, 1}, {3, 7, 0}, {4, 15, 7}, {4, 15, 6},
		} {
			d := p.take(1)
			p.want(want.asked, 0, want.counted, want.idle)
			left := 100 - want.counted + want.idle
			reset := 13*time.Second - 234567*time.Microsecond
			want := loader.Decision{Granted: true, Remaining: left, ResetAfter: reset, Now: time.Now(), Limit: d.Limit}
			if diff := cmp.Diff(want, d, ofGrants); diff != "" || d.Limit.Permits != 100 {
				t.Errorf("decision %d: %s", i+1, diff)
			}
		}
		p.take(6)
		p.want(4, 0, 15, 0)
		p.take(1)
		p.want(5, 0, 25, 9)
		p.take(12)
		p.want(6, 0, 28, 0)
	})
}

func TestLeaseIsGivenBackWhenIdle(t *testing.T) {
	for option, idle := range map[time.Duration]time.Duration{time.Second: time.Second, 0: time.Second / 2} {
		leasing(t, loader.LeaseOptions{Block: 10, Idle: option}, func(p *process) {
			p.take(5)
			p.take(1)
			time.Sleep(idle - time.Millisecond)
			synctest.Wait()
			p.want(2, 0, 15, 9)
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			p.want(2, 1, 6, 0)
			if s := p.leased.Stats(); s.Subjects != 0 || s.MaxHeld != 100_000 {
				t.Errorf("%+v", s)
			}
			p.take(1)
			p.want(3, 1, 7, 0)
		})
	}
}

// Permits are spent until just before the age ends, and given back after it however much the subject is asked for.
// The next block is as large as what was used of this one.
func TestLeaseEndsWithItsAge(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10, Idle: time.Second}, func(p *process) {
		p.take(5)
		p.take(1)
		for range 3 {
			time.Sleep(665 * time.Millisecond)
			p.take(1)
		}
		p.want(2, 0, 15, 6)
		time.Sleep(3 * time.Millisecond) // 1.998 s
		p.take(1)
		synctest.Wait()
		p.want(3, 0, 19, 9) // no more than a block together with what is too old
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		p.want(3, 1, 13, 3)
		p.take(3)
		p.take(1)
		p.want(4, 1, 17, 3)
	})
}

func TestLeaseCloseGivesBackEverything(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10, Idle: time.Second}, func(p *process) {
		p.take(3)
		p.take(1)
		time.Sleep(900 * time.Millisecond)
		p.take(7)
		p.want(3, 0, 14, 3)
		must(t, p.leased.Close(background))
		p.want(3, 1, 11, 0)
		must(t, p.leased.Close(background))
		p.take(1)
		p.want(4, 1, 12, 0)
		must(t, p.leased.Wait(background, "s"))
		p.want(5, 1, 13, 0)
	})
}

// Where a block does not fit, half of what remains is taken, and then what is needed.
func TestLeaseBlocksShrink(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 100, Idle: time.Second}, func(p *process) {
		p.take(20)
		wantGrant(t, p.ring, "s", 60)
		p.take(1) // 40 do not fit, 10 do
		p.want(4, 0, 90, 9)
		p.take(12) // 9 are here, 3 are needed
		p.want(6, 0, 95, 2)
		d := wantDenial(t, p.leased, "s", 8)
		if d.Remaining != 7 || d.Wait != 13*time.Second-234567*time.Microsecond {
			t.Errorf("%+v", d)
		}
		p.take(7)
		p.want(9, 0, 100, 0)
		wantDenial(t, p.leased, "s", 1)
		p.want(11, 0, 100, 0)
		wantDenial(t, p.leased, "s", 1)
		p.want(12, 0, 100, 0)
	})
}

func TestLeaseWaits(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10, Idle: time.Second}, func(p *process) {
		p.take(100)
		took(t, 13*time.Second-234567*time.Microsecond, func() error { return p.leased.WaitN(background, "s", 2) })
		ctx := within(p.t, time.Second)
		as[*loader.WaitError](t, p.leased.WaitN(ctx, "s", 99))
	})
}

// All who want permits at once wait for one call.
func TestLeaseCallsAreShared(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: time.Second}, func(p *process) {
		p.take(50)
		p.rdb.AddHook(hook{before: func(redis.Cmder) { time.Sleep(10 * time.Millisecond) }})
		var grants atomic.Int64
		for range 60 {
			go func() {
				if d, err := p.leased.Allow(background, "s"); err == nil && d.Granted {
					grants.Add(1)
				}
			}()
		}
		time.Sleep(time.Second / 2)
		if n := grants.Load(); n != 50 || p.asked.Load() != 4 {
			t.Errorf("%d grants, %d calls, want 50 with 4", n, p.asked.Load())
		}
	})
}

// A caller whose context ends does not wait, and does not end the call that others wait for.
func TestLeaseCallerGoes(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		p.rdb.AddHook(hook{before: func(redis.Cmder) { time.Sleep(time.Second) }})
		ctx := within(p.t, 100*time.Millisecond)
		_, err := p.leased.AllowN(ctx, "s", 5)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
		took(t, 900*time.Millisecond, func() error { return p.leased.WaitN(background, "s", 5) })
	})
}

// Callers who wait for a call and want fewer permits than it was denied ask for them.
func TestLeaseDenialIsOfAsMany(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 1, Idle: 10 * time.Second}, func(p *process) {
		wantGrant(t, p.ring, "s", 97)
		p.rdb.AddHook(hook{before: func(redis.Cmder) { time.Sleep(100 * time.Millisecond) }})
		go func() {
			d, err := p.leased.AllowN(background, "s", 5)
			if err != nil || d.Granted {
				t.Errorf("%+v, %v; want a denial", d, err)
			}
		}()
		synctest.Wait()
		took(t, 200*time.Millisecond, func() error { p.take(2); return nil })
	})
}

// A subject is not idle while a call for it is under way, however long that takes, nor when it has just been answered:
// the sweep may come before those who waited ask again, which one run in five shows.
func TestLeaseIsNotIdleWhileItIsAsked(t *testing.T) {
	for range 30 {
		leasing(t, loader.LeaseOptions{Block: 10, Idle: 100 * time.Millisecond}, func(p *process) {
			p.take(5)
			var slow atomic.Bool
			slow.Store(true)
			p.rdb.AddHook(hook{after: func(redis.Cmder, error) {
				if slow.Load() {
					time.Sleep(time.Second)
				}
			}})
			p.take(1)
			slow.Store(false)
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			p.want(2, 1, 6, 0)
		})
	}
}

// Those who wait while it is closed are decided by Redis one by one, and nothing stays here.
func TestLeaseClosedWhileSomeWait(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10, Idle: time.Minute}, func(p *process) {
		p.rdb.AddHook(hook{before: func(redis.Cmder) { time.Sleep(100 * time.Millisecond) }})
		for range 4 {
			go func() { p.take(1) }()
		}
		synctest.Wait()
		must(t, p.leased.Close(background))
		time.Sleep(time.Second)
		if counted, idle := p.counted(), p.leased.Stats().Held; counted != 4 || idle != 0 {
			t.Errorf("%d counted, %d idle, want 4 and none", counted, idle)
		}
	})
}

func TestLeaseReset(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		p.take(20)
		p.take(1)
		must(t, p.leased.Reset(background, "s"))
		p.want(2, 0, 0, 0)
		p.take(1)
		p.want(3, 0, 50, 49)

		// What a call brings that may have been granted before the reset is not spent.
		p.rdb.AddHook(hook{after: func(cmd redis.Cmder, _ error) {
			if cmd.Name() == "evalsha" && p.asked.Load() == 4 {
				time.Sleep(100 * time.Millisecond)
			}
		}})
		go func() { _, _ = p.leased.AllowN(background, "s", 50) }()
		time.Sleep(50 * time.Millisecond)
		must(t, p.leased.Reset(background, "s"))
		time.Sleep(100 * time.Millisecond)
		p.want(5, 0, 50, 0)
		must(t, p.leased.Reset(background, "s"))

		// Nor is a denial from before it believed.
		wantGrant(t, p.ring, "s", 100)
		p.asked.Store(3)
		took(t, 100*time.Millisecond, func() error {
			time.AfterFunc(50*time.Millisecond, func() { must(t, p.leased.Reset(background, "s")) })
			p.take(100)
			return nil
		})
	})
}

func TestLeasePeek(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		p.take(45)
		p.take(5)
		wantGrant(t, p.ring, "s", 5)
		d, err := p.leased.Peek(background, "s")
		if err != nil || d.Remaining != 45 || d.Wait != 0 {
			t.Errorf("%+v, %v; want 45 remaining", d, err)
		}
		d, err = p.ring.Peek(background, "s")
		if err != nil || d.Remaining != 0 || d.Wait == 0 {
			t.Errorf("%+v, %v; want none remaining in Redis", d, err)
		}
		wantRemaining(t, p.leased, "other", 100)
	})
}

// Beyond the subjects that are held others are asked for one by one.
func TestLeaseSubjectsAreBounded(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10, Idle: time.Second, MaxSubjects: 2}, func(p *process) {
		for i := range 5 {
			for range 3 {
				wantGrant(t, p.leased, fmt.Sprint(i), 1)
			}
		}
		if s := p.leased.Stats(); s.Subjects != 2 || s.MaxHeld != 20 || p.asked.Load() != 2*2+3*3 {
			t.Errorf("%+v, %d calls", s, p.asked.Load())
		}
		time.Sleep(1300 * time.Millisecond)
		synctest.Wait()
		for range 3 {
			wantGrant(t, p.leased, "4", 1)
		}
		if s := p.leased.Stats(); s.Subjects != 1 || p.asked.Load() != 15 {
			t.Errorf("%+v, %d calls", s, p.asked.Load())
		}
	})
}

// While Redis is down, what is held is spent until its age ends; what cannot be given back is said.
func TestLeaseWithoutRedis(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		p.take(25)
		p.take(1)
		down := errors.New("down")
		var up atomic.Bool
		p.rdb.AddHook(answers("", func() error {
			if up.Load() {
				return redis.Nil
			}
			return down
		}))
		time.Sleep(time.Second)
		p.take(29)
		time.Sleep(time.Second)
		if _, err := p.leased.Allow(background, "s"); !errors.Is(err, down) {
			t.Errorf("%v, want what is wrong with Redis", err)
		}

		other := lease(t, p.ring, loader.LeaseOptions{Block: 50})
		if _, err := other.Allow(background, "s"); !errors.Is(err, down) {
			t.Errorf("%v, want what is wrong with Redis", err)
		}
		must(t, other.Close(background)) // it has nothing to give back
	})
}

func TestLeaseCloseSaysWhatFailed(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		down := errors.New("down")
		for _, subject := range []string{"a", "b"} {
			for range 2 {
				wantGrant(t, p.leased, subject, 1)
			}
		}
		p.rdb.AddHook(answers("evalsha", func() error { return down }))
		err := p.leased.Close(background)
		if !errors.Is(err, down) || !strings.Contains(err.Error(), "2 of 2 leases were not given back") {
			t.Errorf("Close: %v", err)
		}
	})
}

// Where calls take longer than the age, nothing can be spent here: callers then go to Redis one by one.
func TestLeaseSlowerThanItsAge(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		p.rdb.AddHook(hook{before: func(redis.Cmder) { time.Sleep(1998 * time.Millisecond) }})
		took(t, 2*1998*time.Millisecond, func() error { p.take(5); return nil })
		if asked := p.asked.Load(); asked != 2 {
			t.Errorf("%d calls, want 2", asked)
		}
		time.Sleep(time.Minute) // the sweep's calls end
	})
}

// Close waits for calls that are under way no longer than its context lives.
func TestLeaseCloseIsBounded(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 50, Idle: 10 * time.Second}, func(p *process) {
		p.rdb.AddHook(hook{before: func(redis.Cmder) { time.Sleep(time.Minute) }})
		go func() { _, _ = p.leased.Allow(background, "s") }()
		synctest.Wait()
		ctx := within(p.t, time.Second)
		started := time.Now()
		if err := p.leased.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(started) != time.Second {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		time.Sleep(2 * time.Minute)
	})
}

// Direct callers of the same limiter have their windows counted longer too, and meet on one key; those of
// another age, or none, have another.
func TestLeaseAgeIsInTheKey(t *testing.T) {
	leasing(t, loader.LeaseOptions{Block: 10}, func(p *process) {
		wantGrant(t, p.ring, "s", 100)
		wantDenial(t, p.leased, "s", 1)
		time.Sleep(12*time.Second + 765432*time.Microsecond)
		wantDenial(t, p.ring, "s", 1)
		time.Sleep(time.Microsecond)
		wantGrant(t, p.ring, "s", 1)
		limit := []loader.Limit{{Permits: 100, Window: 10 * time.Second}}
		for _, age := range []loader.LimiterOption{loader.LeaseAge(time.Second), loader.MaxWait(0)} {
			wantGrant(t, p.limits.SliceRing("x", limit, loader.Slice(time.Second), age), "s", 100)
		}
		if !cmp.Equal(p.m.Keys(), []string{"sluice:x:{s}:sr1", "sluice:x:{s}:sr1:1000000", leasedKey}) {
			t.Errorf("keys are %q", p.m.Keys())
		}
	})
}

// TestLeaseDefaults takes blocks with the zero LeaseOptions: a thousand at most, and a tenth of the smallest limit.
func TestLeaseDefaults(t *testing.T) {
	for _, test := range []struct {
		limits []loader.Limit
		block  int64
	}{
		{[]loader.Limit{loader.PerMinute(1_000_000)}, 1000},
		{[]loader.Limit{loader.PerMinute(10_000)}, 1000},
		{[]loader.Limit{loader.PerMinute(9_999)}, 999},
		{[]loader.Limit{loader.PerMinute(60)}, 6},
		{[]loader.Limit{loader.PerMinute(60), loader.PerHour(50)}, 5},
		{[]loader.Limit{loader.PerMinute(9)}, 1},
		{[]loader.Limit{loader.PerMinute(1)}, 1},
		{[]loader.Limit{{}}, 1},
	} {
		_, rdb := fake(t)
		ring := loader.New(rdb).SliceRing("x", test.limits, loader.LeaseAge(time.Hour), loader.Slice(time.Minute))
		leased := lease(t, ring, loader.LeaseOptions{})
		if most := leased.Stats().MaxHeld; most != test.block*10_000 {
			t.Errorf("%v: up to %d held for 10000 subjects, want blocks of %d", test.limits, most, test.block)
		}
		d, err := leased.Allow(background, "s")
		must(t, err)
		if d.Granted == (test.limits[0].Permits == 0) {
			t.Errorf("%v: %+v", test.limits, d)
		}
		must(t, leased.Close(background))
	}
}

func TestLeaseRefused(t *testing.T) {
	limits := loader.New(neverAsked(t))
	minute := []loader.Limit{loader.PerMinute(60)}
	tests := []struct {
		name  string
		ring  loader.SliceRing
		lease loader.LeaseOptions
		want  string
	}{
		{"without an age", limits.SliceRing("x", minute), loader.LeaseOptions{Block: 1},
			"loader: x: Leased without LeaseAge: want a SliceRing with the option LeaseAge"},
		{"an age too short", limits.SliceRing("x", minute, loader.LeaseAge(0)), loader.LeaseOptions{Block: 1},
			"loader: x: LeaseAge 0s: want 1ms or more, in whole microseconds"},
		{"an age with a fraction", limits.SliceRing("x", minute, loader.LeaseAge(time.Second+1)),
			loader.LeaseOptions{Block: 1}, "loader: x: LeaseAge 1.000000001s: want 1ms or more, in whole microseconds"},
		{"an age too long", limits.SliceRing("x", minute, loader.LeaseAge(150*time.Second)), loader.LeaseOptions{Block: 1},
			"loader: x: LeaseAge 2m30s: want less than 500 slices of all windows together"},
		{"a bad limit", limits.SliceRing("x", nil, loader.LeaseAge(100*time.Millisecond)), loader.LeaseOptions{Block: 1},
			"loader: x: 0 limits: want 1 to 8"},
		{"no ring", loader.SliceRing{}, loader.LeaseOptions{Block: 1},
			"loader: bad limiter: want one that a method of Loader made"},
		{"negative Block", limits.SliceRing("x", minute, loader.LeaseAge(time.Second)), loader.LeaseOptions{Block: -1},
			"loader: x: LeaseOptions.Block -1: want 0 or more"},
		{"negative Idle", limits.SliceRing("x", minute, loader.LeaseAge(time.Second)), loader.LeaseOptions{Block: 1,
			Idle: -1}, "loader: x: LeaseOptions.Idle -1ns: want whole microseconds, 0 or more"},
		{"negative Subjects", limits.SliceRing("x", minute, loader.LeaseAge(time.Second)), loader.LeaseOptions{Block: 1,
			MaxSubjects: -1}, "loader: x: LeaseOptions.MaxSubjects -1: want 0 or more"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, errOf(test.ring.Leased(test.lease)), test.want)
		})
	}
	leased := lease(t, limits.SliceRing("x", minute, loader.LeaseAge(time.Second)), loader.LeaseOptions{Block: 1})
	for want, n := range map[string]int64{"loader: x: n 0: want 1 or more": 0,
		"loader: x: Allow(n=61) exceeds limit 60": 61} {
		wantError(t, errOf(leased.AllowN(background, "s", n)), want)
	}
	if _, err := leased.Allow(background, ""); err == nil {
		t.Error("an empty subject is granted")
	}
	must(t, leased.Close(background))
}
