package loader

import (
	"context"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Quota limits what a period of a calendar may hold: a day, a month in Berlin, from the 15th to the 14th. Use it where
// a contract says so. A period is fixed: around its end up to twice the limit may be granted at once. Where that
// matters, take a window, of a ListLog or a SliceRing, or both together in an All.
//
// Redis's clock chooses the period, so processes whose clocks differ at midnight agree: they may differ by up to a
// period. The state is one small string, whatever the limit, which goes up to 10^12. It cannot book: Wait sleeps until
// the period ends, and asks again. The zero Quota is not ready for use: see Loader.Quota.
type Quota struct{ core }

// Quota returns the limiter of this name: so many permits in each period, such as Monthly(loc). Call Check when the
// program starts. Cost: nothing is sent.
func (l *Loader) Quota(name string, permits int64, period Period, opts ...LimiterOption) Quota {
	s := l.configure(&quota, name, opts)
	return Quota{core{settings: s}.withPeriod(permits, period)}
}

// With returns a copy with another number of permits and another period. Use it if they depend on the customer: Between
// is the period of a bill. Both apply at once to what the period holds, if the new period has begun no later than the
// one that is stored; an earlier one is over. Cost: nothing is sent.
func (q Quota) With(permits int64, period Period) Quota { return Quota{q.withPeriod(permits, period)} }

// GiveBack gives back n of the permits that the decision about the subject granted. Use it for permits that were
// certainly not used: to charge only what failed, say. It returns how many were given back: none of a period that is
// over. See Giving back in the package documentation. Cost: one round trip.
func (q Quota) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	return q.giveBack(ctx, subject, d, n)
}

// Report charges n permits, 0 to 10^12, whatever the period holds: see SliceRing.Report. Cost: one round trip.
func (q Quota) Report(ctx context.Context, subject string, n int64) (Decision, error) {
	return q.report(ctx, subject, n)
}

func (c core) withPeriod(permits int64, period Period) core {
	c.limit, c.period = Limit{Permits: permits}, period
	if c.settings == nil {
		return c
	}
	c.limitErr = nil
	switch upper, want := quota.maxArgument("limit"), period.check(time.Now()); {
	case permits < 0:
		c.limitErr = c.errArgument("permits", permits, "0 or more")
	case permits > upper:
		c.limitErr = c.errArgument("permits", permits, "10^12 or less")
	case want != "":
		c.limitErr = c.errArgument("period", "of a calendar", want)
	}
	return c
}

var quota = algorithm{
	name:   "Quota",
	script: &quotaV1, code: codeQuota, capacity: limitCapacity, setArgs: setQuotaArgs, permitsAt: 1, moreFields: 3,
	maxPermits: maxArgument(&quotaV1, "permits"), detail: quotaDetail, keys: onlyKey, makeReturn: quotaReturn,
	over:   func(c core, reply []int64) int64 { return reply[minReplyFields+2] - c.limit.Permits },
	unused: []string{"FailLocal"}, // it limits a rate
}

func setQuotaArgs(c core, call *wire.Call, q question) {
	call.Args = append(call.Args, c.limit.Permits, q.permits, q.reported)
	for _, at := range c.period.moments(time.Now()) {
		call.Args = append(call.Args, at.UnixMicro())
	}
}

// quotaDetail adds the period to a decision.
func quotaDetail(_ core, d Decision, _ *wire.Call, reply []int64) Decision {
	begin, end := reply[minReplyFields], reply[minReplyFields+1]
	d.PeriodBegin = time.UnixMicro(begin)
	d.Limit.Window = time.Duration(end-begin) * time.Microsecond
	return d
}

// quotaReturn finds the permits by the period in which they count.
func quotaReturn(c core, key string, d Decision, n int64) *wire.Call {
	return c.call(&quotaReturnV1, key, d.PeriodBegin.UnixMicro(), n)
}
