package admit

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
)

// Held bounds how many requests are held at once until their permits come.
type Held struct {
	Max int64
	now atomic.Int64
}

// MaxHeld is how many requests may be held at once where nothing is said.
const MaxHeld = 1000

// held counts the requests of a process that are asked about without a door.
var held = Held{Max: MaxHeld}

// hold reports whether there is room for one more. The caller of one that is held calls release.
func (h *Held) hold() bool {
	if h.now.Add(1) <= h.Max {
		return true
	}
	h.release()
	return false
}

func (h *Held) release() { h.now.Add(-1) }

// askDelayed asks the limiters that may deny, and holds the request until its permits come, if that is soon enough.
func (q *Request) askDelayed() {
	if q.Held == nil {
		q.Held = &held
	}
	if q.isGone() || !q.Held.hold() {
		q.askEnforced()
		return
	}
	defer q.Held.release()
	began, c := time.Now(), q.enforced[0]
	if reserver, ok := c.Limiter.(loader.Reserver); ok && len(q.enforced) == 1 {
		q.reserveDelayed(c, reserver)
		return
	}
	for {
		q.askEnforced()
		wait := q.RetryAfter + rand.N(maxJitter)
		if q.Outcome != admission.Denied || q.RetryAfter == 0 || time.Since(began)+wait > q.patience() {
			return
		}
		q.Outcome, q.RetryAfter = admission.Allowed, 0
		if !q.sleep(wait) {
			return
		}
	}
}

// reserveDelayed books the permits of the only limiter, and holds the request until they are due.
func (q *Request) reserveDelayed(c *Charge, limiter loader.Reserver) {
	r, err := limiter.ReserveWithin(lasting(q.ctx), c.Subject, c.sum, q.patience())
	if err != nil {
		c.answer(loader.Decision{}, err)
		q.judge(c.Decision, c.Err)
		return
	}
	c.answer(r.Decision(), nil)
	q.judge(c.Decision, nil)
	if c.Decision.Granted && q.sleep(r.Delay()) {
		c.Decision.ResetAfter -= c.Decision.Wait
		c.Decision.Wait = 0
	}
}

// patience is how long the limiters that deny, or all of them, let the request wait.
func (q *Request) patience() time.Duration {
	most := loader.Never
	for _, c := range q.enforced {
		if c.Denied || !c.Answered {
			most = min(most, c.Delay)
		}
	}
	if deadline, ok := q.ctx.Deadline(); ok {
		most = min(most, time.Until(deadline).Truncate(time.Microsecond))
	}
	return max(most, 0)
}

// sleep holds the request, and reports whether its caller is still there.
func (q *Request) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.ctx.Done():
	}
	return !q.isGone()
}
