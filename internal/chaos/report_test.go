package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// fault is what was done to a deployment, and how often.
type fault struct {
	what  string
	times int64
}

// injected notes a fault.
func (r *run) injected(what string, times int64) { r.faults = append(r.faults, fault{what, times}) }

// recovery is how long the subjects of a server were without service after it was killed.
type recovery struct {
	what        string
	promoted    time.Duration // until another was the master; 0 where nobody is promoted
	first, last time.Duration // until the first answer, and the last error
}

func (r recovery) String() string {
	text := fmt.Sprintf("first answer after %v, last error after %v", milliseconds(r.first), milliseconds(r.last))
	if r.promoted > 0 {
		text = fmt.Sprintf("promoted after %v, %s", milliseconds(r.promoted), text)
	}
	return r.what + ": " + text
}

// recovered is the recovery of some subjects from a fault, once one of them has been answered again.
func (r *run) recovered(what string, of func(*subject) bool, since time.Time, promoted time.Duration) {
	out := recovery{what: what, promoted: promoted}
	for _, s := range r.subjects {
		if !of(s) {
			continue
		}
		s.mu.Lock()
		for _, a := range s.answered {
			if a.asked.After(since) && (out.first == 0 || a.came.Sub(since) < out.first) {
				out.first = a.came.Sub(since)
			}
		}
		for _, at := range s.failed {
			out.last = max(out.last, at.Sub(since))
		}
		s.mu.Unlock()
	}
	r.recoveries = append(r.recoveries, out)
}

// print shows the figures as a table.
func (r *run) print(took time.Duration, e extras) {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(title, format string, args ...any) { fmt.Fprintf(table, title+"\t"+format+"\n", args...) }
	c := r.counts
	row("decisions", "%d about %d subjects in %.0f s", c.asked, len(r.subjects), took.Seconds())
	row("answered", "%d granted (%d permits), %d denied, %d looked", c.granted, c.permits, c.denied, c.looked)
	row("errors", "%s", listOf(c.errors))
	faults := map[string]int64{}
	for _, f := range r.faults {
		faults[f.what] += f.times
	}
	row("faults", "%s", listOf(faults))
	row("beyond a limit", "%d permits of %d subjects; %d if every unknown outcome was a grant", e.permits, e.subjects, e.worst)
	row("explained", "up to %d permits", e.explained)
	for _, l := range r.losses {
		row("", "%s", l.why)
	}
	for _, recovery := range r.recoveries {
		row("recovery", "%v", recovery)
	}
	_ = table.Flush()
	r.t.Logf("%s\n%s", r.name, b.String())
}

// listOf is "a 3, b 1", or "none".
func listOf(counts map[string]int64) string {
	var words []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", what, counts[what]))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func milliseconds(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
