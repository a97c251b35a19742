package grpclimit

import (
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

	// Decisions are those of the limiters, in the order of the charges; a slot is first. If several limiters were asked
	// together and one denied, only those that denied are in it. A client that waited has none: see loader.Observe.
	Decisions []Decision

	// Degraded is true if the policy of a limiter decided, because Redis did not; Cause says why.
	Degraded bool
	Cause    error

	// Err is why there is no decision.
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
