package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Option is an option of New, AllOf and PerRequest. Nil does nothing.
type Option func(*options)

type options struct {
	admit.Options[*http.Request]
	headers HeaderSet
	jitter  time.Duration
	refuse  Refusal
	observe []func(*http.Request, Result)
}

// LimiterBy chooses the limiter for each request: one with the limit of the customer's plan, say. It is for one
// limiter; PerRequest is for several. Check looks only at the limiter that New was given, so give it one of those that
// the function returns. It is not called for a request without a value for its key, to which IfEmpty of the Key
// applies. If the function returns nil, the request is refused with status 503, and Result.Err is ErrNoLimiter: a plan
// that is not known is not unlimited. For requests that are not limited see Skip. A limiter that is not ready for use,
// such as the zero value of a map, is refused with status 500, and logged: see Handler.
//
//	httplimit.LimiterBy(func(r *http.Request) loader.Limiter { return api.With(planOf(r)) })
func LimiterBy(limiter func(*http.Request) loader.Limiter) Option {
	return func(o *options) { o.LimiterBy = limiter }
}

// Cost sets how many permits a request costs; without it, 1. Use it where one request counts for several. It is for one
// limiter; Charge.N is for several. A request that costs 0 is not limited. One that costs more than the limit is denied
// without Retry-After, because waiting does not help.
func Cost(permits func(*http.Request) int64) Option {
	return func(o *options) { o.Cost = permits }
}

// Skip lets requests through without asking a limiter: health checks, say.
func Skip(skip func(*http.Request) bool) Option {
	return func(o *options) { o.Skip = skip }
}

// CountIf counts only requests whose response has a certain status: failed logins, say. A request is charged before the
// handler is called, so that many at once cannot pass the limit: requests in flight count too, and the RateLimit
// headers include the charge. If count returns false for the status, the charge is given back when the handler has
// returned, also if the client has left. If the handler panics, or takes the connection over (Hijack), the request
// counts. Limiters that cannot give back are an error: see Check. What a fallback granted is not given back.
//
//	httplimit.CountIf(func(status int) bool { return status >= 400 })
func CountIf(count func(status int) bool) Option {
	return func(o *options) { o.CountIf = count }
}

// Ban refuses everything from who has been refused too often: while the limiter of refusals is full for the subject, no
// other limiter is charged. Each request that a limiter of the Middleware denies is one permit of it, so with 5 in an
// hour a subject that was refused 5 times in any hour is banned until one of these refusals is an hour old. Retry-After
// says when that is, and the policy in headers and body is the name of that limiter. To lift a ban, reset the subject
// in it. In Shadow a ban is only reported. If the limiter of refusals has no fallback, requests are undecided while
// Redis does not decide.
//
// Cost: a call beside those of the other limiters, at the same time; one more for a request that is refused; that call
// alone for one that is banned.
//
//	httplimit.Ban(limits.ListLog("login-ban", loader.Limit{Permits: 5, Window: time.Hour}))
func Ban(refusals loader.Limiter) Option {
	return func(o *options) { o.Options.Ban = refusals }
}

// Delay holds a request that would be refused until its permits come, if that is within d: a short burst is served a
// little late. One limiter that can book (ListLog, ZSetLog, GCRA, TokenBucket) gives each request a time of its own in
// one round trip; any other, or several, are asked again when they say. With several, those that deny have to agree. If
// the client leaves, what was charged is given back where the limiter can. Keep d below the timeouts of clients and
// proxies, and below http.Server.WriteTimeout. In whole microseconds; see MaxHeld. In Shadow nothing is held.
func Delay(d time.Duration) Option {
	return func(o *options) { o.Options.Delay = d }
}

// MaxHeld sets how many requests of the Middleware may be held at once, 1 or more, by Delay or while they are asked
// about. The default is 1000. Further ones are refused as without Delay.
func MaxHeld(n int) Option {
	return func(o *options) {
		if o.Options.MaxHeld = int64(n); n < 1 {
			o.Err = cmp.Or(o.Err, fmt.Errorf("MaxHeld %d: want 1 or more", n))
		}
	}
}

