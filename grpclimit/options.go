package grpclimit

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Option is an option of New, AllOf and PerRequest. Nil does nothing.
type Option func(*options)

type options struct {
	admit.Options[*Call]
	perMessage bool
	observe    []func(*Call, Result)
}

// LimiterBy chooses the limiter for each call: one with the limit of the customer's plan, say, or one for each method
// (see PerMethod). Use it with one limiter; PerRequest is for several. The argument of New stands for the limiters that
// the function returns where they are checked. It is not called for a call without a value for its key, to which
// IfEmpty of the Key applies. If it returns nil, the call is refused with UNAVAILABLE, and Result.Err is
// ErrNoLimiter: a plan that is not known is not unlimited. For calls that are not limited see Skip.
//
//	grpclimit.LimiterBy(func(c *grpclimit.Call) loader.Limiter { return api.With(planOf(c.Context())) })
func LimiterBy(limiter func(*Call) loader.Limiter) Option {
	return func(o *options) { o.LimiterBy = limiter }
}

// Cost sets how many permits a call costs; without it, 1. Use it where one call counts for several. A call that costs 0
// is not limited. One that costs more than the limit is denied without RetryInfo. It is for one limiter; Charge.N is
// for several.
func Cost(permits func(*Call) int64) Option {
	return func(o *options) { o.Cost = permits }
}

// Skip lets calls through without asking a limiter: health checks, say. They take no slot either.
func Skip(skip func(*Call) bool) Option {
	return func(o *options) { o.Skip = skip }
}

// CountIf counts only calls whose result has a certain code: failed logins, say. A call is charged before the handler
// runs, so that many at once cannot pass the limit, and if count returns false for the code, it is given back before
// the call ends. If the handler panics, the call counts. Limiters that cannot give back are an error: see Check. What a
// fallback (FailLocal) granted is not given back. It is for servers, and not for PerMessage.
//
//	grpclimit.CountIf(func(code codes.Code) bool { return code == codes.Unauthenticated })
func CountIf(count func(codes.Code) bool) Option {
	return func(o *options) { o.CountIf = byCode(count) }
}

// Ban refuses everything from who has been refused too often: while the limiter of refusals is full for the subject, no
// other limiter is charged. Each call that a limiter of the Interceptor denies is one permit of it: see httplimit.Ban.
// It is for servers.
//
// Cost: a call beside those of the other limiters, at the same time; one more for a call that is refused; that call
// alone for one that is banned.
func Ban(refusals loader.Limiter) Option {
	return func(o *options) { o.Options.Ban = refusals }
}

// Delay holds a call on a server that would be refused until its permits come, if that is within d: see
// httplimit.Delay. At most 1000 calls of the Interceptor are held at once.
func Delay(d time.Duration) Option {
	return func(o *options) { o.Options.Delay = d }
}

// Shadow decides and charges, but lets every call through, and a client does not wait. Use it to try a limit before it
// is enforced: Observe and the loader's Observer are told of denials.
//
// If there are other charges that are enforced, those in shadow are asked after they have granted, in a second round
// trip, and each by itself.
func Shadow() Option {
	return func(o *options) { o.Shadow = true }
}

// PerMessage charges each message that the caller sends on a stream, in place of the beginning of the stream. What the
// server sends is not counted. On a server, RecvMsg returns the denial, the message is lost, and nothing is received
// after it. On a client, SendMsg waits. Unary calls are charged as without it. To limit how often streams begin as
// well, chain another Interceptor.
func PerMessage() Option {
	return func(o *options) { o.perMessage, o.NoCount = true, "with PerMessage: a message has no result" }
}

// Slots holds a slot of a concurrency limiter while a call runs, or a stream is open. On a server, a call that gets no
// slot is denied, and what it was charged is given back where the limiter can. On a client, it waits for one. It may be
// given several times.
//
// If the slot is lost, the call's context ends: see loader.Slot. For a call that is denied, RetryInfo says 1 s, because
// nobody knows when a slot comes free.
func Slots(limiter loader.Concurrency, key Key) Option {
	return func(o *options) { o.Slots = append(o.Slots, admit.Slots[*Call]{Limiter: limiter, Key: key.key}) }
}

// Budgets reserves an estimate of a budget before a call goes on: see loader.Budget. A call that the budget denies is
// refused as by a limiter, on a client too. The handler, or the caller of a client, says with Settle what was used, and
// the budget is settled when the call has ended, also after a panic, and in the background while Redis is down: see
// loader.Budget.Reserved. If nothing is said, the estimate stays charged; if the handler does not run, the estimate is
// given back. An estimate of 0 reserves nothing. It may be given several times, for budgets of the same unit: Settle is
// for all of them.
//
// Cost: one round trip for each budget before the call, and one after it.
func Budgets(budget loader.Budget, key Key, estimate func(*Call) int64) Option {
	return func(o *options) {
		o.Budgets = append(o.Budgets, admit.Budget[*Call]{Budget: budget, Key: key.key, Estimate: estimate})
	}
}

// Observe sets a function that is told what was decided about each call that is not skipped, and with PerMessage about
// each message, before it goes on. Use it for logs: a Result is a slog.LogValuer. For metrics of the limiters use
// loader.Observe.
//
//	grpclimit.Observe(func(c *grpclimit.Call, result grpclimit.Result) {
//		if result.Degraded || result.Err != nil {
//			slog.WarnContext(c.Context(), "limit not checked", "method", c.Method, "limit", result)
//		}
//	})
//
// It may be given several times: all of the functions are told, in their order.
func Observe(observe func(*Call, Result)) Option {
	return func(o *options) {
		if observe != nil {
			o.observe = append(o.observe, observe)
		}
	}
}

// What PerMethod keeps. Only a server for unknown services can see more methods, or longer ones.
const (
	maxMethods  = 10_000
	methodBytes = 256
)

// PerMethod is for LimiterBy: it has a limiter for each method. It makes each once, with the full method
// ("/shop.Orders/Place"), which may be the name of a limiter or a part of it. Where the limit is the same for all, and
// only the counts are each method's own, KeyByMethod is enough.
//
//	grpclimit.LimiterBy(grpclimit.PerMethod(func(method string) loader.Limiter {
//		return limits.ListLog("grpc"+method, loader.PerMinute(60))
//	}))
func PerMethod(newLimiter func(method string) loader.Limiter) func(*Call) loader.Limiter {
	var mu sync.Mutex
	made := map[string]loader.Limiter{}
	return func(c *Call) loader.Limiter {
		mu.Lock()
		defer mu.Unlock()
		limiter, ok := made[c.Method]
		if ok {
			return limiter
		}
		limiter = newLimiter(c.Method)
		if len(made) < maxMethods && len(c.Method) <= methodBytes {
			made[c.Method] = limiter
		}
		return limiter
	}
}
