package loader

import (
	"context"
	"errors"
)

// FailOpen grants what Redis does not decide, and marks the Decision Degraded: for limits that protect a
// service better kept open than shut. Without a policy a limiter fails closed: the call returns an error.
//
// A policy answers a call that is in order and finds Redis down, too slow for the caller's deadline or
// Timeout, full, read-only, loading, without the script, or refusing for whatever other reason, and one that
// Breaker keeps from asking. It does not answer what asking a healthy Redis would not cure (an *ArgumentError,
// a *StateError, ErrExceedsLimit), nor a caller whose context was cancelled or over before the call. The answer
// comes when Redis has failed, so bound that by Timeout, shorter than the callers' deadlines.
//
// An answer of the policy takes the place of an *OutcomeUnknownError as well. The caller is granted its permits
// once, and Redis may have charged for them, once: nothing is charged twice, and nothing is sent again later.
//
// Wait returns at once and Reserve books nothing ahead: each is granted at once. Peek sees as many permits as may
// be asked for at once. Reset, Cancel and SetLimit have no policy: their errors stay errors.
func FailOpen() LimiterOption {
	return func(s *settings) { s.fallBack("FailOpen", open) }
}

// instead answers a question that Redis did not answer, unless ok is false: then the error stands.
type instead func(c core, key string, q question) (d Decision, ok bool)

// open is the answer of FailOpen.
func open(c core, _ string, q question) (Decision, bool) {
	return Decision{Granted: q.permits > 0, Remaining: c.most()}, true
}

// answer asks Redis, and the policy where Redis does not decide.
func (c core) answer(ctx context.Context, asked call, q question) (Decision, error) {
	if c.instead == nil || ctx.Err() != nil {
		return asked.decide(ctx)
	}
	d, err := asked.decide(ctx)
	if err != nil {
		return c.degrade(ctx, asked.key(), q, err)
	}
	return d, nil
}

// errDegraded is why a policy answers those who waited for a call that it has answered.
var errDegraded = errors.New("loader: the call for more permits was degraded")

// degrade is the policy's answer in the place of an error, where it has one.
func (c core) degrade(ctx context.Context, key string, q question, err error) (Decision, error) {
	if !undecided(ctx, err) {
		return Decision{}, err
	}
	d, ok := c.instead(c, key, q)
	if !ok {
		return Decision{}, err
	}
	d.Degraded = true
	return d, nil
}

// undecided reports whether an error leaves open what another Redis, or this one later, would decide.
func undecided(ctx context.Context, err error) bool {
	_, argument := errors.AsType[*ArgumentError](err)
	_, state := errors.AsType[*StateError](err)
	return !argument && !state && !errors.Is(ctx.Err(), context.Canceled)
}

// most is how many permits may be asked for at once, as far as this process knows.
func (c core) most() int64 {
	if most := c.kind.capacity(c); most != unknownCapacity {
		return most
	}
	return c.limit.Permits
}
