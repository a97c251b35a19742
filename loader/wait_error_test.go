package loader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// TestWaitErrorIsTheDeadline asks which bound was in the way: the context's deadline is context.DeadlineExceeded, the
// limiter's MaxWait and a limit of 0 are not.
func TestWaitErrorIsTheDeadline(t *testing.T) {
	for _, test := range []struct {
		name     string
		limit    loader.Limit
		deadline time.Duration // 0: none
		maxWait  time.Duration
		is       bool
	}{
		{"deadline", loader.PerMinute(1), 5 * time.Second, 0, true},
		{"MaxWait", loader.PerMinute(1), 0, time.Second, false},
		{"MaxWait before the deadline", loader.PerMinute(1), 10 * time.Second, time.Second, false},
		{"deadline before MaxWait", loader.PerMinute(1), 5 * time.Second, 30 * time.Second, true},
		{"a limit of 0", loader.Limit{}, 5 * time.Second, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachLimiter(t, func(t *testing.T, i int) {
				_, rdb := fake(t)
				limiter := makers[i].make(loader.New(rdb), test.limit, loader.MaxWait(test.maxWait))
				_, err := limiter.Allow(background, "s")
				must(t, err)
				ctx := background
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				err = limiter.Wait(ctx, "s")
				if e := as[*loader.WaitError](t, err); errors.Is(err, context.DeadlineExceeded) != test.is || e.Limiter != "test" {
					t.Errorf("%v: it is the deadline: %v", err, !test.is)
				}
			})
		})
	}
	_, rdb := fake(t)
	log := loader.New(rdb).ListLog("x", loader.PerHour(1), loader.MaxWait(time.Second))
	must(t, errOf(log.Allow(background, "s")))
	r, err := log.Reserve(background, "s")
	must(t, err)
	if err := r.Wait(background); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reservation that is not OK: %v", err)
	}
}
