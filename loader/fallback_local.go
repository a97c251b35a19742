package loader

import (
	"cmp"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxWaitUS is the longest Wait of a local decision, in microseconds: about 140 years.
const maxWaitUS = 1 << 52

// maxLocalSubjects is how many subjects FailLocal holds at once, of about 240 bytes each.
const maxLocalSubjects = 10000

// FailLocal limits in this process while Redis does not decide, to a share of the limit (above 0, at most 1), and marks
// the Decision Degraded. Use it if the limit must hold roughly even without Redis: if n processes share the load
// evenly, a share of 1/n keeps them to about the limit. See FailOpen for when a fallback answers.
//
// The local limiter is the token bucket of golang.org/x/time/rate, one for each window. It starts full, with the share
// of what may be asked for at once (at least one permit), and refills at the share of the rate. So a GCRA keeps to its
// share exactly; the logs and the ring grant up to twice the share in a window. The local limiter does not know what
// Redis has granted, the ids of a ZSetLog, or a limit that SetRate stored: it uses the limiter's own limit.
//
// Wait and Reserve book ahead, first come, first served in this process. Cancel and Settle do not give local permits
// back. A call for more permits than the share holds returns Redis's error.
//
// The copies of a limiter share up to 10000 subjects in 2.5 MB, however long these are, because only a hash of each is
// kept: make the limiter once, not for every call. When there are more, the next subject replaces any other, whose
// bucket is then full again.
func FailLocal(share float64) LimiterOption {
	return func(s *settings) {
		if !(share > 0 && share <= 1) {
			s.setErr(s.errArgument("FailLocal", share, "a share above 0 and up to 1"))
			return
		}
		l := &local{share: share, subjects: map[keyHash][]bucket{}}
		s.setFallback("FailLocal", l.decideLocally)
	}
}

// local is the fallback of FailLocal.
type local struct {
	share float64

	mu       sync.Mutex
	subjects map[keyHash][]bucket // one bucket for each window
}

// bucket is the share of one window of a subject.
type bucket struct {
	limit Limit // the whole one
	*rate.Limiter
}

// decideLocally grants the permits from the buckets of all windows, or from none.
func (l *local) decideLocally(c core, key string, q question) (Decision, bool) {
	if len(c.ring.limits) == 0 && c.limit.Window <= 0 {
		return Decision{}, false // Redis would have said so
	}
	hash := hashOf(c.anyWindow(key))
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	buckets := l.bucketsFor(hash, c.localLimits(), now)
	wait, ok := waitFor(buckets, q.permits, now)
	if !ok {
		return Decision{}, false
	}
	granted := q.permits > 0 && wait <= q.maxWait
	if granted {
		for _, b := range buckets {
			b.ReserveN(now, int(q.permits))
		}
	}
	return c.localDecision(Decision{Granted: granted, Wait: wait}, buckets, now), true
}

// waitFor returns how long it takes until all buckets hold this many permits, false if they never do.
func waitFor(buckets []bucket, permits int64, now time.Time) (wait time.Duration, ok bool) {
	for _, b := range buckets {
		if permits > int64(b.Burst()) {
			return 0, false
		}
		wait = max(wait, b.until(float64(max(permits, 1)), now))
	}
	return wait, true
}

// localDecision adds the state of the buckets to a decision.
func (c core) localDecision(d Decision, buckets []bucket, now time.Time) Decision {
	setState := func(i int, state *WindowState) {
		b := buckets[i]
		state.Remaining, state.ResetAfter = max(int64(b.TokensAt(now)), 0), b.until(float64(b.Burst()), now)
	}
	d.Remaining = math.MaxInt64
	for i := range buckets {
		var state WindowState
		setState(i, &state)
		d.Remaining, d.ResetAfter = min(d.Remaining, state.Remaining), max(d.ResetAfter, state.ResetAfter)
	}
	return c.describe(d, setState)
}

// bucketsFor returns the subject's buckets, one for each limit. Further buckets of the subject are kept for other
// calls.
func (l *local) bucketsFor(key keyHash, limits []Limit, now time.Time) []bucket {
	evictFor(key, l.subjects, maxLocalSubjects)
	buckets := l.subjects[key]
	if missing := len(limits) - len(buckets); missing > 0 {
		buckets = append(buckets, make([]bucket, missing)...)
		l.subjects[key] = buckets
	}
	buckets = buckets[:len(limits)]
	for i, limit := range limits {
		if buckets[i].limit != limit {
			buckets[i].change(limit, l.share, now)
		}
	}
	return buckets
}

// change sets the bucket to a share of another limit. It keeps its tokens, up to its new size.
func (b *bucket) change(limit Limit, share float64, now time.Time) {
	b.limit = limit
	burst := max(int(share*float64(cmp.Or(limit.Burst, limit.Permits))), 1)
	perSecond := rate.Limit(share * float64(limit.Permits) / limit.Window.Seconds())
	if b.Limiter == nil {
		b.Limiter = rate.NewLimiter(perSecond, burst)
		return
	}
	b.SetLimitAt(now, perSecond)
	b.SetBurstAt(now, burst)
}

// until returns how long it takes until the bucket holds this many tokens, in whole microseconds.
func (b bucket) until(tokens float64, now time.Time) time.Duration {
	us := math.Ceil((tokens - b.TokensAt(now)) / float64(b.Limit()) * 1e6)
	return time.Duration(min(max(us, 0), maxWaitUS)) * time.Microsecond
}

// localLimits returns the limits that have a bucket.
func (c core) localLimits() []Limit {
	if len(c.ring.limits) == 0 {
		return []Limit{{Permits: c.limit.Permits, Window: c.limit.Window, Burst: c.maxPermits()}}
	}
	return c.ring.limits
}
