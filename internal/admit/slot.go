package admit

import (
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
)

// Hold asks a concurrency limiter for a slot.
type Hold struct {
	Limiter loader.Concurrency
	Subject string
}

// slotRetry is the time to wait of a request that got no slot: nobody knows when one comes free.
const slotRetry = time.Second

// takeSlots takes the slots of a request.
func (q *Request) takeSlots() {
	for _, hold := range q.Slots {
		if q.Outcome != admission.Allowed {
			return
		}
		q.takeSlot(hold)
	}
}

func (q *Request) takeSlot(hold Hold) {
	if q.Wait && !q.Shadow {
		q.waitForSlot(hold)
		return
	}
	slot, d, err := hold.Limiter.TryAcquire(q.ctx, hold.Subject)
	q.note(Decision{Decision: d, Policy: NameOf(hold.Limiter), Subject: hold.Subject, Slot: true, Err: err})
	if slot != nil {
		q.hold(slot)
		return
	}
	if d.Wait != loader.Never {
		d.Wait = slotRetry
	}
	q.judge(d, err)
}

func (q *Request) hold(slot *loader.Slot) {
	q.slots = append(q.slots, slot)
	q.ctx = slot.Context()
}

// note adds the decision of a budget or for a slot.
func (q *Request) note(d Decision) {
	d.Shadow = q.Shadow
	q.resources = append(q.resources, d)
}

// TakeOver returns the release of the slots, which then outlive the request.
func (q *Request) TakeOver() func() {
	slots := taken(&q.mu, &q.slots)
	return func() { release(slots) }
}

func release(slots []*loader.Slot) {
	for _, slot := range slots {
		_ = slot.Release() // it tries again in the background
	}
}
