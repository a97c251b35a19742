package loader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// request is one decision, from the question to the answer. Its steps are:
//
//	start    tells the observer; answers at once if an argument is wrong, the limit is 0 or a denial is cached
//	Ask      runs the script: see wire.Call.Ask
//	finish   caches a denial, lets the fallback answer after a failure, tells the observer
//
// A single call makes one step after the other: see do. A Batch makes each step for all of its requests.
type request struct {
	limiter     core
	subject     string
	question    question
	observation *observation // nil: no observer
	inWait      bool         // a WaitN made it, which tells the observer itself

	call        *wire.Call     // nil: the limit is 0, or an argument is wrong
	argumentErr error          // the question cannot be asked
	noFallback  bool           // the context had ended before it was asked, or nobody waits for the answer
	considered  bool           // whether it can be answered here
	isLocal     bool           // it was answered here, without the server
	pending     *pendingDenial // nil: denials are not cached

	answer   wire.Answer
	decision Decision
	err      error
}

// decide asks for one decision.
func (c core) decide(ctx context.Context, subject string, q question) (Decision, error) {
	r := c.request(subject, q)
	if c.settings != nil && c.loader.observer != nil {
		r.observation = c.watch(subject, q)
	}
	return r.do(ctx)
}

// request makes the request of a question about a subject. It has no call if the limit is 0 or an argument is wrong.
func (c core) request(subject string, q question) request {
	r := request{limiter: c, subject: subject, question: q}
	key, err := c.key(subject)
	if err != nil {
		r.argumentErr = err
		return r
	}
	capacity, err := c.checkQuestion(q)
	if err != nil || capacity == 0 {
		r.argumentErr = err
		return r
	}
	k := c.algorithm
	r.call = c.loader.client.NewCall(k.script, key, minReplyFields+k.moreFields+len(c.ring.windows))
	r.call.Limiter, r.call.Timeout = c.name, c.timeout
	r.call.Looks = q.permits == 0 && q.reported == 0
	switch {
	case k.hasIDs:
		r.call.ID = q.id
	case q.permits > 0 && q.maxWait == 0 && q.reported == 0:
		r.call.AllowGroup(q.permits, k.permitsAt, capacity)
	}
	k.setArgs(c, r.call, q)
	return r
}

// do makes all steps of a request that is sent by itself.
func (r *request) do(ctx context.Context) (Decision, error) {
	ctx = r.start(ctx)
	if r.observation != nil && !r.inWait {
		defer r.observation.abort()
	}
	if !r.isLocal {
		r.answer, r.err = r.limiter.loader.client.Ask(ctx, r.call)
	}
	r.finish(ctx)
	return r.decision, r.err
}

// start tells the observer, and answers if no server has to be asked. It returns the context of the decision.
func (r *request) start(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = wire.NilContext
	}
	if r.observation != nil && !r.inWait {
		ctx = r.observation.begin(ctx)
	}
	r.noFallback = r.noFallback || ctx.Err() != nil
	r.answerHere()
	return ctx
}

// answerHere answers if no server has to be asked. It finds out once.
func (r *request) answerHere() {
	if r.considered {
		return
	}
	r.considered = true
	switch {
	case r.argumentErr != nil:
		r.err, r.isLocal = r.argumentErr, true
		if errors.Is(r.err, ErrExceedsLimit) {
			r.decision = r.limiter.never()
		}
	case r.call == nil:
		r.decision, r.isLocal = r.limiter.never(), true
	case r.limiter.denials != nil:
		r.decision, r.isLocal = r.limiter.denials.recall(r.limiter, r.call.Key, r.question)
		if !r.isLocal {
			r.pending = r.limiter.denials.newPending(r.limiter, r.call.Key, r.question)
		}
	}
}

