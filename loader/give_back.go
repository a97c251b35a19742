package loader

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// giveBack gives back n permits of a decision. A grant of a policy has nothing to give back, unless it has an id by
// which Redis knows what it may have charged before it failed.
func (c core) giveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	key, err := c.key(subject)
	if err != nil {
		return 0, err
	}
	known := d.ID != "" && c.algorithm.hasIDs
	switch {
	case n < 1:
		return 0, errNoPermits(c.name, "", n)
	case !d.Granted, d.Degraded && !known:
		return 0, nil
	case !c.sameSubject(d, key) && (d.Key != "" || !known):
		want := "one of this limiter about this subject: " + c.anyWindow(key)
		if d.Key == "" {
			want += "; of an All take Parts[i].Decision"
		}
		return 0, c.errArgument("decision", strconv.Quote(d.Key), want)
	case n > d.Permits:
		return 0, c.errArgument("n", n, "up to "+strconv.FormatInt(d.Permits, 10)+", as many as were granted")
	}
	return c.newReturn(subject, key, d, n).send(ctx)
}

// sameSubject reports whether a decision's permits are counted under a key of this limiter, in whichever windows.
func (c core) sameSubject(d Decision, key string) bool {
	same := c.anyWindow(d.Key) == c.anyWindow(key)
	for _, w := range d.Windows {
		same = same && c.anyWindow(w.Key) == c.anyWindow(key)
	}
	return same
}

// newReturn makes the call that gives back n permits of a grant. It may be repeated after a lost reply only if it gives
// back everything that an id was granted.
func (c core) newReturn(subject, key string, d Decision, n int64) *entry {
	script, words := c.algorithm.makeReturn(c, key, d, n)
	q := question{method: giveBack, permits: n}
	e := &entry{request: request{limiter: c, subject: subject, question: q}, report: unreported}
	e.observation = c.watch(subject, q)
	e.observation.setScript(script)
	e.call = newCall(c.limits, script, words, len(script.Reply))
	e.call.limiter, e.call.timeout = c.name, c.timeout()
	if d.Key == key && n == d.Permits {
		e.call.id = d.ID
	}
	return e
}

// send sends a return by itself, and returns how many permits were given back.
func (e *entry) send(ctx context.Context) (returned int64, err error) {
	ctx = e.observation.begin(ctx)
	defer e.observation.abort()
	defer e.limiter.forgetDenials(e.call.key())
	e.call.run(ctx)
	return e.endReturn(ctx)
}

// endReturn tells the observer what became of a return.
func (e *entry) endReturn(ctx context.Context) (returned int64, err error) {
	e.call.report(ctx, e.observation)
	if e.call.err == nil {
		returned = e.call.reply[0]
	}
	e.observation.setReturned(returned)
	e.observation.end(e.call.err)
	return returned, e.call.err
}

// returnTogether gives back what several limiters granted, in one round trip.
func (l *Loader) returnTogether(ctx context.Context, returns []*entry) {
	for _, e := range returns {
		e.observation.begin(ctx)
		defer e.observation.abort()
		defer e.limiter.forgetDenials(e.call.key())
	}
	bounded, cancel := l.withTimeout(ctx, l.timeoutOf(returns))
	defer cancel()
	l.runTogether(bounded, returns)
	for _, e := range returns {
		_, _ = e.endReturn(ctx) // the observer knows
	}
}

// givesBack reports whether a script gives permits back.
func givesBack(script *sluice.Script) bool {
	return len(script.Reply) > 0 && script.Reply[0].Name == "returned"
}

// How grants that nobody uses are given back.
const (
	maxReturnTries = 5                      // where a return may be repeated
	returnPause    = 250 * time.Millisecond // before the second; then 750 ms, and so on
	maxReplyDelay  = 30 * time.Second       // of waiting for the reply to an abandoned command
)

// giveBackUnused gives back in the background what a call was granted that is of no use to its caller; if the reply was
// lost, what it may have been granted. It does nothing if the script cannot give back, or if the id is the caller's
// own: the caller may ask again with it.
func (c core) giveBackUnused(ctx context.Context, subject string, q question, d Decision, err error) {
	if c.algorithm.makeReturn == nil || c.id != "" {
		return
	}
	if d.Degraded {
		err = d.Cause
	}
	lost, isLost := errors.AsType[*OutcomeUnknownError](err)
	switch {
	case isLost && (c.algorithm.hasIDs || lost.late != nil):
		c.limits.returns.do(ctx, c.limits, func(ctx context.Context) { c.giveBackLost(ctx, subject, q, lost.late) })
	case d.Granted && !d.Degraded:
		c.limits.returns.do(ctx, c.limits, func(ctx context.Context) { c.tryGiveBack(ctx, subject, d, false) })
	}
}

// giveBackLost waits for the reply to an abandoned command, and gives back what it granted. Without the reply only an
// id can tell Redis what that was. late is nil if the reply cannot come.
func (c core) giveBackLost(ctx context.Context, subject string, q question, late *lateReply) {
	switch reply := late.wait(); {
	case reply != nil:
		d := basicDecision(reply)
		key, _ := c.key(subject) // there was a call about it
		d.setGrant(key, q)
		for _, key := range c.algorithm.keys(c, key) { // a ring's windows
			d.Windows = append(d.Windows, WindowState{Key: key})
		}
		c.tryGiveBack(ctx, subject, d, false)
	case c.algorithm.hasIDs:
		c.tryGiveBack(ctx, subject, Decision{Granted: true, Permits: q.permits, ID: q.id}, true)
	}
}

// tryGiveBack gives a grant back. It tries again where that cannot give back more than was granted. If it is not known
// whether there was a grant (maybe), the command may still arrive: then an answer of 0 is not the last one.
func (c core) tryGiveBack(ctx context.Context, subject string, d Decision, maybe bool) {
	for try := range maxReturnTries {
		_ = sleep(ctx, returnPause<<try-returnPause)
		returned, err := c.giveBack(ctx, subject, d, d.Permits)
		lost := errors.Is(err, ErrOutcomeUnknown) && !c.algorithm.hasIDs
		if returned > 0 || err == nil && !maybe || lost || errors.Is(err, redis.ErrClosed) {
			return
		}
	}
}

// lateReply is the reply to a command that its caller has abandoned.
type lateReply struct {
	ended <-chan struct{} // ready when the command has come to an end
	read  func() []int64  // then: the reply, nil if there was none
}

// wait returns the reply when it is there, nil if none comes.
func (r *lateReply) wait() []int64 {
	if r == nil {
		return nil
	}
	select {
	case <-r.ended:
		return r.read()
	case <-time.After(maxReplyDelay):
		return nil
	}
}
