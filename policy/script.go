package policy

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"
)

// The scripts that a file may name.
const (
	listLog   = "list_log"
	zsetLog   = "zset_log"
	gcra      = "gcra"
	sliceRing = "slice_ring"
)

var scripts = []string{listLog, zsetLog, gcra, sliceRing}

const (
	maxListLog = 1_000_000
	maxZSetLog = 10_000
	maxGCRA    = 10_000_000
	maxPermits = 1_000_000_000 // slice_ring
)

// largest is the most permits of a rate that a script holds.
var largest = map[string]int64{listLog: maxListLog, zsetLog: maxZSetLog, gcra: maxGCRA, sliceRing: maxPermits}

// plans returns the plans, or one with the rates of all.
func (p *Policy) plans() []Plan {
	if len(p.Plans) > 0 {
		return p.Plans
	}
	return []Plan{{Rates: p.Rates, rates: p.rates}}
}

// all returns the rates of all plans as the file has them.
func (p *Policy) all() (rates []rate) {
	for _, plan := range p.plans() {
		rates = append(rates, plan.rates...)
	}
	return rates
}

// script reads which script keeps the promise, or chooses the smallest that does. A script is not compared with rates
// that are wrong.
func (r *reader) script(p *Policy, key, n *yaml.Node, ratesKnown bool) {
	windows, _ := ofPeriod(p.all(), "")
	switch {
	case n == nil:
		p.Script, p.Chosen = p.smallestScript(), true
		n = key
	case len(windows) == 0 && ratesKnown:
		r.Fail(n, "script beside rates by calendar alone", "no script: each is a quota")
	default:
		p.Script = r.choice(n, "script", scripts...)
	}
	if !slices.Contains(scripts, p.Script) || !ratesKnown {
		return
	}
	if what, want := p.checkScript(); what != "" {
		r.Fail(n, what, want)
	}
}

// smallestScript is list_log where one window is all there is to count, slice_ring for everything else.
func (p *Policy) smallestScript() string {
	windows, maxRate := windowsOf(p.all())
	if len(windows) > 1 || maxRate > maxListLog || p.Ahead.Processes > 0 {
		return sliceRing
	}
	return listLog
}

// windowsOf returns the different windows of rates, and the most permits of one.
func windowsOf(rates []rate) (windows []time.Duration, maxRate int64) {
	for _, rate := range rates {
		if rate.period != "" {
			continue
		}
		maxRate = max(maxRate, rate.Permits)
		if rate.Permits > 0 && !slices.Contains(windows, rate.Window) {
			windows = append(windows, rate.Window)
		}
	}
	return windows, maxRate
}

// checkScript says why the script cannot hold the rates, and the way out.
func (p *Policy) checkScript() (what, want string) {
	windows, maxRate := windowsOf(p.all())
	switch {
	case p.Ahead.Processes > 0 && p.Script != sliceRing:
		return "script " + p.Script + " beside ahead", "slice_ring, or no script"
	case p.Script == sliceRing:
	case len(windows) > 1:
		return fmt.Sprintf("%s counts one window, and these rates have %d", p.Script, len(windows)),
			"slice_ring, or no script"
	case maxRate > largest[p.Script]:
		return fmt.Sprintf("%s holds %d permits, and a rate has %d", p.Script, largest[p.Script], maxRate),
			"slice_ring, or no script"
	case p.Script == gcra && p.Count != "":
		return "gcra cannot give back what count does not charge", "list_log or slice_ring, or no script"
	}
	return "", ""
}

// checkTogether refuses what cannot be decided all or none.
func (r *reader) checkTogether(policies []*Policy) {
	enforced := slices.DeleteFunc(slices.Clone(policies), func(p *Policy) bool { return p.Mode != Enforce })
	if len(enforced) < 2 {
		return
	}
	for _, p := range enforced {
		if p.Script == gcra {
			r.FailAt(p.Line, p.Column, "gcra cannot give back, so it cannot be decided together with others",
				"list_log or slice_ring, or no script, or a file of its own")
		}
	}
}
