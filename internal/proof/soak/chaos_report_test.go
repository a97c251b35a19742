//go:build unix

package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
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
		for _, a := range s.answered {
			if a.asked.After(since) && (out.first == 0 || a.came.Sub(since) < out.first) {
				out.first = a.came.Sub(since)
			}
		}
		for _, f := range s.failed {
			out.last = max(out.last, f.at.Sub(since))
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
	answers, errors, permits := map[string]int64{}, map[string]int64{}, int64(0)
	for _, s := range r.subjects {
		for _, a := range s.answered {
			switch {
			case a.permits == 0:
				answers["looked"]++
			case a.granted:
				answers["granted"]++
				permits += a.permits
			default:
				answers["denied"]++
			}
		}
		for _, f := range s.failed {
			errors[f.kind]++
		}
	}
	row("decisions", "%d about %d subjects in %.0f s", r.asked.Load(), len(r.subjects), took.Seconds())
	row("answered", "%s; %d permits", listOf(answers), permits)
	row("errors", "%s", listOf(errors))
	row("faults", "%s", listOf(r.faults))
	row("beyond a limit", "%d permits of %d subjects; %d if every unknown outcome was a grant", e.permits, e.subjects,
		e.worst)
	row("explained", "up to %d permits", e.explained)
	reasons := r.lossesByReason()
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		losses := reasons[why]
		row("", "%d x %s %s", len(losses), why, spread(losses, func(l loss) time.Duration { return l.until.Sub(l.after) }))
	}
	row("recovery", "%s after %s", r.settles, spread(r.recoveries, func(r recovery) time.Duration { return r.settled }))
	row("", "first answer after %s", spread(r.recoveries, func(r recovery) time.Duration { return r.first }))
	row("", "that is %s later", spread(r.recoveries, func(r recovery) time.Duration { return r.first - r.settled }))
	row("", "last error after %s", spread(r.recoveries, func(r recovery) time.Duration { return r.last }))
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

func (r *run) lossesByReason() map[string][]loss {
	reasons := map[string][]loss{}
	for _, l := range r.losses {
		reasons[l.why] = append(reasons[l.why], l)
	}
	return reasons
}

// spread is from the least to the greatest of some times, "3.4s to 4.7s".
func spread[T any](of []T, value func(T) time.Duration) string {
	times := make([]time.Duration, len(of))
	for i := range of {
		times[i] = value(of[i]).Round(time.Millisecond)
	}
	if least, most := slices.Min(times), slices.Max(times); least != most {
		return fmt.Sprint(least, " to ", most)
	}
	return times[0].String()
}
