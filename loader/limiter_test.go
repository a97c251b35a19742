package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-redis/sluice/loader"
)

var (
	_ loader.Reserver = loader.ListLog{}
	_ loader.Reserver = loader.ZSetLog{}
	_ loader.Reserver = loader.GCRA{}
	_ loader.Reserver = loader.TokenBucket{}
	_ loader.Limiter  = loader.SliceRing{}
)

// TestTimeline follows each limiter of 3 permits in 30 s through a minute.
func TestTimeline(t *testing.T) {
	type step struct {
		at        time.Duration
		do        string // "look", or permits
		granted   bool
		remaining int64
		wait      time.Duration
		reset     time.Duration
	}
	const s = time.Second
	log := []step{
		{0, "look", false, 3, 0, 0},
		{0, "1", true, 2, 0, 30 * s},
		{10 * s, "2", true, 0, 0, 30 * s},
		{10 * s, "1", false, 0, 20 * s, 30 * s},
		{10 * s, "look", false, 0, 20 * s, 30 * s},
		{30 * s, "2", false, 1, 10 * s, 10 * s},
		{30 * s, "1", true, 0, 0, 30 * s},
		{60 * s, "look", false, 3, 0, 0},
	}
	steps := map[string][]step{
		"ListLog":     log,
		"ZSetLog":     log,
		"TokenBucket": log,
		"GCRA": {
			{0, "look", false, 3, 0, 0},
			{0, "1", true, 2, 0, 10 * s},
			{10 * s, "2", true, 1, 0, 20 * s},
			{10 * s, "2", false, 1, 10 * s, 20 * s},
		},
		"SliceRing": { // 31 slices of 1 s
			{0, "look", false, 3, 0, 0},
			{0, "1", true, 2, 0, 31 * s},
			{10 * s, "2", true, 0, 0, 31 * s},
			{10 * s, "1", false, 0, 21 * s, 31 * s},
		},
	}
	eachLimiter(t, func(t *testing.T, i int) {
		m, rdb := fake(t)
		limit := loader.Limit{Permits: 3, Window: 30 * s}
		limiter := makers[i].make(loader.New(rdb), limit)
		for _, step := range steps[makers[i].name] {
			m.SetTime(second0.Add(step.at))
			got, err := ask(limiter, step.do)
			want := loader.Decision{
				Granted: step.granted, Remaining: step.remaining, Wait: step.wait,
				ResetAfter: step.reset, Now: second0.Add(step.at), Limit: limit,
			}
			if diff := cmp.Diff(want, got, ofGrants); err != nil || diff != "" {
				t.Fatalf("%v, %s: %v\n%s", step.at, step.do, err, diff)
			}
		}
		if keys := m.Keys(); len(keys) == 0 || !strings.HasPrefix(keys[0], "sluice:test:{ada}:"+makers[i].tail) {
			t.Errorf("keys are %q", keys)
		}
		must(t, limiter.Reset(background, "ada"))
		got, err := ask(limiter, "3")
		granted(t, got, err)
	})
}

func ask(limiter loader.Limiter, what string) (loader.Decision, error) {
	switch what {
	case "look":
		return limiter.Peek(background, "ada")
	case "1":
		return limiter.Allow(background, "ada")
	}
	var n int64
	if _, err := fmt.Sscan(what, &n); err != nil {
		return loader.Decision{}, err
	}
	return limiter.AllowN(background, "ada", n)
}

// TestWith lowers and raises a limit of 4: what is there counts against the new one at once.
func TestWith(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	limit := loader.PerMinute(4)
	list, zset, gcra := limits.ListLog("x", limit), limits.ZSetLog("x", limit), limits.GCRA("x", limit)
	ring := limits.SliceRing("x", []loader.Limit{limit})
	with := map[string]func(n int64) loader.Limiter{
		"ListLog":   func(n int64) loader.Limiter { return list.With(loader.PerMinute(n)) },
		"ZSetLog":   func(n int64) loader.Limiter { return zset.With(loader.PerMinute(n)) },
		"GCRA":      func(n int64) loader.Limiter { return gcra.With(loader.PerMinute(n)) },
		"SliceRing": func(n int64) loader.Limiter { return ring.With(loader.PerMinute(n)) },
	}
	for name, limiter := range map[string]loader.Limiter{"ListLog": list, "ZSetLog": zset, "GCRA": gcra,
		"SliceRing": ring} {
		t.Run(name, func(t *testing.T) {
			wantGrant(t, limiter, "ada", 3)
			wantDenial(t, with[name](2), "ada", 1)
			wantDenial(t, limiter, "ada", 2)
			if name != "GCRA" { // whose permits come back at the rate of the plan that took them
				wantGrant(t, with[name](6), "ada", 3)
			}
		})
	}
}

