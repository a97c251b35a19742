package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// request is one decision, from the question to the answer. Its steps are:
//
//	start    tells the observer; answers at once if an argument is wrong, the limit is 0 or a denial is cached
//	call     runs the script: see call.run
//	finish   caches a denial, lets the policy answer after a failure, tells the observer
//
// A single call makes one step after the other: see do. A Batch makes each step for all of its requests.
type request struct {
	limiter     core
	subject     string
	question    question
	observation *observation // nil: no observer
	inWait      bool         // a WaitN made it, which tells the observer itself

	call        call
	argumentErr error // the question cannot be asked
	noPolicy    bool  // no policy answers: the context had ended before it was asked, or nobody waits for the answer
	considered  bool  // whether it is answered without the server
	answered    bool
	pending     *pendingDenial // nil: denials are not cached

	decision Decision
	err      error
}

// question is what is asked of a limiter.
type question struct {
	method   string        // for errors and observers: that of the call, without the N
	permits  int64         // 0: Peek, Report
	reported int64         // charged in any case, by a SliceRing
	maxWait  time.Duration // how far ahead the permits may be booked
	id       string
}

// amount returns how many permits the question is about.
func (q question) amount() int64 { return cmp.Or(q.permits, q.reported) }

// Methods: the one that asks for no permits, the one that books, the one that returns permits, and the one that charges
// permits in any case.
const (
	peek     = "Peek"
	reserve  = "Reserve"
	giveBack = "GiveBack"
	report   = "Report"
)

// decide asks for one decision.
func (c core) decide(ctx context.Context, subject string, q question) (Decision, error) {
	r := c.request(subject, q)
	r.observation = c.watch(subject, q)
	return r.do(ctx)
}

// do makes all steps of a request that is sent by itself.
func (r *request) do(ctx context.Context) (Decision, error) {
	ctx = r.start(ctx)
	defer r.abort()
	if !r.answered {
		r.call.run(ctx)
	}
	r.finish(ctx)
	return r.decision, r.err
}

// request makes the request of a question about a subject.
func (c core) request(subject string, q question) request {
	r := request{limiter: c, subject: subject, question: q}
	r.argumentErr = r.makeCall()
	return r
}

// makeCall checks the question, and makes the call that decides. It makes none if the limit is 0.
func (r *request) makeCall() error {
	c, q := r.limiter, r.question
	key, err := c.key(r.subject)
	if err != nil {
		return err
	}
	if err := c.checkQuestion(q); err != nil {
		return err
	}
	capacity := c.algorithm.capacity(c)
	if capacity == 0 {
		return nil
	}
	if err := c.errTooMany(q, capacity); err != nil {
		return err
	}
	r.call = newCall(c.limits, c.algorithm.script, c.algorithm.makeWords(c, key, q), c.replyFields())
	r.call.limiter, r.call.timeout = c.name, c.timeout()
	switch {
	case c.algorithm.hasIDs:
		r.call.id = q.id
	case q.permits > 0 && q.maxWait == 0 && q.reported == 0:
		r.call.allowGroup(q.permits, capacity)
	}
	return nil
}

// checkQuestion returns what is wrong with a question, apart from the upper bound of its permits.
func (c core) checkQuestion(q question) error {
	switch most := sliceRing.maxArgument("reported"); {
	case q.reported < 0 || q.reported > most:
		return c.errArgument("n", q.reported, "0 to "+strconv.FormatInt(most, 10))
	case q.method == peek, q.method == report:
		return nil
	case q.permits < 1:
		return errNoPermits(c.name, c.algorithm.amount, q.permits)
	case c.algorithm.checkID == nil:
		return nil
	}
	return c.algorithm.checkID(c.settings, q.id)
}

// errTooMany is the error of a question for more permits than could ever be granted, nil for other questions.
func (c core) errTooMany(q question, capacity int64) error {
	aCall, why := c.algorithm.maxArgument("permits"), ""
	if aCall < capacity {
		capacity, why = aCall, " of one call to a "+c.algorithm.name+c.algorithm.largerCalls
	}
	if q.permits <= capacity {
		return nil
	}
	return fmt.Errorf("loader: %s: %s(%s=%d) %w %d%s", c.name, q.method, cmp.Or(c.algorithm.amount, "n"), q.permits,
		ErrExceedsLimit, capacity, why)
}

// start tells the observer, and answers if no server has to be asked. It returns the context of the decision.
func (r *request) start(ctx context.Context) context.Context {
	if !r.inWait {
		ctx = r.observation.begin(ctx)
	}
	r.noPolicy = r.noPolicy || ctx.Err() != nil
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
		if r.err, r.answered = r.argumentErr, true; errors.Is(r.err, ErrExceedsLimit) {
			r.decision = r.limiter.never()
		}
	case r.call.script == nil:
		r.decision, r.answered = r.limiter.never(), true
	case r.question.method == report:
		return
	default:
		r.decision, r.answered = r.limiter.denials.recall(r.limiter, r.call.key(), r.question)
	}
	if !r.answered {
		r.pending = r.limiter.denials.newPending(r.limiter, r.call.key(), r.question)
	}
}

// finish takes the outcome of the call, and tells the observer.
func (r *request) finish(ctx context.Context) {
	if !r.answered {
		r.takeOutcome(ctx)
	}
	r.observation.setDecision(r.decision)
	if !r.inWait {
		r.observation.end(r.err)
	}
}

// takeOutcome makes the decision from the call's reply, or lets the policy decide.
func (r *request) takeOutcome(ctx context.Context) {
	r.call.report(ctx, r.observation)
	if r.err = r.call.err; r.err == nil {
		r.decision = r.limiter.decisionOf(&r.call)
		if r.question.reported > 0 {
			r.observation.setOver(r.limiter.ring.over(r.call.reply))
		}
		if r.question.method == report {
			if r.decision.Granted = r.limiter.ring.over(r.call.reply) == 0; r.decision.Granted {
				r.decision.Wait = 0 // that of a look
			}
			return
		}
		r.decision.setGrant(r.call.key(), r.question)
	}
	r.pending.save(r.decision, r.err)
	if r.err != nil && !r.noPolicy {
		q := r.question
		q.permits = q.amount()
		r.decision, r.err = r.limiter.fallBack(ctx, r.call.key(), q, r.err)
	}
}

// abort tells the observer of a panic, if there was one. It is for deferred functions.
func (r *request) abort() {
	if !r.inWait {
		r.observation.abort()
	}
}
