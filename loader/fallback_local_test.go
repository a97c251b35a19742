package loader_test

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// down is a client that fails to connect at once.
func down() *redis.Client {
	opt := options("nowhere:0")
	opt.DialerRetries = 1
	opt.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no server") }
	return redis.NewClient(opt)
}

// withoutRedis runs a test on the clock of a bubble, without a server.
func withoutRedis(t *testing.T, test func(t *testing.T, limits *loader.Loader)) {
	synctest.Test(t, func(t *testing.T) {
		rdb := down()
		defer func() { _ = rdb.Close() }()
		test(t, loader.New(rdb))
	})
}

// TestFailLocalTimeline follows a half of 4 permits in 10 s, of which a GCRA may grant 8 at once.
func TestFailLocalTimeline(t *testing.T) {
	const s = time.Second
	type step struct {
		at        time.Duration
		permits   int64 // 0 looks
		granted   bool
		remaining int64
		wait      time.Duration
		reset     time.Duration
	}
	log := []step{
		{0, 0, false, 2, 0, 0},
		{0, 1, true, 1, 0, 5 * s},
		{0, 2, false, 1, 5 * s, 5 * s},
		{0, 1, true, 0, 0, 10 * s},
		{1 * s, 1, false, 0, 4 * s, 9 * s},
		{1 * s, 0, false, 0, 4 * s, 9 * s},
		{6 * s, 1, true, 0, 0, 9 * s},
		{60 * s, 2, true, 0, 0, 10 * s},
	}
	steps := map[string][]step{
		"ListLog": log, "ZSetLog": log, "TokenBucket": log, "SliceRing": log,
		"GCRA": {
			{0, 0, false, 4, 0, 0},
			{0, 4, true, 0, 0, 20 * s},
			{7 * s, 2, false, 1, 3 * s, 13 * s},
			{10 * s, 2, true, 0, 0, 20 * s},
		},
	}
	eachLimiter(t, func(t *testing.T, i int) {
		withoutRedis(t, func(t *testing.T, limits *loader.Loader) {
			limit := loader.Limit{Permits: 4, Window: 10 * s}
			if makers[i].name == "GCRA" {
				limit.Burst = 8
			}
			limiter := makers[i].make(limits, limit, loader.FailLocal(0.5))
			started := time.Now()
			for _, step := range steps[makers[i].name] {
				time.Sleep(time.Until(started.Add(step.at)))
				d, err := limiter.Peek(background, "s")
				if step.permits > 0 {
					d, err = limiter.AllowN(background, "s", step.permits)
				}
				want := loader.Decision{
					Granted: step.granted, Remaining: step.remaining, Wait: step.wait, ResetAfter: step.reset, Degraded: true,
					Limit: limit, Cause: d.Cause,
				}
				if diff := cmp.Diff(want, d, ofGrants, cmpopts.EquateErrors()); diff != "" || err != nil || d.Cause == nil {
					t.Fatalf("%v, %d: %v\n%s", step.at, step.permits, err, diff)
				}
			}
			wantGrant(t, limiter, "another", 1)
			if d, err := limiter.AllowN(background, "s", 8); err == nil {
				t.Errorf("more than the share ever holds: %+v", d)
			}
		})
	})
}

// TestFailLocalAllWindows holds two windows together or charges neither.
func TestFailLocalAllWindows(t *testing.T) {
	withoutRedis(t, func(t *testing.T, limits *loader.Loader) {
		ring := limits.SliceRing("x", []loader.Limit{loader.PerSecond(10), loader.PerHour(12)}, loader.FailLocal(1))
		wantGrant(t, ring, "s", 10)
		time.Sleep(time.Second)
		d := wantDenial(t, ring, "s", 4)
		if d.Remaining != 2 || d.Wait < 9*time.Minute {
			t.Errorf("%+v, want 2 to remain of the hour", d)
		}
		wantGrant(t, ring, "s", 2)
		d, err := ring.With(loader.PerSecond(10)).Allow(background, "s") // the hour is not asked for, nor forgotten
		granted(t, d, err)
		wantDenial(t, ring, "s", 1)
	})
}

func TestFailLocalWaits(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		withoutRedis(t, func(t *testing.T, limits *loader.Loader) {
			limiter := makers[i].make(limits, loader.Limit{Permits: 2, Window: 10 * time.Second}, loader.FailLocal(0.5))
			wait := func() error { return limiter.Wait(background, "s") }
			took(t, 0, wait)
			took(t, 10*time.Second, wait)
			ctx := within(t, 9*time.Second)
			took(t, 0, func() error {
				as[*loader.WaitError](t, limiter.Wait(ctx, "s"))
				return nil
			})
			reserver, ok := limiter.(loader.Reserver)
			if !ok {
				return
			}
			for booked := range 3 {
				r, err := reserver.Reserve(background, "s")
				if want := time.Duration(booked+1) * 10 * time.Second; err != nil || r.Delay() != want {
					t.Fatalf("%v, %v; want %v", r.Delay(), err, want)
				}
			}
		})
	})
}

// TestFailLocalPlansChange gives a subject another limit: what it has left it keeps.
func TestFailLocalPlansChange(t *testing.T) {
	withoutRedis(t, func(t *testing.T, limits *loader.Loader) {
		bucket := limits.GCRA("x", loader.PerHour(10), loader.FailLocal(1))
		wantGrant(t, bucket, "s", 6)
		for _, plan := range []struct{ permits, remaining int64 }{{20, 4}, {3, 3}, {10, 3}} {
			d, err := bucket.With(loader.PerHour(plan.permits)).Peek(background, "s")
			if err != nil || d.Remaining != plan.remaining {
				t.Errorf("under %d an hour: %+v, %v; want %d", plan.permits, d, err, plan.remaining)
			}
		}
	})
}

func TestFailLocalArguments(t *testing.T) {
	limits := loader.New(neverAsked(t))
	for _, share := range []float64{0, -1, 1.01, math.NaN(), math.Inf(1)} {
		_, err := limits.ListLog("x", loader.PerHour(1), loader.FailLocal(share)).Allow(background, "s")
		if e := as[*loader.ArgumentError](t, err); e.Argument != "FailLocal" {
			t.Errorf("%v: %v", share, err)
		}
	}
	withoutRedis(t, func(t *testing.T, limits *loader.Loader) {
		noWindow := limits.ListLog("x", loader.Limit{Permits: 1}, loader.FailLocal(1))
		if d, err := noWindow.Allow(background, "s"); err == nil {
			t.Errorf("no window: %+v", d)
		}
		seldom := limits.ListLog("x", loader.Limit{Permits: 1, Window: 366 * 24 * time.Hour}, loader.FailLocal(1e-12))
		wantGrant(t, seldom, "s", 1)
		d := wantDenial(t, seldom, "s", 1)
		if d.Wait < 100*365*24*time.Hour {
			t.Errorf("%+v", d)
		}
	})
}
