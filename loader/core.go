package loader

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// core is a limiter: the settings that it shares with its copies, and what a copy has for itself. docs/development.md,
// "How a decision flows", follows a call down to the server.
type core struct {
	*settings
	limit    Limit
	ring     ring   // of a SliceRing or a Budget, in place of limit
	period   Period // of a Quota
	id       string
	limitErr error // what is wrong with the limit
	idErr    error // what is wrong with the id
}

// base is how a Batch finds the core of a limiter.
func (c core) base() core { return c }

// Allow asks for one permit now. Cost: one round trip.
func (c core) Allow(ctx context.Context, subject string) (Decision, error) {
	return c.decide(ctx, subject, question{method: "Allow", permits: 1, id: c.callID()})
}

// AllowN asks for n permits now, all or nothing. More than could ever be granted is ErrExceedsLimit. Cost: one round
// trip.
func (c core) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	return c.decide(ctx, subject, question{method: "Allow", permits: n, id: c.callID()})
}

// Peek returns what could be granted now, and changes nothing: Remaining is the number of permits, Wait the time until
// one permit comes free. Cost: one round trip.
func (c core) Peek(ctx context.Context, subject string) (Decision, error) {
	return c.decide(ctx, subject, question{method: peek})
}

// Reset gives the subject its whole limit back, by removing its keys. Cost: one round trip, UNLINK.
func (c core) Reset(ctx context.Context, subject string) error {
	key, err := c.key(subject)
	if err != nil {
		return err
	}
	keys := c.algorithm.keys(c, key)
	defer c.forgetDenials(key)
	err = c.loader.client.Await(ctx, c.timeout, func(ctx context.Context) error {
		return c.loader.client.Redis.Unlink(ctx, keys...).Err()
	})
	if err != nil {
		return fmt.Errorf("loader: Reset: %w", err)
	}
	return nil
}

// Name returns the limiter's name. It is empty for a zero limiter. Cost: nothing.
func (c core) Name() string { return c.limiterName() }

// Check returns what is wrong with the limiter's name, limit and options, or with its Loader's options. Call it once,
// when the program starts. Cost: nothing is sent.
func (c core) Check() error {
	_, err := c.key("any")
	return err
}

// with returns the limiter with another limit.
func (c core) with(limit Limit) core {
	c.limit = limit
	if c.settings != nil {
		c.limitErr = c.checkLimit(limit)
	}
	return c
}

// isSame is IsSame.
func (c core) isSame(d core) bool {
	if c.settings == nil || d.settings == nil {
		return c.settings == d.settings
	}
	return c.loader == d.loader && c.algorithm == d.algorithm && c.name == d.name && c.answers == d.answers &&
		c.perClient == d.perClient && c.clientID == d.clientID && c.id == d.id &&
		c.limit == d.limit && slices.Equal(c.ring.limits, d.ring.limits) && c.period.isSame(d.period, time.Now())
}

// limiterName returns the limiter's name, "" for a zero limiter.
func (c core) limiterName() string {
	if c.settings == nil {
		return ""
	}
	return c.name
}

// call makes a call about a subject of the limiter that is no decision.
func (c core) call(script *sluice.Script, key string, args ...any) *wire.Call {
	call := c.loader.client.NewCall(script, key, len(script.Reply))
	call.Limiter, call.Timeout = c.name, c.timeout
	call.Args = append(call.Args, args...)
	return call
}

// key returns the subject's key, of several windows the first one's, or the error of the limiter or the subject.
func (c core) key(subject string) (string, error) {
	switch {
	case c.settings == nil:
		return "", &ArgumentError{Argument: "limiter", Want: "one that a method of Loader made"}
	case c.err != nil:
		return "", c.err
	case c.limitErr != nil:
		return "", c.limitErr
	case c.idErr != nil:
		return "", c.idErr
	}
	if len(subject) < 1 || len(subject) > maxSubjectBytes {
		return "", errSubject(c.name, subject)
	}
	window := ""
	if len(c.ring.windows) > 0 {
		window = c.ring.windows[0].tail
	}
	return c.head + escaper.Replace(subject) + c.tail + window, nil
}

// checkQuestion returns how many permits could ever be granted at once, and what is wrong with a question for permits.
func (c core) checkQuestion(q question) (capacity int64, err error) {
	k := c.algorithm
	capacity = k.capacity(c)
	switch {
	case q.method == report:
		return capacity, c.checkReport(q.reported)
	case q.permits == 0 && q.method == peek:
		return capacity, nil
	case q.permits < 1:
		return capacity, errNoPermits(c.name, k.amount, q.permits)
	case k.checkID != nil:
		if err := k.checkID(c.settings, q.id); err != nil {
			return capacity, err
		}
	}
	if capacity == 0 || q.permits <= min(capacity, k.maxPermits) {
		return capacity, nil
	}
	upper, why := capacity, ""
	if k.maxPermits < capacity {
		upper, why = k.maxPermits, " of one call to a "+k.name+k.largerCalls
	}
	return capacity, fmt.Errorf("loader: %s: %s(%s=%d) %w %d%s", c.name, q.method, cmp.Or(k.amount, "n"), q.permits,
		ErrExceedsLimit, upper, why)
}

// anyWindow returns the part of a key that the limiter has in common with its copies that have other windows.
func (c core) anyWindow(key string) string {
	if c.algorithm.code == codeSliceRing {
		return withoutWindow(key)
	}
	return key
}

// callID returns the id of one call: the caller's own or, if the script takes ids, a new one.
func (c core) callID() string {
	if c.id != "" || c.settings == nil || !c.algorithm.hasIDs {
		return c.id
	}
	return newID()
}

// onlyKey returns the key of a limiter that has one key for each subject.
func onlyKey(_ core, key string) []string { return []string{key} }

// limitCapacity is the capacity of a limiter that grants up to its limit at once.
func limitCapacity(c core) int64 { return c.limit.Permits }

// unknownCapacity is the capacity if the limit is not known.
const unknownCapacity = math.MaxInt64

// storedCapacity is the capacity of a limiter whose limit is stored in Redis. A limit of 0 denies all the same.
func storedCapacity(c core) int64 {
	if c.limit.Permits == 0 {
		return 0
	}
	return unknownCapacity
}
