package httplimit

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/admit"
)

// Outcome is what the middleware did with a request.
type Outcome = admission.Outcome

const (
	// Allowed: the handler was called. A Shadow may have denied: see Result.
	Allowed = admission.Allowed

	// Denied: a limiter denied. The status is 429.
	Denied = admission.Denied

	// NoKey: the request has no value for a key that refuses such requests. The status is 400.
	NoKey = admission.NoKey

	// Undecided: a limiter failed that has no fallback, or no limiter was chosen. The status is 503.
	Undecided = admission.Undecided

	// Misconfigured: the middleware is not right, as Check would have said. The status is 500.
	Misconfigured = admission.Misconfigured

	// CallerGone: the request's context ended before the handler was called. The status is 499, which nobody receives,
	// if the client left, and 503 if a deadline passed.
	CallerGone = admission.CallerGone
)

// ErrNoLimiter is Result.Err of a request for which LimiterBy or PerRequest returned nil: its plan is not known, say.
var ErrNoLimiter = admission.ErrNoLimiter

// Result is what was decided about a request: see Observe and Refuse. RetryAfter is in whole seconds, as in the header.
type Result struct {
	admission.Result

	// Status of the refusal; 0 if the handler was called.
	Status int
}

// Decision is the decision of one limiter about a request. Its Policy is the name in headers.
type Decision = admission.Decision

// statusClientGone is what nginx logs for a client that has left.
const statusClientGone = 499

// statusOf returns the status of a refusal; 0 of a request that goes on.
func statusOf(r admission.Result) int {
	switch r.Outcome {
	case Allowed:
		return 0
	case Denied:
		return http.StatusTooManyRequests
	case NoKey:
		return http.StatusBadRequest
	case Misconfigured:
		return http.StatusInternalServerError
	case CallerGone:
		if r.Err == nil {
			return statusClientGone
		}
	}
	return http.StatusServiceUnavailable
}

// result is a decision as this package tells it, with a random time to add to RetryAfter.
func (o *options) result(decided admission.Result) Result {
	if decided.RetryAfter > 0 {
		decided.RetryAfter = time.Duration(admit.Seconds(decided.RetryAfter+o.jitterTime())) * time.Second
	}
	return Result{Result: decided, Status: statusOf(decided)}
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
