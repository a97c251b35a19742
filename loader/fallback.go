package loader

import (
	"context"
)

// FailOpen grants everything while Redis does not decide, and marks the Decision Degraded. Use it if the service must
// stay up even without its limit. Without a fallback a limiter fails closed: the call returns an error.
//
// A fallback answers if Redis is down, full, read-only, loading, without the script, too slow for the caller's deadline
// or Timeout, or refuses for any other reason; if a Breaker is open; and in place of an *OutcomeUnknownError: Redis has
// then charged once or not at all. It does not answer if a healthy Redis would fail too (an *ArgumentError, a
// *StateError, ErrExceedsLimit), nor if the caller's context was cancelled or had ended before the call. Set a Timeout
// that is shorter than the callers' deadlines.
//
// With FailOpen, Wait returns at once, Reserve is granted without a booking, and Peek returns the whole limit. Reset,
// GiveBack, Cancel, SetRate, Settle and Charge have no fallback: they return their errors. For a Concurrency see
// Loader.Concurrency.
func FailOpen() LimiterOption {
	return func(s *settings) { s.setFallback("FailOpen", grantAll) }
}

// fallback decides a question in place of Redis. If ok is false, the call returns Redis's error.
type fallback func(c core, key string, q question) (d Decision, ok bool)

// grantAll is the fallback of FailOpen.
func grantAll(c core, _ string, q question) (Decision, bool) {
	d := Decision{Granted: q.permits > 0, Remaining: c.maxPermits()}
	return c.describe(d, func(i int, state *WindowState) { state.Remaining = c.ring.limits[i].Permits }), true
}

// fallBack lets the fallback answer in place of an error. Without a fallback, or if it does not answer, it returns the
// error.
func (c core) fallBack(ctx context.Context, key string, q question, err error) (Decision, error) {
	if c.fallback == nil || !undecided(ctx, err) {
		return Decision{}, err
	}
	d, ok := c.fallback(c, key, q)
	if !ok {
		return Decision{}, err
	}
	d.setGrant("", q)
	d.Degraded, d.Cause = true, err
	return d, nil
}

// maxPermits returns how many permits may be asked for at once, as far as this process knows.
func (c core) maxPermits() int64 {
	if n := c.algorithm.capacity(c); n != unknownCapacity {
		return n
	}
	return c.limit.Permits
}
