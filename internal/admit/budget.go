package admit

import (
	"context"
	"crypto/rand"
	"sync/atomic"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
)

// Estimate asks a budget for a reservation.
type Estimate struct {
	Budget  loader.Budget
	Subject string
	N       int64
}

// usage is the key of what a request has used, and that itself.
type usage struct{}

// Settle says what the request of a context has used of its budgets, in place of the estimate. The last call counts.
func Settle(ctx context.Context, actual int64) {
	if used, ok := ctx.Value(usage{}).(*atomic.Pointer[int64]); ok {
		used.Store(&actual)
	}
}

// settleUsed settles reservations by what the handler has said, if it has.
func (q *Request) settleUsed(reserved []*loader.Reserved) {
	used := q.ctx.Value(usage{}).(*atomic.Pointer[int64]).Load()
	if used != nil {
		settle(reserved, *used)
	}
}

// reserve reserves the estimates of a request.
func (q *Request) reserve() {
	q.ctx = context.WithValue(q.ctx, usage{}, &atomic.Pointer[int64]{})
	for _, e := range q.Budgets {
		if q.Outcome != admission.Allowed || q.isGone() {
			return
		}
		r, err := e.Budget.Reserved(lasting(q.ctx), e.Subject, rand.Text(), e.N)
		q.note(Decision{Decision: r.Decision, Policy: NameOf(e.Budget), Subject: e.Subject, Err: err})
		q.reserved = append(q.reserved, r)
		q.judge(r.Decision, err)
	}
	q.isGone()
}

// settle settles reservations. It goes on in the background while Redis is down.
func settle(reserved []*loader.Reserved, actual int64) {
	for _, r := range reserved {
		r.Used = actual
		_ = r.Settle() // the loader's observer is told
	}
}
