//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// slack is by how much a loaded machine may be late.
const slack = 750 * time.Millisecond

// called is a call that has ended.
type called struct {
	*worker
	question
	event        *event // that happened while it was under way; nil: none
	calm         bool   // no fault could be felt at any time
	begun, ended time.Time
	answers      []answer
	panicked     any
}

// judge writes down what the call brought and fails it if that was wrong.
func (c *called) judge() {
	c.attack.counts.add("calls", 1)
	if took, bound := c.ended.Sub(c.begun), c.bound(c.question); took > bound+slack+c.attack.pulse.allowance(c.begun) {
		c.fail("bound", fmt.Sprintf("a call took %v, its bound is %v: %v", round(took), round(bound), c.outcome()))
	}
	met := false
	for i := range c.answers {
		met = met || c.hit(&c.answers[i])
		c.write(&c.answers[i])
		c.judgeError(&c.answers[i])
	}
	if met && !c.alone {
		c.met.add(c.event.name, 1)
	}
	if c.panicked != nil {
		c.judgePanic()
	}
}

func (c *called) fail(rule, text string) { c.attack.failed(rule, c.row, text) }

// served reports whether Redis has granted.
func (c *called) served() bool {
	a := c.answers[0]
	granted := a.decided.Granted && !a.decided.Degraded || c.mode.how == waiting
	return granted && c.panicked == nil && a.err == nil
}

// outcome is what the call ended with, for reports.
func (c *called) outcome() string {
	if c.panicked != nil {
		return fmt.Sprintf("a panic, %v", c.panicked)
	}
	if err := c.answers[0].err; err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", c.answers[0].decided)
}

func (c *called) judgePanic() {
	raised, _ := c.panicked.(error)
	p, ours := errors.AsType[planted](raised)
	if !ours {
		c.fail("panic", fmt.Sprintf("a panic that no hook raised: %v", c.panicked))
		return
	}
	if c.event == nil {
		c.fail("panic", "a panic that came when the hooks had stopped: "+p.where)
	}
	c.attack.counts.add("panics that reached a caller", 1)
}

// write enters an answer into the books of its server.
func (c *called) write(a *answer) {
	b := c.book(a.place)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.alone, a.permits == 0, a.slot != nil:
	case c.panicked != nil, errors.Is(a.err, loader.ErrOutcomeUnknown), a.decided.Degraded, a.unsure:
		b.unknown += a.permits
	case a.err != nil && c.script.slots: // one of the calls of an Acquire may have taken one
		b.unknown++
	case c.mode.returns() && a.ledger && !a.decided.Granted && (a.err != nil || c.mode.how == inAll):
		b.refused += a.permits
	case a.err != nil && !a.decided.Granted:
	case c.mode.how == waiting:
		b.grant(c, a, false)
	case a.decided.Granted:
		b.grant(c, a, !c.script.repeats)
	}
}

// grant records a grant. Its time is the reply's, or else lies within the call.
func (b *book) grant(c *called, a *answer, exact bool) {
	switch at := a.decided.Now.Add(a.decided.Wait); {
	case a.ledger:
		b.granted.Add(Spent{From: c.begun.Round(0), To: c.ended.Round(0), Permits: a.permits})
	case exact:
		b.spent.Add(Spent{From: at, To: at, Permits: a.permits})
	case c.mode.how == waiting:
		b.spent.Add(Spent{From: c.begun.Round(0), To: c.ended.Round(0), Permits: a.permits})
	default:
		b.spent.Add(Spent{From: c.begun.Round(0), To: at, Permits: a.permits})
	}
}

// judgeError fails the call for an error that nothing excuses. A check is judged by how long it takes until it grants:
// after a silence of old connections its breaker may be open when the next fault begins.
func (c *called) judgeError(a *answer) {
	if a.err == nil || c.alone {
		return
	}
	_, denied := errors.AsType[*loader.WaitError](a.err)
	switch kind := kindOf(a.err); {
	case c.slotTooLate(a):
		return
	case c.panicked != nil:
	case denied && c.mode.how == waiting:
		c.judgeWait(a)
		return
	case errors.Is(a.err, context.Canceled) && c.cancel >= 0:
		return
	case kind == unexpected:
		c.fail("error", a.err.Error())
	}
	if c.mode.how == waiting && kindOf(a.err) != "OOM" { // it was answered
		c.judgeWait(a)
	}
	bound, since := min(c.bound(c.question), c.mode.patience()), c.begun.Add(-backWithin)
	if errors.Is(a.err, loader.ErrBreakerOpen) { // by calls that began before
		since = since.Add(-2 * defaultBound)
	}
	if bound < leastBound || !c.attack.pulse.judges(bound, since) {
		return // this machine may be too slow for it
	}
	if c.calm {
		c.fail("calm", "an error while all was well: "+a.err.Error())
	} else if c.event != nil && !c.event.anywhere && !c.hit(a) && c.begun.After(c.event.begun) {
		c.fail("neighbour", "an error about a server that is well: "+a.err.Error())
	}
}

// hit reports whether what happened while the call was under way happened to a server that it needs.
func (c *called) hit(a *answer) bool {
	if c.event == nil {
		return false
	}
	if c.mode.how != inAll {
		return c.event.hits(c.site, a.server)
	}
	return slices.ContainsFunc(c.answers, func(a answer) bool { return c.event.hits(c.site, a.server) })
}

// slotTooLate reports whether a call was granted a slot in a reply that took longer than a lease. That it took so long
// is judged by its bound.
func (c *called) slotTooLate(a *answer) bool {
	_, lost := errors.AsType[*loader.SlotLostError](a.err)
	return lost && c.ended.Sub(c.begun) > slotTTL*99/100
}

// leastBound is the least time in which a call has to be answered when all is well.
const leastBound = 100 * time.Millisecond

// judgeWait fails a Wait that gave up while it had time left, though no permits may have been lost.
func (c *called) judgeWait(a *answer) {
	left := c.deadline - c.ended.Sub(c.begun)
	late := slack + c.attack.pulse.allowance(c.begun)
	if !c.ledger || c.cancel >= 0 || errors.Is(a.err, loader.ErrOutcomeUnknown) || left < late {
		return
	}
	c.fail("Wait", fmt.Sprintf("gave up %v before its deadline: %v", round(left), a.err))
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
