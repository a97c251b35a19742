package loader

import (
	"context"
	"time"
)

// FailOpen grants what Redis does not decide, and marks the Decision Degraded. Use it where the service should stay up
// even without its limit. Without a policy a limiter fails closed: the call returns an error.
//
// A policy answers when Redis is down, too slow for the caller's deadline or Timeout, full, read-only, loading, without
// the script, or refuses for any other reason, and when a Breaker is open. It does not answer where a healthy Redis
// would fail too (an *ArgumentError, a *StateError, ErrExceedsLimit), nor a caller whose context was cancelled or had
// ended before the call. Its answer comes when Redis has failed: set a Timeout that is shorter than the callers'
// deadlines.
//
// A policy also answers in the place of an *OutcomeUnknownError. The caller has its permits once, and Redis may have
// charged for them once: nothing is charged twice, and nothing is sent again later.
//
// Wait returns at once, and Reserve is granted at once: nothing is booked. Peek shows the whole limit. Reset, Cancel
// and SetLimit have no policy: their errors stay errors.
func FailOpen() LimiterOption {
	return func(s *settings) { s.setFallback("FailOpen", grantAll) }
}

// fallback answers a question that Redis did not answer, unless ok is false: then the error stands.
type fallback func(c core, key string, q question) (d Decision, ok bool)

// grantAll is the fallback of FailOpen.
func grantAll(c core, _ string, q question) (Decision, bool) {
	d := Decision{Granted: q.permits > 0, Remaining: c.maxPermits()}
	return c.describe(d, func(i int) (int64, time.Duration) { return c.ring.limits[i].Permits, 0 }), true
}

// fallBack is the fallback's answer in the place of an error, where the limiter has one and it answers.
func (c core) fallBack(ctx context.Context, key string, q question, err error) (Decision, error) {
	if c.fallback == nil || !undecided(ctx, err) {
		return Decision{}, err
	}
	d, ok := c.fallback(c, key, q)
	if !ok {
		return Decision{}, err
	}
	d.Degraded, d.Cause = true, err
	return d, nil
}

// maxPermits is how many permits may be asked for at once, as far as this process knows.
func (c core) maxPermits() int64 {
	if n := c.kind.capacity(c); n != unknownCapacity {
		return n
	}
	return c.limit.Permits
}
