package main

import (
	"fmt"
	"slices"
	"strings"
)

// A Target is one line of what the scripts and the loader are held to.
type Target struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"` // "x the floor", "us", ..
	Want     float64 `json:"want"` // at most, or at least where AtLeast
	AtLeast  bool    `json:"at_least,omitempty"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	Missing  bool    `json:"missing,omitempty"` // nothing was measured for it
	Where    string  `json:"where,omitempty"`   // the row that decides

	// Limit is how far anything of the kind goes, measured in the same round: of the row that decides, what LimitOf
	// says.
	Limit   float64 `json:"limit,omitempty"`
	LimitOf string  `json:"limit_of,omitempty"`
}

// What limits are of.
const (
	undecided = "without deciding"
	evalshas  = "an EVALSHA that does nothing"
)

func atMost(name, unit string, want float64, measured []float64) Target {
	t := Target{Name: name, Unit: unit, Want: want, Missing: len(measured) == 0}
	if !t.Missing {
		t.Measured = slices.Max(measured)
		t.Met = t.Measured <= want
	}
	return t
}

func atLeast(name, unit string, want float64, measured []float64) Target {
	t := Target{Name: name, Unit: unit, Want: want, AtLeast: true, Missing: len(measured) == 0}
	if !t.Missing {
		t.Measured = slices.Min(measured)
		t.Met = t.Measured >= want
	}
	return t
}

const floors = "x floor"

// asked is what a grant and a denial may take, in floors.
var asked = []struct {
	subject         string
	granted, denied float64
}{
	{"gcra", 1.8, 1.4}, {"list_log", 2.0, 1.6}, {"slice_ring 201", 2.2, 2.4}, {"slice_ring 1000", 2.2, 2.4},
	{"zset_log", zsetGranted, zsetDenied}, {"token_bucket", 2.7, 2.2},
}

const zsetGranted, zsetDenied = 2.7, 2.0

// targets answers each from the rows, by the worst of those it is about.
func (r *Results) targets() []Target {
	var list []Target
	add := func(t Target) { list = append(list, t) }
	for _, w := range asked {
		add(atMostFloors(w.subject+": granted, up to 10^4 live", w.granted, r.rows(w.subject, granted, 1, 1e4)))
		add(atMostFloors(w.subject+": denied, limit 10 to 100", w.denied, r.rows(w.subject, denied, 10, 100)))
	}
	add(atMost("slice_ring: granted, 1000 slices to 201, apart", "x", 1.1, r.apart()))
	add(atMost("list_log: bytes a permit from 10^3 on", "bytes", 11, figures(r.Bytes, func(m Memory) bool {
		return m.Subject == "list_log" && m.Permits >= 1e3
	}, Memory.Each)))
	add(atMost("slice_ring: bytes a slice, from 201 on", "bytes", 7, figures(r.Bytes, func(m Memory) bool {
		return m.Slices >= 201
	}, Memory.Each)))
	for i, outcome := range []string{granted, denied} {
		add(r.besideZSetLog(outcome, []float64{zsetGranted, zsetDenied}[i]))
		for _, way := range []string{s1, s1Checked, s2, s2Checked} {
			add(r.beside("list_log", way, outcome, 0.9))
		}
	}
	add(atMost("list_log: granted, 10^6 live to 100", "x", 1.3, over(
		r.ratios("list_log", granted, 1e6, 1e6), r.ratios("list_log", granted, 100, 100))))
	add(r.worstCall())
	add(atMost("gcra_many: server CPU a decision, to single calls", "x", 0.45, r.manyRatio("gcra_many")))
	add(atMost("list_log_many: server CPU a decision, to single calls", "x", 0.58, r.manyRatio("list_log_many")))
	add(atMost("slice_ring_many: server CPU a decision, to single calls", "x", 0.58, r.manyRatio("slice_ring_many")))
	add(atMost("loader: allocations over a bare EvalSha", "allocs", 3,
		r.loaderFigures(atConnection, func(c LoaderCost) float64 { return c.LoaderAllocs - c.BareAllocs })))
	add(atMost("loader: time over a bare EvalSha", "x", 1.05, r.loaderFigures(atConnection, timeOf)))
	add(atMost("the same, without ContextTimeoutEnabled", "x", 1.05, r.loaderFigures(background, timeOf)))
	add(atLeast("64 goroutines sharing round trips, to alone: 1000 subjects", "x", 2.5,
		r.shared(crowd, loaderShared, loaderGCRA)))
	add(atLeast("the same, one subject", "x", 3, r.shared(crowd, hotShared, hotGCRA)))
	add(atLeast("the same, one subject, mostly denied", "x", 3, r.shared(crowd, deniedShared, deniedGCRA)))
	add(atLeast("the loader sharing round trips, to not: one goroutine", "x", 1/1.05, r.shared(1, loaderShared, loaderGCRA)))
	for _, w := range []struct {
		ours         string
		alone, crowd float64
	}{{"gcra", 1.15, 0.65}, {"list_log", 1.25, 0.7}} {
		add(atMost(w.ours+" to redis_rate: time, one goroutine", "x", w.alone, r.besideRedisRate(w.ours,
			func(p Peer) float64 { return p.Alone.Time.Median })))
		add(atMost("the same, 64 goroutines", "x", w.crowd, r.besideRedisRate(w.ours,
			func(p Peer) float64 { return p.Crowd.Time.Median })))
	}
	return append(list, r.besidePeers()...)
}

// rows are those of a subject with so many live permits, spread or in a burst.
func (r *Results) rows(subject, outcome string, least, most int64) []ServerTime {
	return slices.DeleteFunc(slices.Clone(r.ServerTime), func(t ServerTime) bool {
		return t.Subject != subject || t.Outcome != outcome || t.State != spread && t.State != burst ||
			t.Live < least || t.Live > most
	})
}

// ratios are their multiples of the floor.
func (r *Results) ratios(subject, outcome string, least, most int64) []float64 {
	return ratiosOf(r.rows(subject, outcome, least, most))
}

func ratiosOf(rows []ServerTime) []float64 {
	list := make([]float64, len(rows))
	for i, t := range rows {
		list[i] = t.Ratio.Median
	}
	return list
}

// atMostFloors is answered by the slowest row.
func atMostFloors(name string, want float64, rows []ServerTime) Target {
	t := atMost(name, floors, want, ratiosOf(rows))
	for _, row := range rows {
		if row.Ratio.Median == t.Measured {
			t = t.limited([]float64{row.Bare.Median}, undecided)
		}
	}
	return t
}

// limited notes how far anything of the kind goes, where that was measured.
func (t Target) limited(measured []float64, of string) Target {
	if len(measured) > 0 && measured[0] > 0 {
		t.Limit, t.LimitOf = measured[0], of
	}
	return t
}

// over divides the first by the first.
func over(a, b []float64) []float64 {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return []float64{a[0] / b[0]}
}

// apart is how far grants on a ring of 1000 slices are from those on 201, at each number of permits.
func (r *Results) apart() []float64 {
	var list []float64
	for _, live := range []int64{1, 100, 1e4, 1e6} {
		for _, x := range over(r.ratios("slice_ring 1000", granted, live, live),
			r.ratios("slice_ring 201", granted, live, live)) {
			list = append(list, max(x, 1/x))
		}
	}
	return list
}

// beside holds a's multiples of the floor against b's, by the worst of the states in which there are both.
func (r *Results) beside(a, b, outcome string, want float64) Target {
	var ratios, limits []float64
	for _, live := range []int64{1, 10, 100, 1e4} {
		rows, others := r.rows(a, outcome, live, live), r.ratios(b, outcome, live, live)
		if len(rows) == 0 || len(others) == 0 {
			continue
		}
		ratios = append(ratios, rows[0].Ratio.Median/others[0])
		limits = append(limits, rows[0].Bare.Median/others[0])
	}
	t := atMost(a+" to "+b+", "+outcome, "x", want, ratios)
	if i := slices.Index(ratios, t.Measured); i >= 0 {
		t = t.limited(limits[i:], undecided)
	}
	return t
}

// besideZSetLog says as well what list_log takes to what zset_log was allowed: the faster that one is, the harder this
// is.
func (r *Results) besideZSetLog(outcome string, allowed float64) Target {
	t := r.beside("list_log", "zset_log", outcome, 0.75)
	if slowest := r.ratios("list_log", outcome, 1, 1e4); len(slowest) > 0 {
		t.Where = fmt.Sprintf("%.2f to the %.3g that zset_log may take", slices.Max(slowest)/allowed, allowed)
	}
	return t
}

// figures are one figure of the rows that are meant.
func figures[Row any](rows []Row, meant func(Row) bool, figure func(Row) float64) []float64 {
	var list []float64
	for _, row := range rows {
		if meant(row) {
			list = append(list, figure(row))
		}
	}
	return list
}

// worstCall goes by medians of single calls: the most of a few is what else ran on the machine.
func (r *Results) worstCall() Target {
	all := figures(r.Worst, func(w Worst) bool { return w.Ours }, func(w Worst) float64 { return w.Median })
	for _, g := range r.Returns {
		all = append(all, g.Usec.Median)
	}
	t := atMost("any script: worst single call", "us", 1000, all)
	for _, g := range r.Returns {
		if g.Usec.Median == t.Measured {
			t.Where = fmt.Sprintf("%s, %d, %d later, %d permits", g.Subject, g.Entries, g.Later, g.Permits)
		}
	}
	for _, w := range r.Worst {
		if w.Ours && w.Median == t.Measured {
			t.Where = fmt.Sprintf("%s, %d, %s", w.Subject, w.Entries, w.State())
		}
	}
	return t
}

// loaderFigures are those of the calls with one kind of context.
func (r *Results) loaderFigures(kind string, figure func(LoaderCost) float64) []float64 {
	return figures(r.Loader, func(c LoaderCost) bool { return c.Context == kind }, figure)
}

func timeOf(c LoaderCost) float64 { return c.Time.Median }

// shared compares decisions a second of two ways at 64 goroutines, the first in batches of so many.
func (r *Results) shared(goroutines int, way, alone string) []float64 {
	perSecond := func(way string) []float64 {
		return figures(r.EndToEnd, func(e EndToEnd) bool {
			return e.Way == way && e.Batch == 1 && e.Goroutines == goroutines
		}, func(e EndToEnd) float64 { return e.PerSecond.Median })
	}
	return over(perSecond(way), perSecond(alone))
}

// besideRedisRate divides a figure of one of ours by that of redis_rate.
func (r *Results) besideRedisRate(ours string, figure func(Peer) float64) []float64 {
	of := func(name string) []float64 {
		return figures(r.Peers, func(p Peer) bool { return p.Name == name }, figure)
	}
	return over(of(ours), of("redis_rate"))
}

// besidePeers compares each of ours with every library and way that promises the same, and holds it.
func (r *Results) besidePeers() []Target {
	var list []Target
	for _, p := range r.Peers {
		for _, ours := range r.Peers {
			if p.Ours || !ours.Ours || p.Guarantee != burstRate || ours.Guarantee != burstRate {
				continue
			}
			for _, outcome := range []string{granted, denied} {
				t := atMost(fmt.Sprintf("%s to %s, %s: server CPU", ours.Name, p.Name, outcome), "x", 1,
					over(ours.cpu(outcome), p.cpu(outcome)))
				list = append(list, t.limited(over(r.leastCPU(outcome), p.cpu(outcome)), evalshas))
			}
		}
	}
	return list
}

// cpu is what a decision of a library takes of the server, as a multiple of the floor.
func (p Peer) cpu(outcome string) []float64 {
	if outcome == granted {
		return []float64{p.Granted.CPU.Median}
	}
	return []float64{p.Denied.CPU.Median}
}

// leastCPU is the cpu of an EVALSHA that does nothing, if it was measured.
func (r *Results) leastCPU(outcome string) []float64 {
	for _, p := range r.Peers {
		if p.Name == nothing {
			return p.cpu(outcome)
		}
	}
	return nil
}

func (t Target) Wanted() string {
	if t.AtLeast {
		return fmt.Sprintf("at least %.3g %s", t.Want, t.Unit)
	}
	return fmt.Sprintf("at most %.4g %s", t.Want, t.Unit)
}

func (t Target) Verdict() string {
	switch {
	case t.Missing:
		return "not measured"
	case t.Met:
		return "met"
	case !t.AtLeast && t.Limit > t.Want:
		return "out of reach" // the limit is short of what is wanted
	}
	return "missed"
}

func (t Target) Figure() string {
	if t.Missing {
		return ""
	}
	figure := strings.TrimSuffix(fmt.Sprintf("%.2f", t.Measured), ".00")
	if t.Limit > 0 {
		figure += fmt.Sprintf("; %s: %.2f", t.LimitOf, t.Limit)
	}
	if t.Where != "" {
		figure += " (" + t.Where + ")"
	}
	return figure
}
