package loader

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Batch asks many limiters at once, of any scripts and limits, about any subjects, in one round trip.
//
//	batch := limits.Batch()
//	user := batch.Allow(perUser, "ada")
//	address := batch.AllowN(perAddress, "192.0.2.7", 3)
//	_, err := batch.Do(ctx)
//	if err == nil && user.Granted && address.Granted {
//
// Each entry is a decision of its own: one that is denied or fails changes nothing about the others, and
// what another was granted stays granted. It keeps every promise of a single call, and denials that a limiter remembers
// (RememberDenials) are not asked for here either; in a cluster and a Ring
// each node has its own part of the round trip, and one that is down fails only the entries that it
// decides.
//
// Entries are decided in the order in which they were added, as far as they concern the same subject of the
// same limiter. The exception are those that have to be asked again, because the script was missing, a
// server was not ready or a reply was lost: in that order too, but after an entry that was answered at
// once, if the cure came from elsewhere in the very middle of the round trip.
//
// A Batch is for one goroutine. After Do it is empty and may be used again.
type Batch struct {
	limits  *Loader
	entries []*entry
}

// Result is what became of one entry of a Batch: its decision, unless Err is set. Until Do has returned Err
// says so.
type Result struct {
	Decision
	Err error

	// Reservation is what Reserve booked; nil of other entries, and if Err is set.
	Reservation *Reservation
}

var errNotDone = errors.New("loader: the batch has not been done")

// Batch returns an empty batch for limiters that this Loader made.
func (l *Loader) Batch() *Batch { return &Batch{limits: l} }

// Allow adds an entry that asks for one permit now.
func (b *Batch) Allow(limiter Limiter, subject string) *Result {
	return b.add(limiter, subject, question{method: "Allow", permits: 1})
}

// AllowN adds an entry that asks for n permits now, all or nothing.
func (b *Batch) AllowN(limiter Limiter, subject string, n int64) *Result {
	return b.add(limiter, subject, question{method: "AllowN", permits: n})
}

// Peek adds an entry that looks and changes nothing.
func (b *Batch) Peek(limiter Limiter, subject string) *Result {
	return b.add(limiter, subject, question{method: peek})
}

// Reserve adds an entry that books one permit for as soon as it may be used.
func (b *Batch) Reserve(limiter Reserver, subject string) *Result {
	return b.ReserveN(limiter, subject, 1)
}

// ReserveN is Reserve for n permits.
func (b *Batch) ReserveN(limiter Reserver, subject string, n int64) *Result {
	return b.add(limiter, subject, question{method: reserve, permits: n})
}

// Do sends what has been added and returns the results in that order, the same that Allow, AllowN, Peek and Reserve
// returned. It takes no longer than the slowest of its limiters may: see Timeout. Its error joins those of the results:
// nil if all have been decided, granted or not. Cost: one round trip, none where no entry needs a server; one more if
// scripts are missing, and one for loading them.
func (b *Batch) Do(ctx context.Context) ([]*Result, error) {
	entries, late := b.entries, ctx.Err() != nil
	b.entries = nil
	bounded, cancel := b.limits.bounded(ctx, b.longest(entries))
	defer cancel()
	for _, e := range entries {
		e.seen.begin(ctx)
		defer e.seen.abort()
		e.recall()
	}
	b.limits.settle(bounded, entries)
	results := make([]*Result, len(entries))
	errs := make([]error, len(entries))
	for i, e := range entries {
		e.finish(ctx, late)
		results[i], errs[i] = &e.Result, e.Err
		e.tell(ctx)
	}
	return results, errors.Join(errs...)
}

// longest is the longest time that any of the entries may take.
func (b *Batch) longest(entries []*entry) (timeout time.Duration) {
	for _, e := range entries {
		timeout = max(timeout, e.call.timeout)
	}
	return cmp.Or(timeout, b.limits.deadlines.timeout)
}

// entry is one decision of a batch.
type entry struct {
	Result
	call call
	open bool         // it has neither a decision nor an error
	seen *observation // nil if nobody watches

	cmd     *command    // its last attempt
	report  func(error) // what became of that, to the breaker
	outcome error

	limiter core
	subject string
	asked   question
	pending pendingDenial
}

func (b *Batch) add(limiter Limiter, subject string, q question) *Result {
	c, err := b.coreOf(limiter)
	if err != nil {
		return b.fail(err)
	}
	if q.permits > 0 {
		q.id = c.callID()
	}
	if q.method == reserve {
		q.maxWait = c.furthest()
	}
	e := &entry{seen: c.watch(subject, q), limiter: c, subject: subject, asked: q}
	asked, err := c.ask(subject, q)
	switch {
	case err != nil:
		e.Err = err
	case asked.script == nil:
		e.Decision = denial()
	default:
		e.Err, e.call, e.report, e.open = errNotDone, asked, unreported, true
	}
	return b.append(e)
}

// recall answers the entry by a denial that its limiter remembers.
func (e *entry) recall() {
	if !e.open || e.limiter.denials == nil {
		return
	}
	d, ok := e.limiter.denials.recall(e.limiter, e.call.key(), e.asked)
	if ok {
		e.Decision, e.Err, e.open = d, nil, false
		return
	}
	e.pending = e.limiter.denials.begin(e.limiter, e.call.key(), e.asked)
}

