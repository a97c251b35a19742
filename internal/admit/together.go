package admit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
)

// askAll asks several limiters, all or none.
func (q *Request) askAll(ctx context.Context) (loader.Decision, error) {
	all := q.Limits.All()
	for _, c := range q.enforced {
		c.Answered, c.Denied = false, false // in an earlier round
		limiter, err := returner(c.Limiter)
		if err != nil {
			return loader.Decision{}, err
		}
		all.AllowN(limiter, c.Subject, c.sum)
	}
	d, err := all.Do(ctx)
	if !errors.Is(err, loader.ErrExceedsLimit) && len(d.Denied) > 0 {
		err = nil // a denial is one, whatever else failed
	}
	for _, part := range append(d.Parts, d.Denied...) {
		q.enforced[part.Index].answer(part.Decision, err)
	}
	return d.Decision, err
}

// askShadowed asks the limiters that may not deny, each by itself.
func (q *Request) askShadowed() {
	ctx := lasting(q.ctx)
	if len(q.shadow) == 1 {
		c := q.shadow[0]
		c.answer(c.Limiter.AllowN(ctx, c.Subject, c.sum))
		return
	}
	batch := q.Limits.Batch()
	results := make([]*loader.Result, len(q.shadow))
	for i, c := range q.shadow {
		results[i] = batch.AllowN(c.Limiter, c.Subject, c.sum)
	}
	_, _ = batch.Do(ctx) // the results have the errors
	for i, result := range results {
		q.shadow[i].answer(result.Decision, result.Err)
	}
}

// askBeside begins to ask the limiters that are asked by themselves: quotas, looks, reports, and those of refusals.
func (q *Request) askBeside() *sync.WaitGroup {
	ctx := lasting(q.ctx) // the others change q.ctx meanwhile
	var beside sync.WaitGroup
	for _, c := range q.beside {
		beside.Go(func() { c.ask(ctx) })
	}
	for _, b := range q.bans {
		if !b.Answered {
			beside.Go(func() { b.look(ctx) })
		}
	}
	return &beside
}

// ask asks one limiter by itself.
func (c *Charge) ask(ctx context.Context) {
	switch c.Kind {
	case Look:
		d, err := c.Limiter.Peek(ctx, c.Subject)
		d.Granted = err == nil && d.Remaining > 0
		c.answer(d, err)
	case Report:
		c.answer(c.Limiter.(Reporter).Report(ctx, c.Subject, c.N))
	default:
		c.answer(c.Limiter.AllowN(ctx, c.Subject, c.N))
	}
}

// judgeBeside refuses a request that a look or a report denies, or all quotas together.
func (q *Request) judgeBeside() {
	quotas, full, denied := 0, 0, q.Outcome == admission.Denied
	var errs []error
	for _, c := range q.beside {
		switch {
		case c.Shadow:
		case c.Err != nil && !c.Denied:
			errs = append(errs, c.Err)
		case c.Quota:
			quotas++
			if c.Denied {
				full++
			}
		default:
			denied = denied || c.Denied
		}
	}
	allFull := quotas > 0 && full == quotas
	if denied || allFull { // a denial is one, whatever else failed
		if q.Outcome != admission.Denied { // the error of a denial is its reason
			q.Err = nil
		}
		q.deny(q.longestWait(allFull))
	} else if err := errors.Join(errs...); err != nil && q.Outcome == admission.Allowed {
		q.fail(err)
	}
	q.isGone()
}

// longestWait returns the longest time of the denials. Quotas count if all of them are full.
func (q *Request) longestWait(quotas bool) (wait time.Duration) {
	for i := range q.Charges {
		if c := &q.Charges[i]; c.Denied && !c.Shadow && (quotas || !c.Quota) {
			wait = max(wait, c.Decision.Wait)
		}
	}
	return wait
}
