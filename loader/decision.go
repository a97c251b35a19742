package loader

import (
	"slices"
	"time"
)

// Decision is the answer of a limiter. Its times are by the server's clock, in whole microseconds.
type Decision struct {
	// Granted is true if all permits that were asked for were granted. Peek grants nothing.
	Granted bool

	// Permits is how many permits were granted: as many as were asked for, or 0.
	Permits int64

	// Remaining is how many permits could be granted now. It is 0 while permits are booked ahead.
	Remaining int64

	// Wait is how long to wait before the permits may be used.
	//
	// For a denial it is the time until the permits come free, if no one else asks; Never if the limit is 0, and
	// with the error ErrExceedsLimit. For a Retry-After header use RetryAfterSeconds. For a grant it is 0, unless the
	// permits were booked ahead. For a Peek it is the time until one permit comes free.
	Wait time.Duration

	// ResetAfter is the time until the subject has its whole limit again, if no one asks.
	ResetAfter time.Duration

	// Now is the server's clock at the decision. Use it to audit a log of decisions, and count what is Repeated
	// once for each ID. It is zero if the limit is 0 or the decision is Degraded, because no server decided.
	Now time.Time

	// Limit is the limit that the decision was made by: for a TokenBucket the stored one, for a SliceRing the
	// tightest window.
	Limit Limit

	// CountsFor is how long a permit counts, at most: of a SliceRing up to a slice longer than the window. 0 is the
	// window.
	CountsFor time.Duration

	// Windows is the state of each window, tightest first, of a SliceRing that has several. It is nil for all others,
	// and for what an Ahead decides without asking Redis.
	Windows []WindowState

	// PeriodBegin is when the period began in which a Quota counts, until ResetAfter. It is zero for all others.
	PeriodBegin time.Time

	// Key is the key in Redis under which granted permits are counted: see GiveBack. Of several Windows it is that of
	// one, and each has its own. It is empty for a denial, and if Redis does not count these permits, or not yet: after a
	// fallback's decision, and if an Ahead granted them.
	Key string

	// ID is the request id of a grant by a ZSetLog: the id of WithID, or a random one. Other limiters have none.
	ID string

	// Repeated is true if a ZSetLog charged the permits before Now, at an earlier call with the same ID; its reply may
	// have been lost. It is false for a repeat before booked permits are due: then Now plus Wait is the time of both.
	Repeated bool

	// Ahead is true if an Ahead granted the permits, and Redis is told of them later.
	Ahead bool

	// Degraded is true if the limiter's fallback decided because Redis did not: see FailOpen and FailLocal.
	Degraded bool

	// Cause is the reason why Redis did not decide. It is nil unless Degraded.
	Cause error
}

// WindowState is the state of one window of a SliceRing after a decision.
type WindowState struct {
	Limit      Limit
	Remaining  int64         // permits that this window would grant now
	ResetAfter time.Duration // until it is empty, at most
	CountsFor  time.Duration // how long a permit counts in it, at most: up to a slice longer than the window
	Key        string        // the key in Redis that has its counts; empty if a fallback decided
}

// maxRetryAfter is the maximum of RetryAfterSeconds: 366 days.
const maxRetryAfter = 366 * 24 * time.Hour

// RetryAfterSeconds returns Wait for the header Retry-After of a 429: in whole seconds, rounded up, so that a client
// that waits for so long is not too early.
//
//	w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfterSeconds(), 10))
//
// It is at least 1 for a denial, and 0 if there is nothing to wait for. For everything longer than 366 days, and for
// Never, it is 31622400 (366 days). If the limit is 0 because a plan does not include a feature, consider answering 403
// without the header. Cost: nothing.
func (d Decision) RetryAfterSeconds() int64 {
	if d.Wait <= 0 {
		return 0
	}
	return int64((min(d.Wait, maxRetryAfter) + time.Second - 1) / time.Second)
}

// setRemaining sets what remained before other callers of the same command were granted permits.
func (d *Decision) setRemaining(remaining int64) {
	for i := range d.Windows {
		d.Windows[i].Remaining += remaining - d.Remaining
	}
	d.Remaining = remaining
}

// later returns a denial as it is after some time in which nothing else has happened.
func (d Decision) later(since time.Duration) Decision {
	d.Wait -= since
	d.ResetAfter = max(d.ResetAfter-since, 0)
	d.Now = d.Now.Add(since)
	d.Windows = slices.Clone(d.Windows)
	for i := range d.Windows {
		d.Windows[i].ResetAfter = max(d.Windows[i].ResetAfter-since, 0)
	}
	return d
}

const minReplyFields = 5
