package loader

import (
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/bindings"
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

var listLog = kind{
	name: "ListLog", largerLimiters: "; GCRA or SliceRing hold more", largerCalls: "; GCRA or SliceRing take more",
	script: &sluice.ListLogV1, code: codeListLog, canBook: true, capacity: limitCapacity,
	makeWords: listLogWords, keys: onlyKey,
}

func listLogWords(c core, key string, q question) []any {
	return bindings.ListLogV1Args{
		Log: key, Limit: c.limit.Permits, Window: c.limit.Window, Permits: q.permits, MaxWait: q.maxWait,
	}.Words()
}
