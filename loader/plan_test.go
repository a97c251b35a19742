package loader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

var (
	_ loader.Limiter  = loader.Planned{}
	_ loader.Reserver = loader.PlannedReserver{}
)

var errNoPlan = errors.New("no such customer")

// planOf is the limit by the subject's name.
func planOf(_ context.Context, subject string) (loader.Limit, error) {
	switch subject {
	case "free":
		return loader.Limit{}, nil
	case "pro":
		return loader.PerHour(3), nil
	}
	return loader.Limit{}, errNoPlan
}

// planned are the limiters that have Plan.
func planned(l *loader.Limits, opts ...loader.LimiterOption) map[string]loader.Limiter {
	base := loader.PerHour(1)
	return map[string]loader.Limiter{
		"ListLog": l.ListLog("x", base, opts...).Plan(planOf),
		"ZSetLog": l.ZSetLog("x", base, opts...).Plan(planOf),
		"GCRA":    l.GCRA("x", base, opts...).Plan(planOf),
		"SliceRing": l.SliceRing("x", []loader.Limit{base}, opts...).Plan(
			func(ctx context.Context, subject string) ([]loader.Limit, error) {
				limit, err := planOf(ctx, subject)
				return []loader.Limit{limit}, err
			}),
	}
}

func TestPlan(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		for name, limiter := range planned(loader.New(rdb)) {
			d, err := limiter.AllowN(background, "pro", 2)
			granted(t, d, err)
			must(t, limiter.Wait(background, "pro"))
			d, err = limiter.Allow(background, "pro")
			denied(t, d, err)
			reserver, ok := limiter.(loader.Reserver)
			if ok != (name != "SliceRing") {
				t.Errorf("%s: reserves: %v", name, ok)
			}
			if ok {
				r, err := reserver.Reserve(background, "pro")
				if err != nil || r.OK() || r.Decision().Wait < 10*time.Minute {
					t.Errorf("%s: %+v, %v; want it too far ahead to be booked", name, r, err)
				}
			}
			if _, err := limiter.AllowN(background, "pro", 4); !errors.Is(err, loader.ErrExceedsLimit) {
				t.Errorf("%s: %v", name, err)
			}
			must(t, limiter.Reset(background, "pro"))
			d, err = limiter.Peek(background, "pro")
			if err != nil || d.Remaining != 3 {
				t.Errorf("%s: %+v, %v; want it as new", name, d, err)
			}
		}
	})
}

// TestPlanWithoutRoundTrip has answers that need no server.
func TestPlanWithoutRoundTrip(t *testing.T) {
	for name, limiter := range planned(loader.New(nobody(t)), loader.FailOpen()) {
		d, err := limiter.Allow(background, "free")
		if want := (loader.Decision{Wait: loader.Never}); d != want || err != nil {
			t.Errorf("%s: %+v, %v; want a denial", name, d, err)
		}
		calls := map[string]func() error{
			"Allow":  func() error { return second(limiter.Allow(background, "stranger")) },
			"AllowN": func() error { return second(limiter.AllowN(background, "stranger", 2)) },
			"Peek":   func() error { return second(limiter.Peek(background, "stranger")) },
			"Wait":   func() error { return limiter.Wait(background, "stranger") },
		}
		if r, ok := limiter.(loader.Reserver); ok {
			calls["Reserve"] = func() error {
				_, err := r.Reserve(background, "stranger")
				return err
			}
		}
		for what, call := range calls {
			if err := call(); !errors.Is(err, errNoPlan) {
				t.Errorf("%s, %s: %v; want the error of the look-up", name, what, err)
			}
		}
		_, err = limiter.Allow(background, "")
		as[*loader.ArgumentError](t, err)
	}
	var zero loader.PlannedReserver
	_, err := zero.Reserve(background, "s")
	as[*loader.ArgumentError](t, err)
}

func TestBatchTakesNoPlans(t *testing.T) {
	limits := loader.New(nobody(t))
	batch := limits.Batch()
	as[*loader.ArgumentError](t, batch.Allow(limits.GCRA("x", loader.PerHour(1)).Plan(planOf), "pro").Err)
}

