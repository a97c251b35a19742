package policy

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/loader"
)

const (
	quota    = "quota" // the script of rates by calendar
	maxQuota = 1_000_000_000_000
)

// calendars is the periods that a rate may name.
var calendars = map[string]struct {
	length  time.Duration // of most of them
	periods func(*time.Location) loader.Period
}{
	"day":   {24 * time.Hour, loader.Daily},
	"week":  {7 * 24 * time.Hour, loader.Weekly},
	"month": {30 * 24 * time.Hour, loader.Monthly},
	"year":  {365 * 24 * time.Hour, loader.Yearly},
}

// Calendar returns the periods of a policy whose Period is not "", nil of another one. Use it to count by hand in the
// period of another moment than now, as a tool does that reads a log.
func (p *Policy) Calendar() loader.Period {
	if p.Period == "" {
		return nil
	}
	return calendars[p.Period].periods(p.Zone)
}

// zone reads the name of a time zone.
func (r *reader) zone(n *yaml.Node, without *time.Location) *time.Location {
	if n == nil {
		return without
	}
	text, ok := r.Scalar(n, "zone")
	loc, err := time.LoadLocation(text)
	switch {
	case !ok:
	case err != nil || text == "Local" || text == "":
		r.Fail(n, "zone "+text+" is not known here", "a name such as Europe/Berlin or UTC, and tzdata on this machine")
	default:
		return loc
	}
	return time.UTC
}

// split returns the policies that a limit of the file becomes: one with its windows, and one for each period of the
// calendar. They ask the same of a call, and are decided all or none, as all policies are.
func (p *Policy) split() (parts []*Policy) {
	var periods []string
	for _, rate := range p.all() {
		if !slices.Contains(periods, rate.period) {
			periods = append(periods, rate.period)
		}
	}
	slices.Sort(periods) // windows first
	for _, period := range periods {
		part := *p
		if period != "" {
			part.Name, part.Period, part.Script = p.Name+"-"+period, period, quota
		}
		part.Plans, part.Overrides = slices.Clone(p.Plans), slices.Clone(p.Overrides)
		part.rates, part.Rates = ofPeriod(p.rates, period)
		for i, plan := range p.Plans {
			part.Plans[i].rates, part.Plans[i].Rates = ofPeriod(plan.rates, period)
		}
		for i, o := range p.Overrides {
			part.Overrides[i].rates, part.Overrides[i].Rates = ofPeriod(o.rates, period)
		}
		parts = append(parts, &part)
	}
	return parts
}

// ofPeriod returns the rates of a period; of windows if it is "".
func ofPeriod(rates []rate, period string) (found []rate, limits []loader.Limit) {
	for _, rate := range rates {
		if rate.period == period {
			found, limits = append(found, rate), append(limits, rate.Limit)
		}
	}
	return found, limits
}
