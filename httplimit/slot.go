package httplimit

import (
	"errors"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// slots is a concurrency limiter that is held for the time of a request.
type slots struct {
	limiter loader.Concurrency
	key     Key
}

func (s slots) check() error { return errors.Join(s.limiter.Check(), s.key.Check()) }

// slotRetry is Retry-After of a request that got no slot.
const slotRetry = time.Second

// takeSlots takes the slots of the request.
func (q *request) takeSlots() {
	for _, s := range q.options.slots {
		subject, choice := s.key.Subject(q.r)
		if choice == RefuseEmpty {
			q.fail(NoKey, nil)
			return
		}
		if choice == SkipEmpty {
			continue
		}
		slot, d, err := s.limiter.TryAcquire(q.r.Context(), subject)
		if err != nil {
			q.failed(err)
			return
		}
		q.result.Decisions = append(q.result.Decisions, Decision{
			Decision: d, Policy: nameOf(s.limiter), Subject: subject, Slot: true,
		})
		if slot == nil {
			q.deny(loader.Decision{Wait: slotRetry})
			return
		}
		q.held = append(q.held, slot)
		q.r = q.r.WithContext(slot.Context())
	}
}

// releaseSlots releases the slots that are held.
func (q *request) releaseSlots() {
	for _, slot := range q.held {
		_ = slot.Release() // it tries again in the background
	}
}
