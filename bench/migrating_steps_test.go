package main

import (
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestServerMigratingSteps holds docs/migrating.md to "exactly the limit in each step". Half of the processes have
// taken each step and half have not, 300 requests of one subject come in a window, and 100 are granted.
func TestServerMigratingSteps(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer rdb.Close()
	ctx := t.Context()
	before := redis_rate.NewLimiter(rdb)
	after := loader.New(rdb).ListLog("api", loader.PerHour(100))

	old := func(subject string) bool {
		res, err := before.Allow(ctx, "api:"+subject, redis_rate.Limit{Rate: 100, Burst: 100, Period: time.Hour})
		must(t, err)
		return res.Allowed > 0
	}
	sluice := func(subject string) bool {
		d, err := after.Allow(ctx, subject)
		must(t, err)
		return d.Granted
	}
	both := func(subject string) bool { return old(subject) && sluice(subject) }
	for _, step := range []struct {
		name         string
		first, later func(string) bool
	}{{"to both", old, both}, {"to Sluice alone", both, sluice}} {
		granted := 0
		for n := range 300 { // the first 50 before the step, then both sides of it by turns
			decide := step.first
			if n >= 50 && n%2 == 0 {
				decide = step.later
			}
			if decide(step.name) {
				granted++
			}
		}
		if granted != 100 {
			t.Errorf("%s: %d of 300 granted, want 100", step.name, granted)
		}
	}
}
