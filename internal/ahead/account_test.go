package ahead

import (
	"fmt"
	"testing"
)

// The rule of an Ahead, searched: two processes, one permit ahead, all in one window. Every order of so many calls,
// reports, answers, losses and deaths is tried.
const (
	searchedMost  = 1
	searchedSteps = 16
)

// searched is a state of the search. It is comparable, so that none is tried twice.
type searched struct {
	processes [2]searchedProcess
	strays    [2]int64 // reports that were given up and may still be charged
	charged   int64
	granted   int64
	deaths    int64
}

// searchedProcess is an Ahead, and its message on the way.
type searchedProcess struct {
	Account
	message           searchedMessage
	reported, permits int64 // of the message
	answer            int64 // permits that were left
	allowed           bool  // of permits
	refused           bool  // by the last answer
}

type searchedMessage int

const (
	none searchedMessage = iota
	sentAway
	executed
)

// searchedRule is the limit, and the parts of the rule that are taken out.
type searchedRule struct {
	limit                                               int64
	notCharged, roomIgnored, lossDropped, flightIgnored bool
}

// next calls visit with each state that can follow.
func (st searched) next(b searchedRule, deaths int64, visit func(searched)) {
	for i := range st.processes {
		for _, step := range []func(*searched, int, searchedRule) bool{
			callStep, reportStep, executeStep, deliverStep, loseStep,
		} {
			after := st
			if step(&after, i, b) {
				visit(after)
			}
		}
		if st.strays[i] > 0 {
			after := st
			after.charged, after.strays[i] = after.charged+after.strays[i], 0
			visit(after)
		}
		if st.deaths < deaths {
			after := st
			after.processes[i] = searchedProcess{}
			after.deaths++
			visit(after)
		}
	}
}

// callStep is an Allow: it is granted ahead, or asks.
func callStep(st *searched, i int, b searchedRule) bool {
	p := &st.processes[i]
	seen := p.Account
	if b.roomIgnored && seen.Remaining == 0 && (p.refused || p.answer > 0) {
		seen.Remaining = 1
	}
	if b.flightIgnored {
		seen.InFlight = 0
	}
	if seen.Grant(1, searchedMost) {
		p.Unsent = seen.Unsent
		st.granted++
		return true
	}
	if p.message != none {
		return false
	}
	p.send(1)
	return true
}

// send takes a report on its way, with a question for so many permits.
func (p *searchedProcess) send(permits int64) {
	p.reported, p.permits, p.message = p.Take(), permits, sentAway
}

func reportStep(st *searched, i int, _ searchedRule) bool {
	p := &st.processes[i]
	if p.Unsent == 0 || p.message != none {
		return false
	}
	p.send(0)
	return true
}

// executeStep is Redis's part.
func executeStep(st *searched, i int, b searchedRule) bool {
	p := &st.processes[i]
	if p.message != sentAway {
		return false
	}
	p.message = executed
	if !b.notCharged {
		st.charged += p.reported
	}
	if p.allowed = st.charged+p.permits <= b.limit; p.allowed {
		st.charged += p.permits
	}
	p.answer = max(b.limit-st.charged, 0)
	return true
}

func deliverStep(st *searched, i int, _ searchedRule) bool {
	p := &st.processes[i]
	if p.message != executed {
		return false
	}
	if p.allowed {
		st.granted += p.permits
	}
	p.Answered(p.answer)
	p.message, p.refused = none, p.answer == 0
	return true
}

// loseStep gives up a message, before or after Redis has it.
func loseStep(st *searched, i int, b searchedRule) bool {
	p := &st.processes[i]
	if p.message == none || p.message == sentAway && st.strays[i] > 0 {
		return false
	}
	if p.message == sentAway {
		st.strays[i] = p.reported + p.permits
	}
	if p.Lost(); b.lossDropped {
		p.Unsent -= p.reported
	}
	p.message = none
	return true
}

// search returns the most that is granted, and the most beyond the bound.
func search(b searchedRule, deaths int64) (most, beyond int64) {
	states, seen := []searched{{}}, map[searched]bool{}
	for range searchedSteps {
		var following []searched
		for _, st := range states {
			st.next(b, deaths, func(after searched) {
				if seen[after] {
					return
				}
				seen[after] = true
				following = append(following, after)
				most = max(most, after.granted)
				beyond = max(beyond, after.granted-b.limit-(2+after.deaths)*searchedMost)
			})
		}
		states = following
	}
	return most, beyond
}

// No order of events grants more than the limit and what is ahead: docs/guarantees.md.
func TestRule(t *testing.T) {
	for _, c := range []struct{ limit, deaths, want int64 }{
		{2, 0, 3}, {2, 2, 3}, {3, 0, 4}, {3, 1, 5}, {3, 2, 5}, {4, 2, 6},
	} {
		if most, beyond := search(searchedRule{limit: c.limit}, c.deaths); most != c.want || beyond > 0 {
			t.Errorf("%+v: at most %d granted, %d beyond the bound", c, most, max(beyond, 0))
		}
	}
}

// With what may be ahead taken off the limit, no order of events grants more than the limit. Without it, some do.
func TestStrictRule(t *testing.T) {
	const limit, processes, share = 8, 2, 0.5
	taken := Taken(limit, processes, share)
	if most := Share(limit, processes, share); most != searchedMost || taken != 4 {
		t.Fatalf("%d ahead, %d taken off, want %d and 4", most, taken, searchedMost)
	}
	for deaths := range int64(processes + 1) {
		if most, _ := search(searchedRule{limit: limit - taken}, deaths); most <= limit-taken || most > limit {
			t.Errorf("%d deaths: at most %d granted of %d, want more than %d", deaths, most, limit, limit-taken)
		}
	}
	if most, _ := search(searchedRule{limit: 3}, processes); most <= 3 {
		t.Errorf("at most %d granted of 3 without it", most)
	}
}

// Without any part of the rule the bound is broken.
func TestRuleNeedsItsParts(t *testing.T) {
	for _, b := range []searchedRule{
		{limit: 3, notCharged: true}, {limit: 3, roomIgnored: true},
		{limit: 3, lossDropped: true}, {limit: 3, flightIgnored: true},
	} {
		t.Run(fmt.Sprintf("%+v", b), func(t *testing.T) {
			if _, beyond := search(b, 2); beyond <= 0 {
				t.Error("the bound holds without it")
			}
		})
	}
}
