package play

import (
	"errors"
	"math"
	"slices"
)

// follows is what comes after a grant of a limiter.
type follows int8

const (
	nothing  follows = iota
	releases         // the holder works, renews its slot where that is needed, and releases it
	settles          // the actual cost takes the place of the estimate
	returns          // permits are given back, if the scenario says that they were not used
	reports          // a process that grants by itself tells Redis later
)

// word is what a call that ends a request has done.
func (f follows) word() string {
	return map[follows]string{releases: "released", settles: "settled", returns: "given back", reports: "reported"}[f]
}

// purpose is what a call is for.
type purpose int8

const (
	asking purpose = iota
	renewing
	ending // to release, to settle, to give back or to report
)

// follow notes the next call of a request that was granted, if there is one.
func (l *lane) follow(a arrival, c call) {
	ends, renewal := c.due+a.hold, c.at+l.scenario.TTL/3
	switch {
	case l.follows == nothing, l.follows == reports, l.follows == returns && !a.unused:
		return
	case l.follows == releases && l.ours != nil && renewal < ends:
		c.purpose, c.at = renewing, renewal
	case l.follows != returns && a.dies:
		return
	default:
		c.purpose, c.at = ending, ends
	}
	l.coming.push(c)
}

// never is the end of what lasts until a call ends it.
const never = math.MaxInt64

// grant is what a granted call counts in the audit.
func (l *lane) grant(a arrival, c call) grant {
	g := grant{arrival: c.arrival, at: c.due, permits: l.permits(a), until: never}
	if l.follows == releases && a.dies {
		g.until = g.at + a.hold
	}
	return g
}

// permits is how many a request asks for: of slots one, whatever it costs.
func (l *lane) permits(a arrival) int64 {
	if l.follows == releases {
		return 1
	}
	return a.permits
}

// followed is what the answer to a call after the grant means.
func (l *lane) followed(p purpose, a answer, reply any) answer {
	fields, _ := reply.([]any)
	followed := answer{outcome: ended, remaining: unknown, wait: unknown, permits: 1}
	switch {
	case a.outcome == denied:
		followed.outcome, followed.permits = late, 0
	case p == renewing:
		followed.outcome, followed.remaining = renewed, a.remaining
	case l.follows == settles:
		followed.permits = at(fields, 1)
	case l.follows == returns:
		followed.permits = at(fields, 0)
	}
	return followed
}

var errLostEarly = errors.New("a slot was lost before its lease had ended")

// wasLostEarly reports whether a call finds no lease of ours where there must be one: a lease is renewed or released
// before it ends, unless the server's clock has stepped on meanwhile.
func (l *lane) wasLostEarly(c call, a answer) bool {
	return a.outcome == late && l.follows == releases && l.ours != nil &&
		!slices.ContainsFunc(l.scenario.Steps, func(s ClockStep) bool { return s.By > 0 && c.asked < s.At && s.At <= c.at })
}

// account brings the audit up to date with a call. A reply is not believed that says less than what a request has cost,
// or more than what it was granted.
func (l *lane) account(a arrival, c call, answer answer) {
	key := l.scenario.subject(a.client)
	switch {
	case answer.outcome == granted, answer.outcome == booked:
		l.tally.waits.add(c.due - a.at)
		l.tally.grant(key, l.grant(a, c))
	case l.follows == releases && c.purpose != asking && answer.outcome != renewed:
		l.tally.change(key, l.grant(a, c), -1, c.at)
	case answer.outcome == ended && l.follows == settles:
		l.tally.charge(key, l.grant(a, c), max(answer.permits, a.actual)-a.permits, c.at)
	case answer.outcome == ended && l.follows == returns:
		l.tally.charge(key, l.grant(a, c), -min(answer.permits, a.permits), c.at)
	}
}
