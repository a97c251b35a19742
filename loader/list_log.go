package loader

import (
	"context"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// ListLog is a sliding-window log, exact to the microsecond: any interval of one window holds at most the limit. It is
// the default for exact limits. A permit takes about 10 bytes. The limit goes up to 1000000, the permits of one call up
// to 1000. The zero ListLog is not ready for use: see Loader.ListLog.
type ListLog struct{ booker }

// ListLog returns the limiter of this name. Use it for exact limits, unless you need a feature of another limiter. Call
// Check when the program starts. Cost: nothing is sent.
func (l *Loader) ListLog(name string, limit Limit, opts ...LimiterOption) ListLog {
	s := l.configure(&listLog, name, opts)
	return ListLog{booker{core{settings: s}.with(limit)}}
}

// With returns a copy with another limit. Use it if the limit depends on the customer or the plan. The new limit
// applies at once to what was granted before. For two windows of one subject use two limiters of different names, or a
// SliceRing: a shorter window removes permits that a longer one still has to count. Cost: nothing is sent.
func (b ListLog) With(limit Limit) ListLog { return ListLog{booker{b.with(limit)}} }

// GiveBack gives back n of the permits that the decision about the subject granted. Use it for permits that were
// certainly not used: to charge only what failed, say. It returns how many were given back.
//
// It gives back nothing if more than 1000 permits are counted behind them. Permits that have left their window, and
// that Redis has not removed yet, may be counted in the answer. See Giving back in the package documentation. Cost: one
// round trip.
func (b ListLog) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	return b.giveBack(ctx, subject, d, n)
}

var listLog = algorithm{
	name: "ListLog", largerLimiters: "; GCRA or SliceRing hold more", largerCalls: "; GCRA or SliceRing take more",
	script: &listLogV1, code: codeListLog, canBook: true, capacity: limitCapacity,
	setArgs: setListLogArgs, permitsAt: 2, maxPermits: maxArgument(&listLogV1, "permits"),
	keys: onlyKey, makeReturn: listLogReturn,
}

func setListLogArgs(c core, call *wire.Call, q question) {
	call.Args = append(call.Args,
		c.limit.Permits, c.limit.Window.Microseconds(), q.permits, q.maxWait.Microseconds())
}

// listLogReturn finds the permits by the moment for which they were granted.
func listLogReturn(c core, key string, d Decision, n int64) *wire.Call {
	return c.call(&listLogReturnV1, key, d.Now.Add(d.Wait).UnixMicro(), n)
}
