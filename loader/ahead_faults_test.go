//go:build ahead_faults

package loader_test

import (
	"testing"

	"github.com/sluice-redis/sluice/internal/ahead"
)

// The audits of Aheads notice each part of the rule that is taken out: docs/guarantees.md.
func TestServerAheadAuditNeedsItsRule(t *testing.T) {
	for name, part := range map[string]ahead.Part{
		"strict: the error is taken off the limit": ahead.TakenOff,
		"a report is charged":                      ahead.Charge,
		"no room, no grant":                        ahead.Room,
		"a lost report stays":                      ahead.LostReport,
		"what is on its way counts":                ahead.InFlightCounts,
	} {
		t.Run(name, func(t *testing.T) {
			ahead.Without = part
			if !boundBroken(t, part == ahead.TakenOff) {
				t.Error("the bounds hold without it")
			}
		})
	}
}

// boundBroken reports whether an audit finds more than its bound.
func boundBroken(t *testing.T, strict bool) (broken bool) {
	for _, c := range auditsOfAheads {
		found := auditAheads(t, c, strict)
		broken = broken || found.most > c.bound(strict)
		t.Logf("%s: at most %d in any window, the bound is %d", c.name, found.most, c.bound(strict))
	}
	const limit = 400
	return broken || auditDeaths(t, limit, 1, false) > 2*limit
}
