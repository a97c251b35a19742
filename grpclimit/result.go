package grpclimit

import (
	"log/slog"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/loader"
)

// Outcome is what became of a call.
type Outcome int

const (
	// Allowed: the call went on. A Shadow may have denied: see Result.Decisions.
	Allowed Outcome = iota

	// Denied: a limiter denied. The code is RESOURCE_EXHAUSTED.
	Denied

	// NoKey: the call has no value for a key that refuses such calls. The code is INVALID_ARGUMENT.
	NoKey

	// Undecided: a limiter failed that has no policy for it, so the call was refused. The code is UNAVAILABLE.
	Undecided

	// Misconfigured: the interceptor is not right, as Check would have said. The code is INTERNAL.
	Misconfigured

	// CallerGone: the call ended before there was a decision. The code is CANCELED or DEADLINE_EXCEEDED.
	CallerGone
)

func (o Outcome) String() string {
	names := [...]string{"allowed", "denied", "no key", "undecided", "misconfigured", "caller gone"}
	if o < 0 || int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// Result is what was decided about a call: see Observe.
type Result struct {
	Outcome Outcome

	// Code is that of the refusal; OK if the call went on.
	Code codes.Code

	// Decisions are those of the limiters, in the order of the charges; slots are last. If several limiters were asked
	// together and one denied, only those that denied are in it. A client that waited has none: see loader.Observe.
	Decisions []Decision

	// Degraded is true if the policy of a limiter decided, because Redis did not; Cause says why.
	Degraded bool
	Cause    error

	// Err is why there is no decision. If the call was Denied because it costs more than a limit, it is
	// loader.ErrExceedsLimit.
	Err error
}

// Decision is the decision of one limiter about a call.
type Decision struct {
	loader.Decision
	Policy  string // the name of the limit
	Subject string
	Shadow  bool  // it was not enforced
	Slot    bool  // it is of a concurrency limiter
	Err     error // why a Shadow has no decision
}

// Denied returns the limits that denied, and in shadow those that would have.
func (r Result) Denied(shadow bool) (policies []string) {
	for _, d := range r.Decisions {
		if !d.Granted && d.Err == nil && d.Shadow == shadow {
			policies = append(policies, d.Policy)
		}
	}
	return policies
}

// LogValue is for log/slog: slog.Info("limited", "limit", result). It has the outcome, the limits that denied, whether
// a policy for failures decided, and the error. Subjects are not in it, because they may be personal data.
func (r Result) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("outcome", r.Outcome.String())}
	if denied := r.Denied(false); len(denied) > 0 {
		attrs = append(attrs, slog.String("denied", strings.Join(denied, ",")))
	}
	if denied := r.Denied(true); len(denied) > 0 {
		attrs = append(attrs, slog.String("shadow_denied", strings.Join(denied, ",")))
	}
	if r.Degraded {
		attrs = append(attrs, slog.Any("degraded", r.Cause))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	return slog.GroupValue(attrs...)
}
