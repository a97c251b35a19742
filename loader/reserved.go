package loader

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Reserved is an estimate that a Budget was asked for, and that Settle settles whatever happens: see Budget.Reserved.
// It is for one goroutine, but for Settle.
type Reserved struct {
	// Decision is the answer of the Budget. If it is not Granted, do not do the work.
	Decision

	// Used is what Settle charges: the estimate, until the work says what it was; 0 without a grant.
	Used int64

	settle func() error // once
}

// maxSettling is how many settlements of a Loader go on in the background at once. Further ones are sent once.
const maxSettling = 4096

// Reserved is Reserve for work that may end in any way. Most callers should use it:
//
//	r, err := tokens.Reserved(ctx, customer, id, estimate)
//	defer r.Settle() // also after a panic, and if the customer leaves
//	if err != nil {
//		return err // 503
//	}
//	if !r.Granted {
//		return tooMany(r.Decision) // 429
//	}
//	r.Used, err = generate(ctx)
//
// It never returns nil: after an error too, Settle withdraws what may be reserved. Cost: as Reserve.
func (b Budget) Reserved(ctx context.Context, subject, id string, estimate int64) (*Reserved, error) {
	asked := time.Now()
	d, err := b.Reserve(ctx, subject, id, estimate)
	r := &Reserved{Decision: d}
	if d.Granted {
		r.Used = estimate
	}
	lost := errors.Is(err, ErrOutcomeUnknown) || errors.Is(d.Cause, ErrOutcomeUnknown)
	if !d.Granted && !lost {
		return r, err
	}
	s := settlement{method: "Settle", subject: subject, id: id}
	if lost || d.Degraded { // Redis may not know it, and an estimate that comes later is then refused
		s.method, s.unknown = "Charge", 1
	}
	r.settle = sync.OnceValue(func() error {
		s.actual = r.Used
		return b.core.settleSurely(ctx, s, asked.Add(b.core.idTTL))
	})
	return r, err
}

// Settle settles what was reserved with Used. Its context is not that of Reserved: it has a timeout as long as the
// limiter's calls. If Redis cannot be reached it returns the error, and tries again in the background until Redis would
// no longer know the id (SettleWithin): see Flush. It does nothing without a grant. Only the first call does anything;
// the others return the same.
//
// Cost: as Budget.Settle.
func (r *Reserved) Settle() error {
	if r == nil || r.settle == nil {
		return nil
	}
	return r.settle()
}

// settleSurely settles, and goes on in the background while Redis cannot be reached.
func (c core) settleSurely(ctx context.Context, s settlement, until time.Time) error {
	err := c.settle(context.WithoutCancel(ctx), s)
	if err == nil || !mayHelp(err, true) || c.loader.returns.size() >= maxSettling {
		return err
	}
	c.loader.returns.do(ctx, c.loader.log, func(ctx context.Context) {
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if err := c.settle(ctx, s); err != nil {
			c.returnGivenUp(ctx, &budgetSettleV1, err)
		}
	})
	return err
}