func TestZeroLimitDenies(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(loader.New(neverAsked(t)), loader.PerHour(0))
		for _, what := range []string{"1", "7", "look"} {
			d, err := ask(limiter, what)
			if diff := cmp.Diff(loader.Decision{Wait: loader.Never, Limit: loader.PerHour(0)}, d); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", what, err, diff)
			}
		}
		e := as[*loader.WaitError](t, limiter.Wait(background, "ada"))
		if e.Wait != loader.Never || e.Error() != "loader: test: Wait(n=1) would never end: the limit is 0" {
			t.Error(e)
		}
		if reserver, ok := limiter.(loader.Reserver); ok {
			r, err := reserver.Reserve(background, "ada")
			if err != nil || r.OK() || r.Delay() != loader.Never {
				t.Errorf("%+v, %v", r, err)
			}
			must(t, r.Cancel(background))
			as[*loader.WaitError](t, r.Wait(background))
		}
	})
}

func TestTokenBucketConfig(t *testing.T) {
	m, rdb := fake(t)
	bucket := loader.New(rdb).TokenBucket("pay", loader.PerMinute(2))

	wantGrant(t, bucket, "acme", 2)
	must(t, bucket.SetRate(background, "acme", loader.PerMinute(5)))
	wantGrant(t, bucket, "acme", 3)
	wantDenial(t, bucket.With(loader.PerMinute(100)), "acme", 1)

	_, err := bucket.AllowN(background, "acme", 6)
	if !errors.Is(err, loader.ErrExceedsLimit) {
		t.Errorf("6 of 5: %v", err)
	}
	as[*loader.ArgumentError](t, err)

	must(t, bucket.Reset(background, "acme"))
	if got := m.HGet("sluice:pay:{acme}:tb1", "rate"); got != "5" {
		t.Errorf("rate after Reset is %q", got)
	}
	wantGrant(t, bucket, "acme", 5)

	as[*loader.ArgumentError](t, bucket.SetRate(background, "acme", loader.PerMinute(0)))
	as[*loader.ArgumentError](t, bucket.SetRate(background, "", loader.PerMinute(1)))
}

func TestTokenBucketPerClient(t *testing.T) {
	m, rdb := fake(t)
	limit := loader.PerMinute(1)
	a := loader.New(rdb).TokenBucket("pay", limit, loader.PerClient(), loader.ClientID("a"))
	b := loader.New(rdb).TokenBucket("pay", limit, loader.PerClient(), loader.ClientID("{b}"))
	nameless := loader.New(rdb).TokenBucket("pay", limit, loader.PerClient())
	for _, bucket := range []loader.TokenBucket{a, b, nameless} {
		wantGrant(t, bucket, "acme", 1)
		wantDenial(t, bucket, "acme", 1)
	}
	if !m.Exists("sluice:pay:{acme}:tb1:by:a") || !m.Exists("sluice:pay:{acme}:tb1:by:%7Bb%7D") {
		t.Errorf("keys are %q", m.Keys())
	}
	must(t, a.Reset(background, "acme"))
	wantGrant(t, a, "acme", 1)
	wantDenial(t, b, "acme", 1)
}

func TestWithIDChargesOnce(t *testing.T) {
	m, rdb := fake(t)
	log := loader.New(rdb).ZSetLog("x", loader.PerMinute(3))
	for range 3 {
		d := wantGrant(t, log.WithID("order-17"), "s", 2)
		if d.Remaining != 1 {
			t.Fatalf("remaining %d, want 1", d.Remaining)
		}
	}
	e := as[*loader.ArgumentError](t, errOf(log.WithID("order-17").Allow(background, "s")))
	if e.Argument != "id" {
		t.Errorf("other permits: %v", e)
	}
	as[*loader.ArgumentError](t, errOf(log.WithID("a|b").Allow(background, "s")))

	if returned, err := log.GiveBackID(background, "s", "order-17", 2); returned != 2 || err != nil {
		t.Errorf("GiveBackID: %d, %v", returned, err)
	}
	if m.Exists("sluice:x:{s}:zl1") {
		members, _ := m.ZMembers("sluice:x:{s}:zl1")
		t.Errorf("after GiveBack: %q", members)
	}
	if returned, err := log.GiveBackID(background, "s", "order-17", 2); returned != 0 || err != nil {
		t.Errorf("again: %d, %v", returned, err)
	}
}

