package loader

import (
	"context"
	"errors"
	"strconv"
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
	b.limits.do(ctx, entries, false)
	results := make([]*Result, len(entries))
	errs := make([]error, len(entries))
	for i, e := range entries {
		results[i], errs[i] = e.outcome(), e.err
	}
	return results, errors.Join(errs...)
}

func (b *Batch) add(limiter Limiter, subject string, q question) *Result {
	c, err := b.limits.coreOf(limiter, len(b.entries))
	e := &entry{request: request{argumentErr: err}, result: &Result{Err: errBatchNotDone}}
	if err == nil {
		e.ask(c, subject, q)
	}
	if e.argumentErr != nil {
		e.result.Err = e.argumentErr
	}
	b.entries = append(b.entries, e)
	return e.result
}

// outcome is what became of the entry.
func (e *entry) outcome() *Result {
	e.result.Decision, e.result.Err = e.decision, e.err
	if e.err == nil && e.question.method == reserve {
		e.result.Reservation = e.limiter.reservation(e.subject, e.question, e.decision)
	}
	return e.result
}

// coreOf returns the core of a limiter of this Loader, for an entry of a Batch or an All.
func (l *Loader) coreOf(limiter Limiter, entry int) (core, error) {
	if process, ok := limiter.(*Ahead); ok && process != nil {
		limiter = process.ring
	}
	if c, ok := baseOf(limiter); ok && c.settings != nil && c.loader == l {
		return c, nil
	}
	value := "of entry " + strconv.Itoa(entry)
	return core{}, &ArgumentError{Argument: "limiter", Value: value, Want: "one that the same Loader made"}
}

// baseOf returns the core of a limiter of this package.
func baseOf(limiter Limiter) (core, bool) {
	switch limiter := limiter.(type) {
	// Not a struct that has one embedded: its methods may differ.
	case GCRA, ListLog, Quota, SliceRing, TokenBucket, ZSetLog:
		return limiter.(interface{ base() core }).base(), true
	}
	return core{}, false
}
