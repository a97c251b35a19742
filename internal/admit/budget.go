package admit

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"

	"github.com/sluice-redis/sluice/loader"
)

// reservation is an estimate that a budget has granted.
type reservation struct {
	Estimate
	id      string
	isKnown bool // to Redis; not if a policy granted it, or no reply came
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
		if d.Granted || errors.Is(err, loader.ErrOutcomeUnknown) {
			a.reserved = append(a.reserved, reservation{e, id, err == nil && !d.Degraded})
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
		if r.isKnown {
			_ = r.Budget.Settle(ctx, r.Subject, r.id, actual) // the loader's observer is told of failures
		} else {
			_ = r.Budget.Charge(ctx, r.Subject, r.id, actual) // and an estimate that comes later is refused
		}
	}
}
