package grpclimit

import (
	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/admission"
)

// Outcome is what became of a call.
type Outcome = admission.Outcome

const (
	// Allowed: the call went on. A Shadow may have denied: see Result.
	Allowed = admission.Allowed

	// Denied: a limiter denied. The code is RESOURCE_EXHAUSTED, or DEADLINE_EXCEEDED if a client would have waited too
	// long.
	Denied = admission.Denied

	// NoKey: the call has no value for a key that refuses such calls. The code is INVALID_ARGUMENT.
	NoKey = admission.NoKey

	// Undecided: a limiter failed that has no fallback, or no limiter was chosen. The code is UNAVAILABLE.
	Undecided = admission.Undecided

	// Misconfigured: the interceptor is not right, as Check would have said. The code is INTERNAL.
	Misconfigured = admission.Misconfigured

	// CallerGone: the call ended before there was a decision. The code is CANCELED or DEADLINE_EXCEEDED.
	CallerGone = admission.CallerGone
)

// ErrNoLimiter is Result.Err of a call for which LimiterBy or PerRequest returned nil: its plan is not known, say.
var ErrNoLimiter = admission.ErrNoLimiter

// Result is what was decided about a call: see Observe.
type Result struct {
	admission.Result

	// Code of the refusal; OK if the call went on.
	Code codes.Code
}

// Decision is the decision of one limiter about a call. Its Policy is the name in QuotaFailure.
type Decision = admission.Decision
