package loader

import (
	"slices"
	"time"
)

// Decision is what a limiter answered. Its times are the server's, in whole microseconds.
type Decision struct {
	// Granted says that all the permits that were asked for were granted. Peek grants nothing.
	Granted bool

	// Remaining is how many permits could be granted now. It is 0 while permits are booked ahead.
	Remaining int64

	// Wait of a denial is how long it takes until the permits come free, if no one else asks: Never where the limit is
	// 0. For a Retry-After header use RetryAfter. Of a grant it is 0, unless the permits were booked ahead: then it is
	// how long to hold off. Of a Peek it is how long one permit would have to wait.
	Wait time.Duration

	// ResetAfter is how long from now until the subject has its whole limit again, if no one asks.
	ResetAfter time.Duration

	// Now is the server's clock at the decision, so that a log of decisions can be audited. It is zero
	// when the limit is 0, for then no server was asked, and when the decision is Degraded.
	Now time.Time

	// Limit is the limit that the decision was made by: of a TokenBucket the one that is stored, of a SliceRing that
	// of the tightest window.
	Limit Limit

	// Windows are those of a SliceRing that has several, the tightest first. A Leased tells none of what it spends.
	Windows []WindowState

	// Degraded says that the limiter's policy decided, because Redis did not: see FailOpen and FailLocal.
	Degraded bool

	// Cause is why Redis did not decide, if Degraded; else nil.
	Cause error
}

// WindowState is what one window of a SliceRing held at a decision.
type WindowState struct {
	Limit      Limit
	Remaining  int64         // permits that this window would grant now
	ResetAfter time.Duration // until it is empty
}

// zeroLimit is the answer to a limit of 0.
func (c core) zeroLimit() Decision {
	d := Decision{Wait: Never, Limit: c.limit}
	for _, limit := range c.ring.limits {
		if limit.Permits == 0 {
			d.Limit = limit
		}
	}
	return d
}

// basicDecision is the decision in a script's reply: its first five integers, in all scripts.
func basicDecision(reply []int64) Decision {
	return Decision{
		Granted:    reply[0] > 0,
		Remaining:  reply[1],
		Wait:       time.Duration(reply[2]) * time.Microsecond,
		ResetAfter: time.Duration(reply[3]) * time.Microsecond,
		Now:        time.UnixMicro(reply[4]),
	}
}

// fields is how many integers a reply to the limiter has.
func (c core) fields() int { return basicFields + c.kind.moreFields + len(c.ring.windows) }

const basicFields = 5

// decisionOf is what a call of the limiter was answered.
func (c core) decisionOf(call *call) Decision {
	d := basicDecision(call.reply)
	d.Limit = c.limit
	if c.kind.detail != nil {
		d = c.kind.detail(c, d, call.reply)
	}
	if call.sharedReply {
		d.setRemaining(call.remaining)
	}
	return d
}

// setRemaining sets what remains to what it was before others in the same command were granted theirs.
func (d *Decision) setRemaining(remaining int64) {
	for i := range d.Windows {
		d.Windows[i].Remaining += remaining - d.Remaining
	}
	d.Remaining = remaining
}

// later is a denial as it is after some time in which nothing else happened.
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
