//go:build unix

package soak

import (
	"fmt"
	"time"
)

// injected notes faults.
func (r *run) injected(what string, times int64) { r.faults[what] += times }

// recovery is how long the subjects of a server were without service after it was killed.
type recovery struct {
	settled     time.Duration // until the deployment itself said that it was whole again
	first, last time.Duration // until the first answer, and the last error
}

// recovered is the recovery of some subjects from a fault, once one of them has been answered again.
func (r *run) recovered(of func(*subject) bool, since time.Time, settled time.Duration) {
	out := recovery{settled: settled}
	for _, s := range r.subjects {
		if !of(s) {
			continue
		}
		s.mu.Lock()
		for _, a := range s.answers {
			switch took := a.came.Sub(since); {
			case a.err != nil:
				out.last = max(out.last, took)
			case a.asked.After(since) && (out.first == 0 || took < out.first):
				out.first = took
			}
		}
		s.mu.Unlock()
	}
	r.recoveries = append(r.recoveries, out)
}

// print shows the figures.
func (r *run) print(took time.Duration, e extras) {
	ends := map[string]int64{}
	for _, s := range r.subjects {
		for _, a := range s.answers {
			switch {
			case a.err != nil:
				ends[KindOf(a.err)]++
			case a.permits == 0:
				ends["looked"]++
			default:
				ends[fmt.Sprintf("granted %v", a.decided.Granted)]++
			}
		}
	}
	r.t.Logf("%s: %d decisions about %d subjects in %.0f s: %v; faults: %v", r.name, r.asked.Load(), len(r.subjects),
		took.Seconds(), ends, r.faults)
	r.t.Logf("%d permits of %d subjects beyond a limit, %d if every unknown outcome was a grant; up to %d explained",
		e.permits, e.subjects, e.worst, e.explained)
	for _, l := range r.losses {
		r.t.Logf("%s %v", l.why, round(l.until.Sub(l.after)))
	}
	for _, c := range r.recoveries {
		r.t.Logf("%s after %v, the first answer came after %v, the last error after %v", r.settles, round(c.settled),
			round(c.first), round(c.last))
	}
}