// Shadow decides and charges, but lets every request through. Use it to try a limit before it is enforced: Observe and
// the loader's Observer are told of denials. RateLimit headers are sent only with ShadowHeaders.
//
// If there are other charges that are enforced, those in shadow are asked after they have granted, in a second round
// trip, and each by itself.
func Shadow() Option {
	return func(o *options) { o.Shadow = true }
}

// Slots holds a slot of a concurrency limiter while the handler runs; if it takes the connection over (Hijack), until
// that connection is closed, or a garbage collection finds that nobody has it any more. If the handler ends by a panic,
// its slot ends. A request that gets no slot is denied, and what it was charged is given back where the limiter can. It
// may be given several times.
//
// If the slot is lost, the request's context ends: see loader.Slot. A connection that was taken over stays open then.
// For a request that is denied, Retry-After is 1 s and the jitter, because nobody knows when a slot comes free.
func Slots(limiter loader.Concurrency, key Key) Option {
	return func(o *options) {
		o.Slots = append(o.Slots, admit.Slots[*http.Request]{Limiter: limiter, Key: key.key})
	}
}

// Budgets reserves an estimate of a budget before the handler runs: see loader.Budget. A request that the budget denies
// is answered as one that a limiter denies. The handler says with Settle what was used, and the budget is settled when
// it has returned, also after a panic, and in the background while Redis is down: see loader.Budget.Reserved. If it
// says nothing, the estimate stays charged; if it does not run, the estimate is given back. An estimate of 0 reserves
// nothing. It may be given several times, for budgets of the same unit: Settle is for all of them.
//
//	limit := httplimit.AllOf(limits, nil, httplimit.Budgets(tokens, customer, estimate))
//	http.Handle("POST /complete", limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		used := generate(w, r)
//		httplimit.Settle(r.Context(), used)
//	})))
//
// Cost: one round trip for each budget before the handler, and one after it.
func Budgets(budget loader.Budget, key Key, estimate func(*http.Request) int64) Option {
	return func(o *options) {
		o.Budgets = append(o.Budgets, admit.Budget[*http.Request]{Budget: budget, Key: key.key, Estimate: estimate})
	}
}

// RetryJitter adds a random time of 0 to d to the time in Retry-After, before it is rounded up to whole seconds, so
// that clients that were refused together do not come back together. d is up to a day.
func RetryJitter(d time.Duration) Option {
	return func(o *options) {
		if o.jitter = d; d < 0 || d > 24*time.Hour {
			o.Err = errors.Join(o.Err, fmt.Errorf("RetryJitter %v: want 0 to 24h", d))
		}
	}
}

// Refusal writes the response to a request that is refused. The headers of the limits are set already.
type Refusal func(w http.ResponseWriter, r *http.Request, result Result)

// Refuse sets how refusals are answered, in place of WriteProblem. The function may pass results that it does not
// want on to WriteProblem.
func Refuse(refuse Refusal) Option {
	return func(o *options) { o.refuse = refuse }
}

// Observe sets a function that is told what was decided about each request that is not skipped, before the handler is
// called. Use it for logs: a Result is a slog.LogValuer. For metrics of the limiters use loader.Observe.
//
//	httplimit.Observe(func(r *http.Request, result httplimit.Result) {
//		if result.Degraded || result.Err != nil {
//			slog.WarnContext(r.Context(), "limit not checked", "limit", result)
//		}
//	})
//
// It may be given several times: all of the functions are told, in their order.
func Observe(observe func(*http.Request, Result)) Option {
	return func(o *options) {
		if observe != nil {
			o.observe = append(o.observe, observe)
		}
	}
}

// Headers sets which headers say what is left of the limits, on all responses. The default is Draft11; 0 sends none.
// Retry-After is sent all the same, with every 429 for which waiting helps.
func Headers(set HeaderSet) Option {
	return func(o *options) { o.headers = set }
}

// jitterTime returns a random time to add.
func (o *options) jitterTime() time.Duration {
	if o.jitter <= 0 {
		return 0
	}
	return rand.N(o.jitter + 1)
}
