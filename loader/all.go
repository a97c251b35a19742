package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// All asks several limiters in one round trip, and charges all of them or none: an address, an account and the whole
// service, say. Loader.All makes it.
//
//	all := limits.All()
//	all.Allow(perAddress, "192.0.2.7")
//	all.AllowN(perAccount, "ada", 3)
//	all.Allow(service, "login")
//	d, err := all.Do(ctx)
//	if err == nil && d.Granted {
//
// Each limiter decides by itself. If one denies or fails, what the others granted is given back in a second round trip,
// for which the caller does not wait: see Flush. So it never lets more through than any of the limits. It neither waits
// nor books. A ZSetLog must be without WithID, and an Ahead asks Redis. In a cluster and a Ring each node gets its own
// pipeline.
//
// Until the permits are given back, others may be refused for them, about one round trip long. Two callers may even
// refuse each other: try again after a random delay. A return that fails is not repeated; the observer sees it. An
// attack of refused calls takes a little from what the others are granted: docs/scaling.md has the figures. With
// RememberDenials it does not: if a cached denial or a limit of 0 refuses one of the limiters, nothing is sent.
//
// An All is for one goroutine. After Do it is empty and may be used again. The zero All is not ready for use.
type All struct {
	limits  *Loader
	entries []*entry
}

// AllDecision is the answer of an All.
type AllDecision struct {
	// Decision is the decision of one part: if all granted, the one with the fewest permits remaining; otherwise the
	// denial with the longest Wait. Degraded is true if the fallback of any part decided. Its Permits is 0, and Key and
	// ID are empty: Parts has them.
	Decision

	// Denied is the parts that denied, the longest Wait first. With ErrExceedsLimit the Wait is Never.
	Denied []Part

	// Parts is all parts, in the order in which they were added. It is nil unless all of them granted. GiveBack takes
	// the decisions in it, each with its own limiter:
	//
	//	_, err = perAddress.GiveBack(ctx, "192.0.2.7", d.Parts[0].Decision, 1)
	Parts []Part
}

// Part is the decision of one limiter in an All.
type Part struct {
	Index   int    // in the order in which the parts were added, from 0
	Limiter string // its name
	Subject string
	Decision
}

// All returns an All without limiters, for limiters of this Loader. Cost: nothing is sent before Do.
func (l *Loader) All() *All { return &All{limits: l} }

// Allow adds a limiter that is asked for one permit now. Cost: nothing is sent before Do.
func (a *All) Allow(limiter Returner, subject string) {
	a.add(limiter, subject, question{method: "Allow", permits: 1})
}

// AllowN adds a limiter that is asked for n permits now. It may be added for several subjects, but once about each.
// Cost: nothing is sent before Do.
func (a *All) AllowN(limiter Returner, subject string, n int64) {
	a.add(limiter, subject, question{method: "Allow", permits: n})
}

func (a *All) add(limiter Returner, subject string, q question) {
	c, err := a.limits.coreOf(limiter, len(a.entries))
	if err == nil && c.id != "" { // what it granted may be in use by an earlier call
		err = c.errArgument("All", "WithID", "a ZSetLog without WithID")
	}
	e := &entry{index: len(a.entries), request: request{argumentErr: err}}
	if err == nil {
		e.ask(c, subject, q)
		e.argumentErr = cmp.Or(e.argumentErr, a.errTwice(e))
	}
	a.entries = append(a.entries, e)
}

// errTwice refuses a limiter that was added before with the same subject: the Wait of neither would be true.
func (a *All) errTwice(e *entry) error {
	for _, other := range a.entries {
		if other.argumentErr == nil && other.subject == e.subject && other.limiter.name == e.limiter.name &&
			other.limiter.algorithm == e.limiter.algorithm {
			return e.limiter.errArgument("subject", "of entry "+strconv.Itoa(e.index),
				"each limiter once about it, with the sum")
		}
	}
	return nil
}

