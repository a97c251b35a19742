package httplimit

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-redis/sluice/internal/reqcopy"
	"github.com/sluice-redis/sluice/loader"
)

// slots is a concurrency limiter of which a request holds a slot.
type slots struct {
	limiter loader.Concurrency
	key     Key
}

func (s slots) check() error { return errors.Join(s.limiter.Check(), s.key.Check()) }

// slotRetry is the time to wait of a request that got no slot.
const slotRetry = time.Second

// takeSlots takes the slots of the request.
func (q *request) takeSlots() {
	for _, s := range q.options.slots {
		if q.takeSlot(s); q.result.Outcome != Allowed {
			return
		}
	}
}

func (q *request) takeSlot(s slots) {
	shadow := q.options.shadow
	subject, choice := s.key.Subject(q.r)
	if choice == RefuseEmpty && !shadow {
		q.result.Outcome = NoKey
	}
	if choice != ShareEmpty {
		return
	}
	slot, d, err := s.limiter.TryAcquire(q.r.Context(), subject)
	q.result.Decisions = append(q.result.Decisions, Decision{
		Decision: d, Policy: nameOf(s.limiter), Subject: subject, Shadow: shadow, Slot: true, Err: err,
	})
	switch {
	case slot != nil:
		q.slots = append(q.slots, slot)
		q.setContext(slot.Context())
	case shadow:
	case err != nil:
		q.failed(err)
	case d.Wait == loader.Never:
		q.deny(d)
	default:
		q.deny(loader.Decision{Wait: slotRetry})
	}
}

// setContext gives the handler a request with another context.
func (q *request) setContext(ctx context.Context) {
	before := q.done
	copied, done := reqcopy.WithContext(q.r, ctx)
	q.r, q.done = copied, func() {
		done()
		if before != nil {
			before()
		}
	}
}

// held is the slots that a request or its connection holds.
type held []*loader.Slot

// release releases the slots. It may be called several times.
func (h held) release() {
	for _, slot := range h {
		_ = slot.Release() // it tries again in the background
	}
}
