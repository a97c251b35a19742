package main

import (
	"fmt"
	"slices"
	"strings"
)

// A Target is one line of what the scripts and the loader are held to.
type Target struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"` // "x floor", "us", ..
	Want     float64 `json:"want"` // at most, or at least where AtLeast
	AtLeast  bool    `json:"at_least,omitempty"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	Missing  bool    `json:"missing,omitempty"` // nothing was measured for it
	Where    string  `json:"where,omitempty"`   // the row that decides
}

// atMost is answered by the largest of the figures.
func atMost(name, unit string, want float64, measured []float64) Target {
	t := Target{Name: name, Unit: unit, Want: want, Missing: len(measured) == 0}
	if !t.Missing {
		t.Measured = slices.Max(measured)
		t.Met = t.Measured <= want
	}
	return t
}

// atLeast is answered by the smallest.
func atLeast(name string, want float64, measured []float64) Target {
	t := Target{Name: name, Unit: "x", Want: want, AtLeast: true, Missing: len(measured) == 0}
	if !t.Missing {
		t.Measured = slices.Min(measured)
		t.Met = t.Measured >= want
	}
	return t
}

// asked is what a grant and a denial may take, in floors.
var asked = []struct {
	subject         string
	granted, denied float64
}{
	{"gcra", 1.8, 1.4}, {"list_log", 2.0, 1.6}, {"slice_ring 201", 2.2, 2.4}, {"slice_ring 1000", 2.2, 2.4},
	{"zset_log", 2.7, 2.0}, {"token_bucket", 2.7, 2.2},
}

// targets answers each from the rows, by the worst of those it is about.
func (r *Results) targets() []Target {
	var list []Target
	add := func(t Target) { list = append(list, t) }
	for _, w := range asked {
		add(atMost(w.subject+": granted, up to 10^4 live", "x floor", w.granted, r.ratios(w.subject, granted, 1, 1e4)))
		add(atMost(w.subject+": denied, limit 10 to 100", "x floor", w.denied, r.ratios(w.subject, denied, 10, 100)))
	}
	for _, outcome := range []string{granted, denied} {
		var ratios []float64
		for _, live := range []int64{100, 1e4} {
			ratios = append(ratios, over(r.ratios("list_log", outcome, live, live), r.ratios("S1 ZSET", outcome, live, live))...)
		}
		add(atMost("list_log to S1 ZSET, "+outcome, "x", 0.9, ratios))
	}
	add(atMost("list_log: granted, 10^6 live to 100", "x", 1.3, over(
		r.ratios("list_log", granted, 1e6, 1e6), r.ratios("list_log", granted, 100, 100))))
	add(r.worstCall())
	for _, w := range []struct {
		script string
		most   float64
	}{{"gcra_many", 0.45}, {"list_log_many", 0.58}, {"slice_ring_many", 0.58}} {
		add(atMost(w.script+": server CPU a decision, to single calls", "x", w.most, r.manyRatio(w.script)))
	}
	return append(list, r.loaderTargets()...)
}

func (r *Results) loaderTargets() []Target {
	cost := func(kind string, figure func(LoaderCost) float64) []float64 {
		return figures(r.Loader, func(c LoaderCost) bool { return c.Context == kind }, figure)
	}
	timeOf := func(c LoaderCost) float64 { return c.Time.Median }
	list := []Target{
		atMost("loader: allocations over a bare EvalSha", "allocs", 3,
			cost(atConnection, func(c LoaderCost) float64 { return c.LoaderAllocs - c.BareAllocs })),
		atMost("loader: time over a bare EvalSha", "x", 1.05, cost(atConnection, timeOf)),
		atMost("the same, without ContextTimeoutEnabled", "x", 1.05, cost(background, timeOf)),
		atLeast("64 goroutines sharing round trips, to alone: 1000 subjects", 2.5, r.shared(crowd, loaderShared, loaderGCRA)),
		atLeast("the same, one subject", 3, r.shared(crowd, hotShared, hotGCRA)),
		atLeast("the same, one subject, mostly denied", 3, r.shared(crowd, deniedShared, deniedGCRA)),
		atLeast("the loader sharing round trips, to not: one goroutine", 1/1.05, r.shared(1, loaderShared, loaderGCRA)),
	}
	for _, w := range []struct {
		name, ours, peer string
		want             float64
		figure           func(Peer) float64
	}{
		{"gcra to redis_rate: time, one goroutine", "gcra", "redis_rate", 1.15, aloneTime},
		{"the same, 64 goroutines", "gcra", "redis_rate", 0.65, crowdTime},
		{"list_log to redis_rate: time, one goroutine", "list_log", "redis_rate", 1.25, aloneTime},
		{"the same, 64 goroutines", "list_log", "redis_rate", 0.7, crowdTime},
		{"gcra to redis_rate, granted: server CPU", "gcra", "redis_rate", 1, grantedCPU},
		{"gcra to redis_rate, denied: server CPU", "gcra", "redis_rate", 1, deniedCPU},
		{"gcra to throttled, granted: server CPU", "gcra", "throttled", 1, grantedCPU},
		{"gcra to throttled, denied: server CPU", "gcra", "throttled", 1, deniedCPU},
	} {
		list = append(list, atMost(w.name, "x", w.want, over(r.peer(w.ours, w.figure), r.peer(w.peer, w.figure))))
	}
	return list
}

func aloneTime(p Peer) float64  { return p.Alone.Time.Median }
func crowdTime(p Peer) float64  { return p.Crowd.Time.Median }
func grantedCPU(p Peer) float64 { return p.Granted.CPU.Median }
func deniedCPU(p Peer) float64  { return p.Denied.CPU.Median }

// peer is a figure of the library, if it was measured.
func (r *Results) peer(name string, figure func(Peer) float64) []float64 {
	return figures(r.Peers, func(p Peer) bool { return p.Name == name }, figure)
}

// ratios are the multiples of the floor of a subject with so many live permits.
func (r *Results) ratios(subject, outcome string, least, most int64) []float64 {
	return figures(r.ServerTime, func(t ServerTime) bool {
		return t.Subject == subject && t.Outcome == outcome && t.Live >= least && t.Live <= most
	}, func(t ServerTime) float64 { return t.Ratio.Median })
}

// over divides the first by the first.
func over(a, b []float64) []float64 {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return []float64{a[0] / b[0]}
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
	t := atMost("any script: worst single call", "us", 1000,
		figures(r.Worst, func(w Worst) bool { return w.Ours }, func(w Worst) float64 { return w.Median }))
	for _, w := range r.Worst {
		if w.Ours && w.Median == t.Measured {
			t.Where = fmt.Sprintf("%s, %d, %s", w.Subject, w.Entries, w.State())
		}
	}
	return t
}

// shared compares decisions a second of two ways, from so many goroutines.
func (r *Results) shared(goroutines int, way, alone string) []float64 {
	perSecond := func(way string) []float64 {
		return figures(r.EndToEnd, func(e EndToEnd) bool {
			return e.Way == way && e.Batch == 1 && e.Goroutines == goroutines
		}, func(e EndToEnd) float64 { return e.PerSecond.Median })
	}
	return over(perSecond(way), perSecond(alone))
}

// manyRatio is the least of a script's ratios.
func (r *Results) manyRatio(script string) []float64 {
	all := figures(r.Many, func(m Many) bool { return m.Script == script && m.Keys > 1 },
		func(m Many) float64 { return m.Ratio.Median })
	slices.Sort(all)
	return all[:min(len(all), 1)]
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
	}
	return "missed"
}

func (t Target) Figure() string {
	if t.Missing {
		return ""
	}
	figure := strings.TrimSuffix(fmt.Sprintf("%.2f", t.Measured), ".00")
	if t.Where != "" {
		figure += " (" + t.Where + ")"
	}
	return figure
}