// TestLimitChangesKeepState takes 6 of 10, and changes the limit up and down in the middle of the window: nothing that
// was granted is forgotten, nothing more is charged, and the new limit is kept at once.
func TestLimitChangesKeepState(t *testing.T) {
	counts := []struct{ limit, remaining, take int64 }{
		{20, 14, 2}, // 8 are taken
		{10, 2, 1},  // 9
		{8, 0, 0},
		{3, 0, 0},
		{12, 3, 3}, // 12
		{11, 0, 0},
		{13, 1, 1}, // 13
		{13, 0, 0},
	}
	// A GCRA keeps until when it is used up, of an hour: 36 minutes.
	moments := []struct{ limit, remaining, take int64 }{
		{20, 8, 2},  // 42 minutes
		{10, 3, 1},  // 48
		{8, 1, 0},   // 7.5 a permit
		{3, 0, 0},   // 20 a permit
		{12, 2, 2},  // 58
		{60, 2, 2},  // 60
		{120, 0, 0}, // full
	}
	set := map[string]func(limiter loader.Limiter, limit loader.Limit) (loader.Limiter, error){
		"ListLog": func(l loader.Limiter, limit loader.Limit) (loader.Limiter, error) {
			return l.(loader.ListLog).With(limit), nil
		},
		"ZSetLog": func(l loader.Limiter, limit loader.Limit) (loader.Limiter, error) {
			return l.(loader.ZSetLog).With(limit), nil
		},
		"GCRA": func(l loader.Limiter, limit loader.Limit) (loader.Limiter, error) {
			return l.(loader.GCRA).With(limit), nil
		},
		"SliceRing": func(l loader.Limiter, limit loader.Limit) (loader.Limiter, error) {
			return l.(loader.SliceRing).With(limit), nil
		},
		"TokenBucket": func(l loader.Limiter, limit loader.Limit) (loader.Limiter, error) {
			return l, l.(loader.TokenBucket).SetLimit(background, "ada", limit)
		},
	}
	each(t, func(t *testing.T, rdb *redis.Client) {
		eachLimiter(t, func(t *testing.T, i int) {
			steps := counts
			if makers[i].name == "GCRA" {
				steps = moments
			}
			first := makers[i].make(loader.New(rdb), loader.PerHour(10))
			d, err := first.AllowN(background, "ada", 6)
			granted(t, d, err)
			for _, step := range steps {
				limiter, err := set[makers[i].name](first, loader.PerHour(step.limit))
				must(t, err)
				d, err := limiter.Peek(background, "ada")
				if err != nil || d.Remaining != step.remaining {
					t.Fatalf("at %d an hour: %+v, %v; want %d to remain", step.limit, d, err, step.remaining)
				}
				if step.remaining < step.limit {
					d, err = limiter.AllowN(background, "ada", step.remaining+1)
					denied(t, d, err)
				}
				if step.take > 0 {
					d, err = limiter.AllowN(background, "ada", step.take)
					granted(t, d, err)
				}
			}
		})
	})
}

// TestSetLimitIsForEveryone changes the limit of a bucket that other processes use with the one they were made with.
func TestSetLimitIsForEveryone(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		ours := loader.New(rdb).TokenBucket("x", loader.PerHour(10))
		theirs := loader.New(rdb).TokenBucket("x", loader.PerHour(5))
		d, err := ours.AllowN(background, "s", 4)
		granted(t, d, err)
		must(t, ours.SetLimit(background, "s", loader.PerHour(100)))
		d, err = theirs.Peek(background, "s")
		if err != nil || d.Remaining != 96 {
			t.Errorf("%+v, %v; want 96 to remain of 100", d, err)
		}
		must(t, theirs.SetLimit(background, "s", loader.PerHour(4)))
		d, err = ours.Allow(background, "s")
		denied(t, d, err)
		must(t, ours.Reset(background, "s"))
		d, err = ours.Peek(background, "s")
		if err != nil || d.Remaining != 4 {
			t.Errorf("after Reset: %+v, %v; want the limit that was set", d, err)
		}
	})
}