// finish does with the answer what the limiter does, unless the context had ended before it was asked for.
func (e *entry) finish(ctx context.Context, late bool) {
	e.pending.end(e.Decision, e.Err)
	if e.Err != nil && e.call.script != nil && e.limiter.instead != nil && !late {
		e.Decision, e.Err = e.limiter.degrade(ctx, e.call.key(), e.asked, e.Err)
	}
	if e.Err == nil && e.asked.method == reserve {
		e.Reservation = e.limiter.reservation(e.subject, e.asked, e.Decision)
	}
}

func (b *Batch) append(e *entry) *Result {
	b.entries = append(b.entries, e)
	return &e.Result
}

func (b *Batch) fail(err error) *Result { return b.append(&entry{Result: Result{Err: err}}) }

// coreOf is what a limiter is made of, if this Loader made it.
func (b *Batch) coreOf(limiter Limiter) (core, error) {
	var c core
	switch l := limiter.(type) {
	case ListLog:
		c = l.core
	case ZSetLog:
		c = l.core
	case GCRA:
		c = l.core
	case TokenBucket:
		c = l.core
	case SliceRing:
		c = l.core
	case *Leased:
		return core{}, &ArgumentError{Argument: "limiter", Want: "the SliceRing of the Leased, or to ask the Leased by itself"}
	}
	if c.settings == nil || c.limits != b.limits {
		return core{}, &ArgumentError{Argument: "limiter", Want: "one that the Loader of the batch made"}
	}
	return c, nil
}

// unsettled are the entries that still have to be asked, in their order.
func unsettled(entries []*entry) []*entry {
	open := make([]*entry, 0, len(entries))
	for _, e := range entries {
		if e.open {
			open = append(open, e)
		}
	}
	return open
}

// settle asks the entries until each has a decision or an error.
func (l *Loader) settle(ctx context.Context, entries []*entry) {
	for open := unsettled(entries); len(open) > 0; open = unsettled(open) {
		l.round(ctx, open)
	}
}

// round asks the entries once, and prepares another attempt for those that need it.
func (l *Loader) round(ctx context.Context, entries []*entry) {
	if err := ctx.Err(); err != nil {
		for _, e := range entries {
			e.settle(e.call.unknown(err))
		}
		return
	}
	l.ask(ctx, entries)
	entries = unsettled(entries)
	l.loadMissing(ctx, entries)
	rest(ctx, unsettled(entries))
}

// ask sends the entries together.
func (l *Loader) ask(ctx context.Context, entries []*entry) {
	entries = l.admitted(ctx, entries)
	if len(entries) == 0 {
		return
	}
	defer l.reportAll(entries)
	cmds := make([]redis.Cmder, len(entries))
	for i, e := range entries {
		e.cmd = e.call.command(ctx)
		e.cmd.piped = true
		e.call.sent++
		cmds[i] = e.cmd
	}
	t := l.tasks.start(func() error { return l.sendAll(ctx, cmds) })
	finished, err := l.tasks.wait(ctx, t)
	for _, e := range entries {
		if !finished {
			e.call.inFlight = t.ended
		}
		e.outcome = e.cmd.outcome(finished, err)
		e.note(ctx, e.outcome)
	}
}

// reportAll tells the breakers what became of the entries.
func (l *Loader) reportAll(entries []*entry) {
	for _, e := range entries {
		e.report(e.outcome)
	}
	l.breakers.log()
}

// note takes the outcome of the entry's command.
func (e *entry) note(ctx context.Context, err error) {
	if err != nil {
		e.settle(e.call.recover(ctx, e.cmd, err))
		return
	}
	reply, err := e.call.reply(e.cmd)
	if err == nil {
		e.Decision = decisionOf(reply)
	}
	e.Err, e.open = err, false
}

// settle ends the entry with an error, unless there is none.
func (e *entry) settle(err error) {
	if err != nil {
		e.Err, e.open = err, false
	}
}

// loadMissing loads the scripts that were missing, each once on each node.
func (l *Loader) loadMissing(ctx context.Context, entries []*entry) {
	waiting := map[place][]*entry{}
	for _, e := range entries {
		if !e.call.missing {
			continue
		}
		node, _ := l.nodeOf(ctx, e.call.key()) // without one, loading says why
		p := place{e.call.script, node, e.call.everywhere()}
		waiting[p] = append(waiting[p], e)
	}
	var groups [][]*entry
	var loads []func() error
	for _, group := range waiting {
		groups = append(groups, group)
		loads = append(loads, func() error { return group[0].call.load(ctx) })
	}
	for i, err := range l.tasks.awaitAll(ctx, loads) {
		for _, e := range groups[i] {
			e.settle(e.call.loaded(ctx, err))
		}
	}
}

// rest pauses for as long as the entry that needs it most.
func rest(ctx context.Context, entries []*entry) {
	var pause time.Duration
	for _, e := range entries {
		pause = max(pause, e.call.pause)
	}
	ended := sleep(ctx, pause)
	for _, e := range entries {
		e.settle(e.call.rested(ended))
	}
}
