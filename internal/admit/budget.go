package admit

import (
	"context"
	"crypto/rand"
	"sync/atomic"
)

// reservation is an estimate that a budget has granted.
type reservation struct {
	Estimate
	id       string
	degraded bool // by a policy: Redis may not know it
}

// usage is the key of what a request has used, and that itself.
type usage struct{}

// Settle says what the request of a context has used of its budgets, in place of the estimate. The last call counts.
func Settle(ctx context.Context, actual int64) {
	if used, ok := ctx.Value(usage{}).(*atomic.Pointer[int64]); ok {
		used.Store(&actual)
	}
}

// said returns what the handler has said.
func (a *Admission[O]) said() (actual int64, ok bool) {
	used, _ := a.ctx.Value(usage{}).(*atomic.Pointer[int64])
	if used == nil || used.Load() == nil {
		return 0, false
	}
	return *used.Load(), true
}

// reserve reserves the estimates of a request.
func (a *Admission[O]) reserve() {
	if len(a.request.Budgets) > 0 {
		a.ctx = context.WithValue(a.ctx, usage{}, &atomic.Pointer[int64]{})
	}
	for _, e := range a.request.Budgets {
		if a.Outcome != Allowed || a.gone() {
			return
		}
		id := rand.Text()
		d, err := e.Budget.Reserve(kept{a.ctx}, e.Subject, id, e.N)
		a.note(Decision{Decision: d, Policy: NameOf(e.Budget), Subject: e.Subject, Err: err})
		if d.Granted {
			a.reserved = append(a.reserved, reservation{e, id, d.Degraded})
		}
		a.judge(d, err)
	}
	if len(a.request.Budgets) > 0 {
		a.gone()
	}
}

// settle settles the budgets, once, if there is an actual cost.
func (a *Admission[O]) settle(cost func() (actual int64, ok bool)) {
	a.mu.Lock()
	reserved := a.reserved
	a.reserved = nil
	a.mu.Unlock()
	if len(reserved) == 0 {
		return
	}
	actual, ok := cost()
	if !ok {
		return
	}
	ctx := context.WithoutCancel(a.ctx)
	for _, r := range reserved {
		if r.degraded {
			_ = r.Budget.Charge(ctx, r.Subject, r.id, actual) // the loader's observer is told of failures
		} else {
			_ = r.Budget.Settle(ctx, r.Subject, r.id, actual)
		}
	}
}
