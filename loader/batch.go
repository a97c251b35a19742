package loader

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Batch asks about many subjects of many limiters, of any algorithms, in one round trip. Loader.Batch makes it.
//
//	batch := limits.Batch()
//	user := batch.Allow(perUser, "ada")
//	address := batch.AllowN(perAddress, "192.0.2.7", 3)
//	_, err := batch.Do(ctx)
//	if err == nil && user.Granted && address.Granted {
//
// Each entry is decided like a single call: if one is denied or fails, what others were granted stays granted. Entries
// about the same subject of the same limiter are decided in the order in which they were added, unless one has to be
// retried. In a cluster and a Ring each node gets its own pipeline, and if a node is down only its own entries fail.
//
// On a single server, four or more entries of one GCRA, ListLog or SliceRing, under the same limit and for as many
// permits, are decided by one run of a script for up to 64 subjects (16 keys of a SliceRing), in about half the
// server's time. What would make a run too long is decided by single runs, in a further round trip.
//
// A Batch is for one goroutine. After Do it is empty and may be used again. The zero Batch is not ready for use.
type Batch struct {
	limits  *Loader
	entries []*entry
}

// Result is the decision of one entry of a Batch, unless Err is set. Before Do returns, Err is always set.
type Result struct {
	Decision
	Err error

	// Reservation is the booking of Reserve. It is nil for other entries, and if Err is set.
	Reservation *Reservation
}

var errBatchNotDone = errors.New("loader: the batch has not been done")

// Batch returns an empty batch for limiters of this Loader. Cost: nothing is sent before Do.
func (l *Loader) Batch() *Batch { return &Batch{limits: l} }

// Allow adds an entry that asks for one permit now. Cost: nothing is sent before Do.
func (b *Batch) Allow(limiter Limiter, subject string) *Result {
	return b.add(limiter, subject, question{method: "Allow", permits: 1})
}

// AllowN adds an entry that asks for n permits now, all or nothing. Cost: nothing is sent before Do.
func (b *Batch) AllowN(limiter Limiter, subject string, n int64) *Result {
	return b.add(limiter, subject, question{method: "Allow", permits: n})
}

// Peek adds an entry that returns what could be granted now, and changes nothing. Cost: nothing is sent before Do.
func (b *Batch) Peek(limiter Limiter, subject string) *Result {
	return b.add(limiter, subject, question{method: peek})
}

// Reserve is ReserveN for one permit. Cost: nothing is sent before Do.
func (b *Batch) Reserve(limiter Reserver, subject string) *Result {
	return b.ReserveN(limiter, subject, 1)
}

// ReserveN adds an entry that books n permits, as ReserveN of the limiter does. Cost: nothing is sent before Do.
func (b *Batch) ReserveN(limiter Reserver, subject string, n int64) *Result {
	return b.add(limiter, subject, question{method: reserve, permits: n})
}

// Do sends all entries, and returns their results in the order in which the entries were added: the same pointers that
// Allow, AllowN, Peek and Reserve returned. Its error joins the results' errors: it is nil if every entry was decided,
// granted or not. Its text has a line for each result that failed, which are many while Redis is down: log one of them.
// A limiter of another Loader is named by its entry, counted from 0. Do takes no longer than the longest timeout of its
// limiters: see Timeout. Cost: one round trip, none if no entry needs a server, two more if scripts are missing.
func (b *Batch) Do(ctx context.Context) ([]*Result, error) {
	entries := b.entries
	b.entries = nil
	if b.limits == nil {
		return nil, &ArgumentError{Argument: "Batch", Want: "one that Loader.Batch made"}
	}
	b.limits.do(ctx, entries)
	results := make([]*Result, len(entries))
	errs := make([]error, len(entries))
	for i, e := range entries {
		results[i], errs[i] = e.result(), e.err
	}
	return results, errors.Join(errs...)
}

// do sends entries, and sets what became of them.
func (l *Loader) do(ctx context.Context, entries []*entry) {
	bounded, cancel := l.withTimeout(ctx, l.timeoutOf(entries))
	defer cancel()
	for _, e := range entries {
		e.start(ctx)
		defer e.abort()
	}
	l.runTogether(bounded, entries)
	for _, e := range entries {
		e.finish(ctx)
	}
}

// entry is one request of a batch.
type entry struct {
	request
	answer *Result // of a Batch
	index  int     // of an All
	inAll  bool    // no two ask about one key, so that their order does not matter

	cmd     *command    // its last attempt
	report  func(error) // tells the breaker the outcome
	outcome error
}

func (b *Batch) add(limiter Limiter, subject string, q question) *Result {
	c, err := b.limits.coreOf(limiter, len(b.entries))
	e := &entry{request: request{argumentErr: err}, answer: &Result{Err: errBatchNotDone}, report: unreported}
	if err == nil {
		e.ask(c, subject, q)
	}
	if e.argumentErr != nil {
		e.answer.Err = e.argumentErr
	}
	b.entries = append(b.entries, e)
	return e.answer
}

// ask sets what the entry asks of a limiter.
func (e *entry) ask(c core, subject string, q question) {
	if q.permits > 0 {
		q.id = c.callID()
	}
	if q.method == reserve {
		q.maxWait = c.maxAhead()
	}
	e.request = c.request(subject, q)
	e.observation = c.watch(subject, q)
}

