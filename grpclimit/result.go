package grpclimit

import (
	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/internal/admit"
)

// Outcome is what became of a call.
type Outcome = admit.Outcome

const (
	// Allowed: the call went on. A Shadow may have denied: see Result.
	Allowed = admit.Allowed

	// Denied: a limiter denied. The code is RESOURCE_EXHAUSTED, or DEADLINE_EXCEEDED if a client would have waited too
	// long.
	Denied = admit.Denied

	// NoKey: the call has no value for a key that refuses such calls. The code is INVALID_ARGUMENT.
	NoKey = admit.NoKey

	// Undecided: a limiter failed that has no policy for it, or no limiter was chosen. The code is UNAVAILABLE.
	Undecided = admit.Undecided

	// Misconfigured: the interceptor is not right, as Check would have said. The code is INTERNAL.
	Misconfigured = admit.Misconfigured

	// CallerGone: the call ended before there was a decision. The code is CANCELED or DEADLINE_EXCEEDED.
	CallerGone = admit.CallerGone
)

// ErrNoLimiter is Result.Err of a call for which LimiterBy or PerRequest returned nil: its plan is not known, say.
var ErrNoLimiter = admit.ErrNoLimiter

// Result is what was decided about a call: see Observe. Its other fields are:
//
//	Outcome     Outcome
//	RetryAfter  time.Duration  of a denial; 0: waiting does not help
//	Decisions   []Decision     of the limiters that answered: the enforced ones, in the order of the charges,
//	                           those in shadow, budgets, and slots. If one of several limiters that were asked together
//	                           denied, only the denials are in it. One limiter for which a client waited has none.
//	Degraded    bool           the policy of a limiter decided, because Redis did not
//	Cause       error          why
//	Err         error          why there is no decision; nil if the caller cancelled, and loader.ErrExceedsLimit of a
//	                           denial because the call costs more than the limit
//
// Denied(shadow) returns the limits that denied, or in shadow would have. Decided() returns the Decision that
// decided, the zero one if no limiter that is enforced was asked. LogValue is for log/slog:
// slog.Info("limited", "limit", result). Subjects are not in it, because they may be personal data.
type Result struct {
	admit.Result

	// Code of the refusal; OK if the call went on.
	Code codes.Code
}

// Decision is the decision of one limiter about a call. It has the fields of loader.Decision, and:
//
//	Policy   string  the name of the limit
//	Subject  string
//	Shadow   bool    it was not enforced
//	Slot     bool    it is of a concurrency limiter
//	Err      error   why there is no decision; loader.ErrExceedsLimit if it denied because of the cost
//
// Denies() reports whether the limiter denied: not if it failed.
type Decision = admit.Decision
