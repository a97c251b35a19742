package admit

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// maxJitter keeps callers apart that were denied together: see loader.All.
const maxJitter = 10 * time.Millisecond

// wait waits until all limiters have granted. One limiter waits in its own order; several are asked again when the
// permits come free.
func (a *Admission[O]) wait() {
	switch enforced := a.asked[:a.enforced]; len(enforced) {
	case 0:
	case 1:
		q := &enforced[0]
		if err := q.Limiter.WaitN(a.ctx, q.Subject, q.N); errors.Is(err, loader.ErrExceedsLimit) {
			q.answer(loader.Decision{}, err)
			a.fail(err)
		} else if err != nil {
			a.failWait(err, Decision{Policy: q.Name, Subject: q.Subject}, 0)
		}
	default:
		a.waitForAll()
	}
}

func (a *Admission[O]) waitForAll() {
	for {
		d, err := a.askAll(a.ctx)
		if d.Granted || err != nil {
			a.judge(d, err)
			return
		}
		deadline, bounded := a.ctx.Deadline()
		if d.Wait == loader.Never || bounded && time.Until(deadline) < d.Wait {
			a.judge(d, nil)
			a.Err = &loader.WaitError{Limiter: "All", Permits: 1, Wait: d.Wait, Deadline: deadline}
			return
		}
		select {
		case <-time.After(d.Wait + rand.N(maxJitter)):
		case <-a.ctx.Done():
			a.fail(a.ctx.Err())
			return
		}
	}
}

func (a *Admission[O]) waitForSlot(hold Hold) {
	slot, err := hold.Limiter.Acquire(a.ctx, hold.Subject)
	if err != nil {
		a.failWait(err, Decision{Policy: NameOf(hold.Limiter), Subject: hold.Subject, Slot: true}, slotRetry)
		return
	}
	a.hold(slot)
}

// failWait refuses a request that did not get what it waited for. If it would have had to wait too long, that is a
// denial, and Err is the *loader.WaitError, which is context.DeadlineExceeded if the deadline is too early.
func (a *Admission[O]) failWait(err error, d Decision, retry time.Duration) {
	wait, tooLong := errors.AsType[*loader.WaitError](err)
	if !tooLong || a.ctx.Err() != nil {
		a.fail(err)
		return
	}
	if wait.Wait > 0 {
		retry = wait.Wait
	}
	if d.Wait = loader.Never; retry < loader.Never {
		d.Wait = retry
	}
	a.note(d)
	a.judge(d.Decision, nil)
	a.Err = err
}
