package loader_test

import (
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
		leased, err := ring.Leased(loader.LeaseOptions{Block: 10})
		must(t, err)
		end := always(fault{dropRequest: true})(t, tr)
		for range 20 {
			d, err := leased.Allow(background, "s")
			if err != nil || !d.Granted || !d.Degraded {
				t.Fatalf("%s: %+v, %v; want it granted by the policy", name, d, err)
			}
		}
		end()
		must(t, leased.Close(background))
		d, err := ring.Peek(background, "s")
		if err != nil || d.Remaining != 100 || d.Degraded {
			t.Errorf("%s: %+v, %v; want nothing charged", name, d, err)
		}
	}
}