// result is what became of the entry.
func (e *entry) result() *Result {
	e.answer.Decision, e.answer.Err = e.decision, e.err
	if e.err == nil && e.question.method == reserve {
		e.answer.Reservation = e.limiter.reservation(e.subject, e.question, e.decision)
	}
	return e.answer
}

// coreOf returns the core of a limiter of this Loader, for an entry of a Batch or an All.
func (l *Loader) coreOf(limiter Limiter, entry int) (core, error) {
	if process, ok := limiter.(*Ahead); ok && process != nil {
		limiter = process.ring
	}
	switch made := limiter.(type) {
	case GCRA, ListLog, SliceRing, TokenBucket, ZSetLog: // and not a struct that has one embedded: its methods may differ
		if c := made.(interface{ itself() core }).itself(); c.settings != nil && c.limits == l {
			return c, nil
		}
	}
	value := "of entry " + strconv.Itoa(entry)
	return core{}, &ArgumentError{Argument: "limiter", Value: value, Want: "one that the same Loader made"}
}

// unanswered returns the entries that still have to be sent, in their order.
func unanswered(entries []*entry) []*entry {
	left := make([]*entry, 0, len(entries))
	for _, e := range entries {
		if !e.answered && !e.call.ended {
			left = append(left, e)
		}
	}
	return left
}

// runTogether is call.run for many calls: it makes attempts until each entry has a reply or an error.
func (l *Loader) runTogether(ctx context.Context, entries []*entry) {
	for entries = unanswered(entries); len(entries) > 0; entries = unanswered(entries) {
		for _, e := range entries {
			e.call.endIfDone(ctx)
		}
		l.attemptTogether(ctx, unanswered(entries))
		l.prepareTogether(ctx, unanswered(entries))
	}
}

// attemptTogether sends the entries at once, without those whose breaker is open.
func (l *Loader) attemptTogether(ctx context.Context, entries []*entry) {
	entries = l.admitted(ctx, entries)
	if len(entries) == 0 {
		return
	}
	defer func() {
		for _, e := range entries {
			e.report(e.outcome)
		}
		l.breakers.logChanges()
	}()
	for _, e := range entries {
		e.call.sent++
	}
	if sharing := l.sharing; sharing != nil && entries[0].inAll {
		for _, e := range entries {
			e.cmd = e.call.attempt(ctx)
		}
		sharing.sendTogether(ctx, entries)
	} else {
		l.sendAlone(ctx, entries)
	}
	for _, e := range entries {
		e.call.note(ctx, e.cmd, e.outcome)
	}
}

// sendAlone sends the commands of entries in one pipeline of their own, and sets their outcomes.
func (l *Loader) sendAlone(ctx context.Context, entries []*entry) {
	cmds := make([]redis.Cmder, len(entries))
	for i, e := range entries {
		e.cmd = e.call.command(ctx)
		e.cmd.piped = true
		cmds[i] = e.cmd
	}
	returned := make(chan struct{})
	var sendErr error
	t := l.tasks.start(func() error {
		defer close(returned)
		sendErr = errNoOutcome // where a hook panics
		sendErr = l.sendPipeline(ctx, cmds)
		return sendErr
	})
	finished, err := l.tasks.wait(ctx, t)
	for _, e := range entries {
		if !finished {
			e.call.late = e.lateReply(returned, &sendErr)
		}
		e.outcome = e.cmd.outcome(finished, err)
	}
}

// lateReply returns the reply to the last command of an entry, which was abandoned. err is the pipeline's, set when
// returned is closed.
func (e *entry) lateReply(returned <-chan struct{}, err *error) *lateReply {
	cmd := e.cmd
	return &lateReply{ended: returned, read: func() []int64 {
		if cmd.outcome(true, *err) != nil {
			return nil
		}
		return cmd.Val()
	}}
}

// admitted asks the breaker of each entry, and returns the entries that may be sent.
func (l *Loader) admitted(ctx context.Context, entries []*entry) []*entry {
	if l.breakers == nil {
		return entries
	}
	for _, e := range entries {
		report, err := e.call.admit(ctx)
		if err != nil {
			e.call.fail(e.call.unknown(err))
		}
		e.report, e.outcome = report, errNoOutcome
	}
	return unanswered(entries)
}

// prepareTogether is call.prepareAttempt for many calls: it loads each missing script once on each node, and makes the
// longest of the pauses.
func (l *Loader) prepareTogether(ctx context.Context, entries []*entry) {
	l.loadMissing(ctx, entries)
	entries = unanswered(entries)
	var pause time.Duration
	for _, e := range entries {
		pause = max(pause, e.call.pause)
	}
	ended := sleep(ctx, pause)
	for _, e := range entries {
		e.call.afterPause(ended)
	}
}

func (l *Loader) loadMissing(ctx context.Context, entries []*entry) {
	waiting := map[loadTarget][]*entry{}
	for _, e := range entries {
		if e.call.toLoad() == nil {
			continue
		}
		node, _ := l.nodeOf(ctx, e.call.key()) // without one, loading says why
		p := loadTarget{e.call.toLoad(), node, e.call.loadsEverywhere()}
		waiting[p] = append(waiting[p], e)
	}
	var groups [][]*entry
	var loads []func() error
	for to, group := range waiting {
		groups = append(groups, group)
		loads = append(loads, func() error { return group[0].call.load(ctx, to.script) })
	}
	for i, err := range l.tasks.awaitAll(ctx, loads) {
		for _, e := range groups[i] {
			e.call.afterLoad(ctx, err)
		}
	}
}
