package loader

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// giveBack gives back n permits of a decision. A grant of a fallback has nothing to give back, unless it has an id by
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
	return c.newRefund(subject, key, d, n).send(ctx)
}

// sameSubject reports whether a decision's permits are counted under a key of this limiter, in whichever windows.
func (c core) sameSubject(d Decision, key string) bool {
	same := c.anyWindow(d.Key) == c.anyWindow(key)
	for _, w := range d.Windows {
		same = same && c.anyWindow(w.Key) == c.anyWindow(key)
	}
	return same
}

// refund is one return of permits.
type refund struct {
	limiter     core
	call        *wire.Call
	observation *observation
}

// newRefund makes the return of n permits of a grant. It may be repeated after a lost reply only if it gives back
// everything that an id was granted.
func (c core) newRefund(subject, key string, d Decision, n int64) refund {
	r := refund{limiter: c, call: c.algorithm.makeReturn(c, key, d, n)}
	if d.Key == key && n == d.Permits {
		r.call.ID = d.ID
	}
	r.observation = c.watch(subject, question{method: giveBack, permits: n})
	r.observation.setScript(r.call.Script)
	return r
}

// send sends a return by itself, and returns how many permits were given back.
func (r refund) send(ctx context.Context) (returned int64, err error) {
	ctx = r.observation.begin(ctx)
	defer r.observation.abort()
	defer r.limiter.forgetDenials(r.call.Key)
	answer, err := r.limiter.loader.client.Ask(ctx, r.call)
	return r.end(ctx, answer.Reply, err)
}

// end tells the observer what became of a return.
func (r refund) end(ctx context.Context, reply []int64, err error) (returned int64, _ error) {
	r.observation.addCall(r.call)
	err = r.limiter.loader.callError(ctx, r.call, err)
	if err == nil {
		returned = reply[0]
	}
	r.observation.setReturned(returned)
	r.observation.end(err)
	return returned, err
}

// sendRefunds gives back what several limiters granted, in one round trip.
func (l *Loader) sendRefunds(ctx context.Context, refunds []refund) {
	calls := make([]*wire.Call, len(refunds))
	for i, r := range refunds {
		calls[i] = r.call
		r.observation.begin(ctx)
		defer r.observation.abort()
		defer r.limiter.forgetDenials(r.call.Key)
	}
	for i, result := range l.client.AskAll(ctx, calls, false) {
		_, _ = refunds[i].end(ctx, result.Reply, result.Err) // the observer knows
	}
}

// How grants that nobody uses are given back.
const (
	maxReturnTries = 5                      // where a return may be repeated
	returnPause    = 250 * time.Millisecond // before the second; then 750 ms, and so on
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
		c.loader.returns.do(ctx, c.loader.log, func(ctx context.Context) { c.giveBackLost(ctx, subject, q, lost.late) })
	case d.Granted && !d.Degraded:
		c.loader.returns.do(ctx, c.loader.log, func(ctx context.Context) { c.tryGiveBack(ctx, subject, d, false) })
	}
}

// giveBackLost waits for the reply to an abandoned command, and gives back what it granted. Without the reply only an
// id can tell Redis what that was. late is nil if the reply cannot come.
func (c core) giveBackLost(ctx context.Context, subject string, q question, late *wire.Late) {
	switch reply := late.Wait(); {
	case reply != nil:
		d := basicDecision(reply)
		key, _ := c.key(subject) // there was a call about it
		if c.algorithm == &quota {
			d = quotaDetail(c, d, nil, reply)
		}
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
	var returned int64
	var err error
	for try := range maxReturnTries {
		_ = wire.Sleep(ctx, returnPause<<try-returnPause)
		returned, err = c.giveBack(ctx, subject, d, d.Permits)
		lost := errors.Is(err, ErrOutcomeUnknown) && !c.algorithm.hasIDs
		if returned > 0 || err == nil && !maybe || lost || errors.Is(err, redis.ErrClosed) {
			return
		}
	}
	if err != nil {
		c.returnGivenUp(ctx, c.algorithm.script, err)
	}
}
