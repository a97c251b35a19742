package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/loader"
)

// admission is one call: what it has taken, and what goes back.
type admission struct {
	*Interceptor
	call    *Call
	skipped bool
	held    []*loader.Slot
	grants  []grant // those that may go back
	result  Result  // for the observer
}

// grant is what a limiter has granted.
type grant struct {
	ask
	decision loader.Decision
}

func (i *Interceptor) admission(call Call) *admission {
	return &admission{Interceptor: i, call: &call}
}

// admit takes the permits of a call, if it is charged now, and then its slots. The caller releases these, also after a
// refusal or a panic.
func (a *admission) admit(charged bool) error {
	if a.skipped = a.options.skip != nil && a.options.skip(a.call); a.skipped {
		return nil
	}
	return a.conclude(a.try(charged))
}

// admitMessage charges one message of a stream.
func (a *admission) admitMessage(message any) error {
	if a.skipped {
		return nil
	}
	call := *a.call
	call.Message = message
	m := a.admission(call)
	return m.conclude(m.charge())
}

// conclude tells the observer, and returns the error of a refusal.
func (a *admission) conclude(refused *refusal) error {
	if refused != nil {
		a.result.Outcome, a.result.Code, a.result.Err = refused.outcome, refused.status.Code(), refused.cause
	}
	if a.options.observe != nil {
		a.options.observe(a.call, a.result)
	}
	if refused == nil {
		return nil
	}
	return refused
}

// try takes what a call needs.
func (a *admission) try(charged bool) *refusal {
	switch {
	case a.err != nil:
		return misconfigured(a.err)
	case a.call.outgoing:
		return a.tryClient(charged)
	}
	if charged {
		if refused := a.charge(); refused != nil {
			return refused
		}
	}
	if refused := a.takeSlots(); refused != nil {
		a.giveBack(func(grant) bool { return true })
		return refused
	}
	return nil
}

// tryClient is try for a client. The permits are waited for last, because the partner counts the call when it is made.
func (a *admission) tryClient(charged bool) *refusal {
	if refused := a.takeSlots(); refused != nil || !charged {
		return refused
	}
	return a.charge()
}

// charge asks the limiters of a call, and then those in shadow.
func (a *admission) charge() *refusal {
	enforced, shadow, refused := a.asks()
	if refused != nil {
		return refused
	}
	if len(enforced) > 0 {
		if refused := a.enforce(enforced); refused != nil {
			return refused
		}
	}
	a.tryOut(shadow)
	return nil
}

func (a *admission) takeSlots() *refusal {
	for _, s := range a.options.slots {
		subject, choice := s.key.Subject(a.call)
		if subject == "" && (choice == SkipEmpty || a.options.shadow) {
			continue
		}
		if subject == "" {
			return noKey()
		}
		if refused := a.takeSlot(s.limiter, subject); refused != nil {
			return refused
		}
	}
	return nil
}

// takeSlot takes a slot, for which a client waits. The call goes on in its context.
func (a *admission) takeSlot(limiter loader.Concurrency, subject string) (refused *refusal) {
	var slot *loader.Slot
	if a.call.outgoing && !a.options.shadow {
		slot, refused = a.waitForSlot(limiter, subject)
	} else {
		slot, refused = a.tryForSlot(limiter, subject)
	}
	if slot != nil {
		a.held = append(a.held, slot)
		a.call.ctx = slot.Context()
	}
	return refused
}

func (a *admission) tryForSlot(limiter loader.Concurrency, subject string) (*loader.Slot, *refusal) {
	slot, d, err := limiter.TryAcquire(a.call.ctx, subject)
	if err != nil && !a.options.shadow {
		return nil, failure(a.call.ctx, err)
	}
	decision := Decision{
		Decision: d, Policy: nameOf(limiter), Subject: subject, Slot: true, Shadow: a.options.shadow, Err: err,
	}
	a.decided(decision)
	if slot != nil || decision.Shadow {
		return slot, nil
	}
	return nil, denial([]Decision{decision}, slotRetry(d), nil)
}

// slotRetry is when to try again for a slot. A decision does not know: it says when the first lease ends if nobody
// renews it.
func slotRetry(d loader.Decision) time.Duration {
	if d.Wait == loader.Never {
		return loader.Never
	}
	return time.Second
}

// decided notes a decision for the observer.
func (a *admission) decided(d Decision) {
	if a.options.observe == nil {
		return
	}
	if d.Degraded && !a.result.Degraded {
		a.result.Degraded, a.result.Cause = true, d.Cause
	}
	a.result.Decisions = append(a.result.Decisions, d)
}

// granted notes what may have to go back: because the call does not count, or gets no slot.
func (a *admission) granted(one ask, d loader.Decision) {
	if one.CountIf != nil || len(a.options.slots) > 0 {
		a.grants = append(a.grants, grant{one, d})
	}
}

// settle gives back what does not count by the result of the call, and returns that.
func (a *admission) settle(err error) error {
	err = slotLost(a.call.ctx, err)
	code := codeOf(err)
	a.giveBack(func(g grant) bool { return g.CountIf != nil && !g.CountIf(code) })
	return err
}

// giveBack gives back some of what was granted, where the limiter can. The loader's observer is told of failures, after
// which the permits stay charged.
func (a *admission) giveBack(unused func(grant) bool) {
	for _, g := range a.grants {
		returner, ok := g.Limiter.(loader.Returner)
		if ok && unused(g) {
			_, _ = returner.GiveBack(context.WithoutCancel(a.call.ctx), g.subject, g.decision, g.decision.Permits)
		}
	}
}

// release frees the slots, once. What fails goes on in the background.
func (a *admission) release() {
	for _, slot := range a.held {
		_ = slot.Release()
	}
}

func noKey() *refusal {
	return refuse(NoKey, codes.InvalidArgument, "the call has no value for the key of its limit", nil)
}
