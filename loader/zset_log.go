package loader

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/bindings"
)

// ZSetLog is a sliding-window log with request ids, as exact as ListLog. Every call has an id: after a lost reply
// the loader asks again, and the call is charged once. Permits can be given back. The log is a sorted set that ZRANGE
// shows. A permit takes about 130 bytes. The limit goes up to 10000, the permits of one call up to 500. The zero
// ZSetLog is not ready for use: see Loader.ZSetLog.
type ZSetLog struct{ booker }

// ZSetLog returns the limiter of this name. Use it if requests may be repeated, or permits are given back. Call Check
// when the program starts. Every call gets a new random id of 22 characters; WithID sets the caller's own. Cost:
// nothing is sent.
func (l *Loader) ZSetLog(name string, limit Limit, opts ...LimiterOption) ZSetLog {
	s := l.configure(&zsetLog, name, opts)
	return ZSetLog{booker{core{settings: s}.with(limit)}}
}

// With returns a copy with another limit. Use it if the limit depends on the customer or the plan. The new limit
// applies at once to what was granted before. For two windows of one subject use two limiters of different names, or a
// SliceRing: a shorter window removes permits that a longer one still has to count. Cost: nothing is sent.
func (b ZSetLog) With(limit Limit) ZSetLog { return ZSetLog{booker{b.with(limit)}} }

// WithID returns a copy whose next calls, Cancel too, have this request id. Use it if requests may be repeated by
// others than the loader: by queues, browsers or people.
//
//	d, err := codes.WithID(id).Allow(ctx, subject)
//
// However often a subject asks with the same id, it is charged once in a window. It gets what it was granted the first
// time, with the rest of the wait. Asking for another number of permits is an *ArgumentError. An id has 1 to 128 bytes
// without "|"; with any other id every call returns an *ArgumentError. Cost: nothing is sent.
func (b ZSetLog) WithID(id string) ZSetLog {
	if b.id, b.idErr = id, nil; b.settings != nil && (id == "" || len(id) > maxIDLength || strings.Contains(id, "|")) {
		b.idErr = b.errArgument("id", strconv.Quote(id), "1 to 128 bytes without |")
	}
	return b
}

// maxIDLength is the maximum length of an id, in bytes.
const maxIDLength = 128

// Cancel gives back the n permits that the subject was granted with the id of WithID. Use it for permits that were
// certainly not used:
//
//	err := codes.WithID(id).Cancel(ctx, subject, n)
//
// It returns nil if the permits have expired or were never granted, and an *ArgumentError without WithID. Cost: one
// round trip, ZREM.
func (b ZSetLog) Cancel(ctx context.Context, subject string, n int64) error {
	_, err := b.giveBack(ctx, subject, b.id, n)
	return err
}

var zsetLog = kind{
	name: "ZSetLog", largerLimiters: "; ListLog, GCRA or SliceRing hold more",
	largerCalls: "; ListLog, GCRA or SliceRing take more",
	script:      &sluice.ZSetLogV1, code: codeZSetLog, hasIDs: true, canBook: true, capacity: limitCapacity,
	makeWords: zsetLogWords, keys: onlyKey,
}

func zsetLogWords(c core, key string, q question) []any {
	return bindings.ZSetLogV1Args{
		Log: key, Limit: c.limit.Permits, Window: c.limit.Window, Permits: q.permits, MaxWait: q.maxWait, ID: q.id,
	}.Words()
}

// maxPermitsPerID is how many permits zset_log grants to one id.
const maxPermitsPerID = 500

// giveBack removes the members of an id (the id itself, <id>||2 and so on), and returns how many there were.
func (c core) giveBack(ctx context.Context, subject, id string, n int64) (returned int64, err error) {
	key, err := c.key(subject)
	if err != nil {
		return 0, err
	}
	if !c.kind.hasIDs {
		return 0, c.errCannotGiveBack()
	}
	if id == "" {
		return 0, c.errArgument("Cancel", "without an id", "WithID before it")
	}
	if n < 1 || n > maxPermitsPerID {
		return 0, c.errArgument("n", n, fmt.Sprintf("1 to %d", maxPermitsPerID))
	}
	members := make([]any, n)
	members[0] = id
	for k := int64(2); k <= n; k++ {
		members[k-1] = id + "||" + strconv.FormatInt(k, 10)
	}
	defer c.denials.forget(key)
	ctx, cancel := c.limits.withTimeout(ctx, c.timeout())
	defer cancel()
	returned, err = awaitValue(ctx, &c.limits.tasks, func() (int64, error) {
		return c.limits.rdb.ZRem(ctx, key, members...).Result()
	})
	if err != nil {
		return 0, fmt.Errorf("loader: Cancel: %w", err)
	}
	return returned, nil
}