func TestReserve(t *testing.T) {
	for _, m := range makers {
		if m.name == "SliceRing" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			_, rdb := fake(t)
			limit := loader.Limit{Permits: 1, Window: 40 * time.Second}
			limiter := m.make(loader.New(rdb), limit).(loader.Reserver)
			for _, want := range []time.Duration{0, 40 * time.Second} {
				r, err := limiter.Reserve(background, "s")
				must(t, err)
				if !r.OK() || r.Decision().Wait != want || r.Delay() > want {
					t.Fatalf("%+v, want a wait of %v", r.Decision(), want)
				}
			}
			r, err := limiter.Reserve(background, "s")
			must(t, err)
			if r.OK() || r.Decision().Wait != 80*time.Second || r.Delay() != loader.Never {
				t.Fatalf("%+v, want a denial", r.Decision())
			}
			e := as[*loader.WaitError](t, r.Wait(background))
			if e.MaxWait != time.Minute {
				t.Errorf("%v", e)
			}
		})
	}
}

func TestReserveNoFurtherThanMaxWait(t *testing.T) {
	_, rdb := fake(t)
	log := loader.New(rdb).ListLog("x", loader.PerMinute(1), loader.MaxWait(59*time.Second))
	wantGrant(t, log, "s", 1)
	r, err := log.Reserve(background, "s")
	if err != nil || r.OK() {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(loader.New(neverAsked(t)), loader.PerMinute(3))
		for name, err := range map[string]error{
			"Allow": errOf(limiter.Allow(ctx, "s")), "Wait": limiter.Wait(ctx, "s"),
			"Peek": errOf(limiter.Peek(ctx, "s")), "Reset": limiter.Reset(ctx, "s"),
		} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, loader.ErrOutcomeUnknown) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Limiters that were made apart are the same if they count alike.
func TestIsSame(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	list := func(name string, n int64, opts ...loader.LimiterOption) loader.Limiter {
		return limits.ListLog(name, loader.PerMinute(n), opts...)
	}
	month := func(n int64, loc *time.Location) loader.Limiter { return limits.Quota("month", n, loader.Monthly(loc)) }
	ring := func(opts ...loader.Limit) loader.Limiter { return limits.SliceRing("ring", opts) }
	ahead := func() loader.Limiter {
		ring := limits.SliceRing("ring", []loader.Limit{loader.PerMinute(1000)})
		a, err := ring.Ahead(loader.AheadOptions{Processes: 1, Error: 0.5})
		must(t, err)
		return a
	}
	one, ids := ahead(), limits.ZSetLog("ids", loader.PerMinute(5))
	type fakeLimiter struct{ loader.Limiter }
	for i, row := range []struct {
		a, b loader.Limiter
		want bool
	}{
		{list("a", 5, loader.FailOpen()), list("a", 5, loader.FailOpen()), true},
		{list("a", 5, loader.RememberDenials(9)), list("a", 5), true},
		{list("a", 5, loader.FailOpen()), list("a", 5), false},
		{list("a", 5), list("b", 5), false},
		{list("a", 5), list("a", 6), false},
		{list("a", 5), limits.ZSetLog("a", loader.PerMinute(5)), false},
		{list("a", 5), loader.New(rdb).ListLog("a", loader.PerMinute(5)), false},
		{list("a", 5), loader.ListLog{}, false},
		{list("a", 5), nil, false},
		{loader.ListLog{}, loader.ListLog{}, true},
		{ids, ids.WithID("x"), false},
		{month(5, time.UTC), month(5, time.UTC), true},
		{month(5, time.UTC), month(5, time.FixedZone("", 3600)), false},
		{month(5, time.UTC), month(6, time.UTC), false},
		{month(5, nil), month(5, time.UTC), false},
		{ring(loader.PerMinute(5)), ring(loader.PerMinute(5)), true},
		{ring(loader.PerMinute(5)), ring(loader.PerMinute(5), loader.PerHour(9)), false},
		{one, one, true},
		{one, ahead(), false},
		{one, ring(loader.PerMinute(1000)), false},
		{fakeLimiter{}, fakeLimiter{}, true},
		{fakeLimiter{}, list("a", 5), false},
	} {
		if got := loader.IsSame(row.a, row.b); got != row.want {
			t.Errorf("row %d: %v, want %v", i, got, row.want)
		}
		if got := loader.IsSame(row.b, row.a); got != row.want {
			t.Errorf("row %d, the other way: %v, want %v", i, got, row.want)
		}
	}
}
