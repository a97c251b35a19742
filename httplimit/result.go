package httplimit

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
)

// Outcome is what the middleware did with a request.
type Outcome = admit.Outcome

const (
	// Allowed: the handler was called. A Shadow may have denied: see Result.
	Allowed = admit.Allowed

	// Denied: a limiter denied. The status is 429.
	Denied = admit.Denied

	// NoKey: the request has no value for a key that refuses such requests. The status is 400.
	NoKey = admit.NoKey

	// Undecided: a limiter failed that has no policy for it, or no limiter was chosen. The status is 503.
	Undecided = admit.Undecided

	// Misconfigured: the middleware is not right, as Check would have said. The status is 500.
	Misconfigured = admit.Misconfigured

	// CallerGone: the request's context ended before the handler was called. The status is 499, which nobody receives,
	// if the client left, and 503 if a deadline passed.
	CallerGone = admit.CallerGone
)

// ErrNoLimiter is Result.Err of a request for which LimiterBy or PerRequest returned nil: its plan is not known, say.
var ErrNoLimiter = admit.ErrNoLimiter

// statusClientGone is what nginx logs for a client that has left.
const statusClientGone = 499

// Result is what was decided about a request: see Observe and Refuse. Its other fields are:
//
//	Outcome     Outcome
//	RetryAfter  time.Duration  as in the header, in whole seconds; 0 if there is none
//	Decisions   []Decision     of the limiters that answered: the enforced ones, in the order of the charges,
//	                           those in shadow, budgets, and slots. If one of several limiters that were asked together
//	                           denied, only the denials are in it.
//	Degraded    bool           the policy of a limiter decided, because Redis did not
//	Cause       error          why
//	Err         error          why there is no decision; nil if the client left, and loader.ErrExceedsLimit of a denial
//	                           because the request costs more than the limit
//
// Denied(shadow) returns the policies that denied, or in shadow would have. Decided() returns the Decision that
// decided, the zero one if no limiter that is enforced was asked. LogValue is for log/slog:
// slog.Info("limited", "limit", result). Subjects are not in it, because they may be personal data.
type Result struct {
	admit.Result

	// Status of the refusal; 0 if the handler was called.
	Status int
}

// Decision is the decision of one limiter about a request. It has the fields of loader.Decision, and:
//
//	Policy   string  the name in headers
//	Subject  string
//	Shadow   bool    it was not enforced
//	Slot     bool    it is of a concurrency limiter
//	Err      error   why there is no decision; loader.ErrExceedsLimit if it denied because of the cost
//
// Denies() reports whether the limiter denied: not if it failed.
type Decision = admit.Decision

// result is a decision as this package tells it, with a random time to add to RetryAfter.
func (o *options) result(decided admit.Result) Result {
	result := Result{Result: decided}
	if result.RetryAfter > 0 {
		result.RetryAfter = time.Duration(seconds(result.RetryAfter+o.jitterTime())) * time.Second
	}
	result.Status = [...]int{0, http.StatusTooManyRequests, http.StatusBadRequest, http.StatusServiceUnavailable,
		http.StatusInternalServerError, statusClientGone}[result.Outcome]
	if result.Outcome == CallerGone && result.Err != nil {
		result.Status = http.StatusServiceUnavailable
	}
	return result
}

// violated returns what the headers call the windows that denied: of several those with the fewest permits remaining.
func violated(decisions []Decision) (names []string) {
	for _, d := range decisions {
		if !d.Denies() || d.Shadow {
			continue
		}
		items := appendItems(nil, d)
		fewest := slices.MinFunc(items, func(a, b item) int { return cmp.Compare(a.remaining, b.remaining) })
		for _, it := range items {
			if it.remaining == fewest.remaining {
				names = append(names, it.policy)
			}
		}
	}
	return names
}