// Check returns what is wrong with the limiters and arguments that were added. Call it once, when the program starts,
// or leave it to Do. Cost: nothing is sent.
func (a *All) Check() error {
	if len(a.entries) == 0 {
		return &ArgumentError{Argument: "All", Value: "without limiters", Want: "at least one"}
	}
	errs := make([]error, len(a.entries))
	for i, e := range a.entries {
		errs[i] = e.argumentErr
	}
	return errors.Join(errs...)
}

// Do asks all limiters. It returns a grant only if all of them granted. Its error joins the limiters' errors, each
// with the limiter's name; then nothing is granted, and what was granted is given back, also if a reply comes later.
// More than could ever be granted is ErrExceedsLimit, and Denied has those parts.
//
// (If no reply ever comes, only ZSetLog can give back: the others stay charged.) Do takes no longer than the longest
// timeout of its limiters: see Timeout.
//
// Cost: one round trip if granted; another one in the background if not, for what is given back; none if a cached
// denial or a limit of 0 refuses.
func (a *All) Do(ctx context.Context) (AllDecision, error) {
	err, entries := a.Check(), a.entries
	a.entries = nil
	if err != nil {
		return exceeded(entries), err
	}
	if refused := answeredHere(entries); len(refused) > 0 {
		entries = refused
	}
	a.limits.do(ctx, entries, true)
	d, err := decideAll(entries)
	if !d.Granted {
		a.limits.giveBackAll(ctx, entries)
	}
	return d, err
}

// exceeded returns the denials by entries that are asked for more permits than could ever be granted.
func exceeded(entries []*entry) (d AllDecision) {
	for _, e := range entries {
		if errors.Is(e.argumentErr, ErrExceedsLimit) {
			d.Denied = append(d.Denied, e.part(e.limiter.never()))
			d.Decision = d.Denied[0].Decision
		}
	}
	return d
}

func (e *entry) part(d Decision) Part {
	return Part{Index: e.index, Limiter: e.limiter.name, Subject: e.subject, Decision: d}
}

// answeredHere returns the entries that are refused without asking a server.
func answeredHere(entries []*entry) (refused []*entry) {
	for _, e := range entries {
		e.answerHere()
		if e.isLocal {
			refused = append(refused, e)
		}
	}
	return refused
}

// decideAll makes one decision of all entries.
func decideAll(entries []*entry) (d AllDecision, err error) {
	var errs []error
	parts := make([]Part, len(entries))
	for i, e := range entries {
		parts[i] = e.part(e.decision)
		switch {
		case e.err != nil:
			errs = append(errs, fmt.Errorf("loader: All: %s: %w", e.limiter.name, e.err))
		case !e.decision.Granted:
			d.Denied = append(d.Denied, parts[i])
		}
	}
	slices.SortStableFunc(d.Denied, func(a, b Part) int { return cmp.Compare(b.Wait, a.Wait) })
	switch {
	case len(d.Denied) > 0:
		d.Decision = d.Denied[0].Decision
	case len(errs) == 0:
		tightest := slices.MinFunc(parts, func(a, b Part) int { return cmp.Compare(a.Remaining, b.Remaining) })
		d.Decision, d.Parts = tightest.Decision, parts
		d.Permits, d.Key, d.ID = 0, "", ""
	}
	d.markDegraded(parts)
	return d, errors.Join(errs...)
}

// markDegraded marks the whole if any part is degraded.
func (d *AllDecision) markDegraded(parts []Part) {
	for _, p := range parts {
		if p.Degraded && !d.Degraded {
			d.Degraded, d.Cause = true, p.Cause
		}
	}
}

// giveBackAll gives back, in the background, what the entries of an All were granted that was not granted as a whole.
func (l *Loader) giveBackAll(ctx context.Context, entries []*entry) {
	var refunds []refund
	for _, e := range entries {
		if d := e.decision; e.err == nil && d.Granted && !d.Degraded {
			refunds = append(refunds, e.limiter.newRefund(e.subject, d.Key, d, d.Permits))
			continue
		}
		e.limiter.giveBackUnused(ctx, e.subject, e.question, e.decision, e.err)
	}
	if len(refunds) > 0 {
		l.returns.do(ctx, l.log, func(ctx context.Context) { l.sendRefunds(ctx, refunds) })
	}
}