// finish takes the outcome of the call, and tells the observer.
func (r *request) finish(ctx context.Context) {
	if !r.isLocal {
		r.takeOutcome(ctx)
	}
	if r.observation == nil {
		return
	}
	if !r.isLocal {
		r.observation.addCall(r.call)
	}
	r.observation.Decision = r.decision
	if !r.inWait {
		r.observation.end(r.err)
	}
}

// takeOutcome makes the decision from the call's reply, or lets the fallback decide.
func (r *request) takeOutcome(ctx context.Context) {
	if r.err != nil {
		r.err = r.limiter.loader.callError(ctx, r.call, r.err)
	} else {
		r.decision = r.limiter.decisionOf(r.call, r.answer)
		if r.question.reported > 0 || r.question.method == report {
			r.judgeReport()
		}
		if r.question.permits > 0 {
			r.decision.setGrant(r.call.Key, r.question)
		}
	}
	if r.pending != nil {
		r.pending.save(r.decision, r.err)
	}
	if r.err != nil && !r.noFallback {
		q := r.question
		q.permits = cmp.Or(q.permits, q.reported)
		r.decision, r.err = r.limiter.fallBack(ctx, r.call.Key, q, r.err)
	}
}

// watch makes the observation of one decision, nil if there is no observer.
func (c core) watch(subject string, q question) *observation {
	if c.settings == nil || c.loader.observer == nil {
		return nil
	}
	return &observation{observer: c.loader.observer, Event: Event{
		Method: q.method, Script: c.scriptName, Limiter: c.name, Subject: subject,
		Permits: cmp.Or(q.permits, q.reported), Reported: q.reported,
	}}
}

// run asks one question that is no decision.
func (l *Loader) run(ctx context.Context, call *wire.Call, observed *observation) ([]int64, error) {
	answer, err := l.client.Ask(wire.NotNil(ctx), call)
	observed.addCall(call)
	return answer.Reply, l.callError(ctx, call, err)
}

// callError returns the error of a call as its caller gets it, and logs it.
func (l *Loader) callError(ctx context.Context, call *wire.Call, err error) error {
	if err == nil {
		return nil
	}
	err = publicError(err)
	l.callFailed(ctx, call, err)
	return err
}

// decisionOf returns the decision in the reply to a call.
func (c core) decisionOf(call *wire.Call, answer wire.Answer) Decision {
	d := basicDecision(answer.Reply)
	d.Limit = c.limit
	if c.algorithm.detail != nil {
		d = c.algorithm.detail(c, d, call, answer.Reply)
	}
	if answer.Shared {
		d.setRemaining(answer.Remaining)
	}
	return d
}

// setGrant sets what GiveBack needs to know of a grant.
func (d *Decision) setGrant(key string, q question) {
	if d.Granted {
		d.Permits, d.Key, d.ID = q.permits, key, q.id
	}
}

// never returns the denial that no wait ends: the limit is 0, or more was asked for.
func (c core) never() Decision {
	d := Decision{Wait: Never, Limit: c.limit}
	if limits := c.ring.limits; len(limits) > 0 {
		d.Limit = slices.MinFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Permits, b.Permits) })
	}
	return d
}

// basicDecision returns the decision in the first five integers of a reply, which are the same in all scripts.
func basicDecision(reply []int64) Decision {
	return Decision{
		Granted:    reply[0] > 0,
		Remaining:  reply[1],
		Wait:       time.Duration(reply[2]) * time.Microsecond,
		ResetAfter: time.Duration(reply[3]) * time.Microsecond,
		Now:        time.UnixMicro(reply[4]),
	}
}

// judgeReport completes the decision of a question that charges permits in any case.
func (r *request) judgeReport() {
	over := max(r.limiter.algorithm.over(r.limiter, r.answer.Reply), 0)
	if r.question.reported > 0 {
		r.observation.setOver(over)
	}
	if r.question.method == report {
		r.decision.Granted = over == 0
		if r.decision.Granted {
			r.decision.Wait = 0 // of a look
		}
	}
}
