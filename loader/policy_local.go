package loader

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// furthestUS is the longest wait that is told, in microseconds: some 140 years.
const furthestUS = 1 << 52

// localSubjects is how many subjects FailLocal knows at once, of some 240 bytes each.
const localSubjects = 10000

// FailLocal has a limiter in this process answer what Redis does not decide, at a share of the limit, above 0 and
// up to 1, and marks the Decision Degraded. See FailOpen for what a policy answers. A fleet of n processes that
// the load is spread over evenly keeps together to about its limit with a share of 1/n.
//
// The local limiter is the token bucket of golang.org/x/time/rate, for each window of the limiter: it starts full,
// with a share of what may be asked for at once, at least one permit, and refills at a share of the rate. Any
// interval of length d then holds at most that plus d times the rate: of a GCRA the share exactly, of the logs
// and the ring up to twice the share in a window. It knows nothing of what Redis has granted, nor of the request
// ids of a ZSetLog, nor of a limit that SetLimit stored: the limiter's own counts.
//
// Wait and Reserve book ahead, first come, first served in this process; Cancel does not give local permits
// back. More permits at once than the share ever holds are no question for it: they stay the error that
// they were. The copies of a limiter share their subjects, up to 10000 in 2.5 MB: make it once, not for every call.
// Beyond that, any one starts afresh for the next, which gains nobody more than asking as another subject.
func FailLocal(share float64) LimiterOption {
	return func(s *settings) {
		if !(share > 0 && share <= 1) {
			s.fail(s.refuse("FailLocal", share, "a share above 0 and up to 1"))
			return
		}
		l := &local{share: share, subjects: map[string][]bucket{}}
		s.fallBack("FailLocal", l.decide)
	}
}

// local decides in this process.
type local struct {
	share float64

	mu       sync.Mutex
	subjects map[string][]bucket // by key: one bucket for each window
}

// bucket is one window of a subject.
type bucket struct {
	limit Limit // of which it has a share
	*rate.Limiter
}

// decide grants the permits from all windows together, or none.
func (l *local) decide(c core, key string, q question) (Decision, bool) {
	if c.windows == nil && c.limit.Window <= 0 {
		return Decision{}, false // Redis would have said so
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	buckets := l.find(key, c.bounds(), now)
	d := Decision{Remaining: math.MaxInt64}
	for _, b := range buckets {
		if q.permits > int64(b.Burst()) {
			return Decision{}, false
		}
		d.Wait = max(d.Wait, b.until(float64(max(q.permits, 1)), now))
	}
	d.Granted = q.permits > 0 && d.Wait <= q.maxWait
	for _, b := range buckets {
		if d.Granted {
			b.ReserveN(now, int(q.permits))
		}
		d.Remaining = min(d.Remaining, max(int64(b.TokensAt(now)), 0))
		d.ResetAfter = max(d.ResetAfter, b.until(float64(b.Burst()), now))
	}
	return d, true
}

// find is the subject's buckets, one for each limit that is asked for now. What is not asked for this time is kept.
func (l *local) find(key string, limits []Limit, now time.Time) []bucket {
	buckets, known := l.subjects[key]
	if !known {
		l.makeRoom()
	}
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

// makeRoom forgets any subject if there is no room for one more.
func (l *local) makeRoom() {
	if len(l.subjects) < localSubjects {
		return
	}
	for any := range l.subjects {
		delete(l.subjects, any)
		return
	}
}

// change gives the bucket a share of another limit. What it holds it keeps, up to its new size.
func (b *bucket) change(limit Limit, share float64, now time.Time) {
	b.limit = limit
	burst := max(int(share*float64(limit.burst())), 1)
	perSecond := rate.Limit(share * float64(limit.Permits) / limit.Window.Seconds())
	if b.Limiter == nil {
		b.Limiter = rate.NewLimiter(perSecond, burst)
		return
	}
	b.SetLimitAt(now, perSecond)
	b.SetBurstAt(now, burst)
}

// until is how long it takes until the bucket holds so many tokens, in whole microseconds.
func (b bucket) until(tokens float64, now time.Time) time.Duration {
	us := math.Ceil((tokens - b.TokensAt(now)) / float64(b.Limit()) * 1e6)
	return time.Duration(min(max(us, 0), furthestUS)) * time.Microsecond
}

// bounds are the windows of the limiter, as limits.
func (c core) bounds() []Limit {
	if c.windows == nil {
		return []Limit{{Permits: c.limit.Permits, Window: c.limit.Window, Burst: c.most()}}
	}
	limits := make([]Limit, len(c.windows))
	for i, w := range c.windows {
		limits[i] = Limit{Permits: w.Limit, Window: time.Duration(w.Slices-1) * c.slice}
	}
	return limits
}
