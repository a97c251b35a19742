package loader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// TestPolicyLeasesNothing has a policy answer a Leased: each caller by itself, marked, and nothing is held or given
// back.
func TestPolicyLeasesNothing(t *testing.T) {
	for name, policy := range map[string]loader.LimiterOption{"open": loader.FailOpen(), "local": loader.FailLocal(1)} {
		tr := newTroubled(t, false)
		ring := loader.New(tr.rdb).SliceRing("x", []loader.Limit{loader.PerHour(100)},
			loader.Slice(time.Minute), loader.LeaseAge(time.Minute), policy)
		leased := lease(t, ring, loader.LeaseOptions{Block: 10})
		end := always(fault{dropRequest: true})(t, tr)
		for range 20 {
			d, err := leased.Allow(background, "s")
			if err != nil || !d.Granted || !d.Degraded {
				t.Fatalf("%s: %+v, %v; want it granted by the policy", name, d, err)
			}
		}
		end()
		must(t, leased.Close(background))
		wantRemaining(t, ring, "s", 100)
	}
}

// TestPolicyLeaseDeadline has a caller's deadline end before the call for more permits does: the policy answers, unless
// the context had ended before the caller asked, or was cancelled.
func TestPolicyLeaseDeadline(t *testing.T) {
	tr := newTroubled(t, false)
	ring := loader.New(tr.rdb, loader.Timeout(time.Minute)).SliceRing("x", []loader.Limit{loader.PerHour(100)},
		loader.LeaseAge(time.Minute), loader.FailOpen())
	leased := lease(t, ring, loader.LeaseOptions{})
	end := always(fault{silence: true})(t, tr)
	soon := within(t, soon)
	if d, err := leased.Allow(soon, "s"); err != nil || !d.Degraded || !errors.Is(d.Cause, context.DeadlineExceeded) {
		t.Errorf("%+v, %v; want it granted by the policy", d, err)
	}
	if d, err := leased.Allow(soon, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context had ended: %+v, %v", d, err)
	}
	cancelled, cancel := context.WithCancel(background)
	time.AfterFunc(10*time.Millisecond, cancel)
	if d, err := leased.Allow(cancelled, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %+v, %v", d, err)
	}
	end()
	must(t, leased.Close(background))
}
