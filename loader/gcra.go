package loader

import (
	"cmp"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// GCRA is a smooth rate with a burst: the continuously refilled token bucket. Permits come back one by one, Window /
// Permits apart, and up to Burst may be taken at once. Any interval of length d holds at most Burst + d * Permits /
// Window. Its state is one small string, whatever the limit. Limit and burst go up to 10^7. The zero GCRA is not ready
// for use: see Loader.GCRA.
type GCRA struct{ booker }

// GCRA returns the limiter of this name. Use it for an even rate, and for large limits in little memory. Call Check
// when the program starts. Cost: nothing is sent.
func (l *Loader) GCRA(name string, limit Limit, opts ...LimiterOption) GCRA {
	s := l.configure(&gcra, name, opts)
	return GCRA{booker{core{settings: s}.with(limit)}}
}

// With returns a copy with another limit. Use it if the limit depends on the customer or the plan. The new limit
// applies at once to what was granted before. For two windows of one subject use two limiters of different names: here
// both would fill the same bucket. Cost: nothing is sent.
func (b GCRA) With(limit Limit) GCRA { return GCRA{booker{b.with(limit)}} }

var gcra = algorithm{
	name: "GCRA", largerLimiters: "; SliceRing holds more",
	script: &gcraV1, code: codeGCRA, canBook: true, hasBurst: true, capacity: burstCapacity, keys: onlyKey,
	setArgs: setGCRAArgs, permitsAt: 3, maxPermits: maxArgument(&gcraV1, "permits"),
}

// burstCapacity is the capacity of a GCRA.
func burstCapacity(c core) int64 {
	if c.limit.Permits == 0 {
		return 0
	}
	return cmp.Or(c.limit.Burst, c.limit.Permits)
}

func setGCRAArgs(c core, call *wire.Call, q question) {
	call.Args = append(call.Args,
		c.limit.Permits, c.limit.Window.Microseconds(), cmp.Or(c.limit.Burst, c.limit.Permits),
		q.permits, q.maxWait.Microseconds())
}
