package loader

import (
	"context"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// ZSetLog is a sliding-window log with request ids, as exact as ListLog. Every call has an id: after a lost reply the
// loader asks again, and the call is charged once; a return can be repeated too. The log is a sorted set that ZRANGE
// shows. A permit takes about 130 bytes. The limit goes up to 10000, the permits of one call up to 500. The zero
// ZSetLog is not ready for use: see Loader.ZSetLog.
type ZSetLog struct{ booker }

// ZSetLog returns the limiter of this name. Use it if requests may be repeated. Call Check
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

// WithID returns a copy whose next calls have this request id. Use it if requests may be repeated by
// others than the loader: by queues, browsers or people.
//
//	d, err := codes.WithID(id).Allow(ctx, subject)
//
// However often a subject asks with the same id, it is charged once in a window. It gets what it was granted the first
// time, with the rest of the wait. Asking for another number of permits is an *ArgumentError. An id has 1 to 128 bytes
// without "|"; with any other id every call returns an *ArgumentError. Cost: nothing is sent.
func (b ZSetLog) WithID(id string) ZSetLog {
	b.id, b.idErr = id, nil
	if b.settings != nil && (id == "" || len(id) > maxIDLength || strings.Contains(id, "|")) {
		b.idErr = b.errArgument("id", strconv.Quote(id), "1 to 128 bytes without |")
	}
	return b
}

// maxIDLength is the maximum length of an id, in bytes.
const maxIDLength = 128

// GiveBack gives back n of the permits that the decision about the subject granted. Use it for permits that were
// certainly not used: to charge only what failed, say. It returns how many were given back.
//
// If a part of an id's permits is given back, asking again with the id is an *ArgumentError. See Giving back in the
// package documentation. Cost: one round trip.
func (b ZSetLog) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	return b.giveBack(ctx, subject, d, n)
}

// GiveBackID is GiveBack of all n permits of an id, without the decision: of a Wait, say, or if the reply was lost.
// Cost: one round trip.
func (b ZSetLog) GiveBackID(ctx context.Context, subject, id string, n int64) (returned int64, err error) {
	return b.giveBack(ctx, subject, Decision{Granted: true, Permits: n, ID: id}, n)
}

var zsetLog = algorithm{
	name: "ZSetLog", largerLimiters: "; ListLog, GCRA or SliceRing hold more",
	largerCalls: "; ListLog, GCRA or SliceRing take more",
	script:      &zsetLogV1, code: codeZSetLog, hasIDs: true, canBook: true, capacity: limitCapacity,
	setArgs: setZSetLogArgs, maxPermits: maxArgument(&zsetLogV1, "permits"),
	detail: zsetLogDetail, keys: onlyKey, makeReturn: zsetLogReturn,
}

// zsetLogDetail marks a repeat. What is charged now is the newest in the log, so the log is full again a window later.
func zsetLogDetail(c core, d Decision, _ *wire.Call, _ []int64) Decision {
	d.Repeated = d.Granted && d.ResetAfter != d.Wait+c.limit.Window
	return d
}

func setZSetLogArgs(c core, call *wire.Call, q question) {
	call.Args = append(call.Args,
		c.limit.Permits, c.limit.Window.Microseconds(), q.permits, q.maxWait.Microseconds(), q.id)
}

// zsetLogReturn finds the permits by their id.
func zsetLogReturn(c core, key string, d Decision, n int64) *wire.Call {
	return c.call(&zsetLogReturnV1, key, d.ID, n)
}
