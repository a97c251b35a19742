package admit

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// maxJitter keeps callers apart that were denied together: see loader.All.
const maxJitter = 10 * time.Millisecond

// wait waits until all limiters have granted. One limiter waits in its own order; several are asked again when the
// permits come free.
func (q *Request) wait() {
	switch len(q.enforced) {
	case 0:
	case 1:
		c := q.enforced[0]
		err := c.Limiter.WaitN(q.ctx, c.Subject, c.sum)
		if errors.Is(err, loader.ErrExceedsLimit) {
			c.answer(loader.Decision{}, err)
			q.fail(err)
		} else if err != nil {
			q.failWait(err, Decision{Policy: c.Name, Subject: c.Subject}, 0)
		}
	default:
		q.waitForAll()
	}
}

func (q *Request) waitForAll() {
	for {
		d, err := q.askAll(q.ctx)
		if d.Granted || err != nil {
			q.judge(d, err)
			return
		}
		deadline, bounded := q.ctx.Deadline()
		if d.Wait == loader.Never || bounded && time.Until(deadline) < d.Wait {
			q.judge(d, nil)
			longest := slices.MaxFunc(q.enforced, func(a, b *Charge) int {
				return cmp.Compare(a.Decision.Wait, b.Decision.Wait)
			})
			q.Err = &loader.WaitError{Limiter: "All", Permits: longest.sum, Wait: d.Wait, Deadline: deadline}
			return
		}
		select {
		case <-time.After(d.Wait + rand.N(maxJitter)):
		case <-q.ctx.Done():
			q.fail(q.ctx.Err())
			return
		}
	}
}

func (q *Request) waitForSlot(hold Hold) {
	slot, err := hold.Limiter.Acquire(q.ctx, hold.Subject)
	if err != nil {
		q.failWait(err, Decision{Policy: NameOf(hold.Limiter), Subject: hold.Subject, Slot: true}, slotRetry)
		return
	}
	q.hold(slot)
}

// failWait refuses a request that did not get what it waited for. If it would have had to wait too long, that is a
// denial, and Err is the *loader.WaitError, which is context.DeadlineExceeded if the deadline is too early.
func (q *Request) failWait(err error, d Decision, retry time.Duration) {
	wait, tooLong := errors.AsType[*loader.WaitError](err)
	if !tooLong || q.ctx.Err() != nil {
		q.fail(err)
		return
	}
	if wait.Wait > 0 {
		retry = wait.Wait
	}
	d.Wait = min(retry, loader.Never)
	q.note(d)
	q.judge(d.Decision, nil)
	q.Err = err
}
