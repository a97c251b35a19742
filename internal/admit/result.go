package admit

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Outcome is what became of a request.
type Outcome int

// The outcomes. The doors say which status they have.
const (
	Allowed       Outcome = iota
	Denied                // by a limiter
	NoKey                 // no value for a key that refuses such requests
	Undecided             // a limiter failed that has no policy for it
	Misconfigured         // as Check would have said
	CallerGone            // the context ended before the decision
)

func (o Outcome) String() string {
	names := [...]string{"allowed", "denied", "no key", "undecided", "misconfigured", "caller gone"}
	if o < 0 || int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// Result is what was decided about a request.
type Result struct {
	Outcome    Outcome
	RetryAfter time.Duration // of a denial; 0: waiting does not help
	Decisions  []Decision    // those that are enforced, in the order of the charges, those in shadow, budgets, slots
	Degraded   bool          // the policy of a limiter that is enforced decided, because Redis did not
	Cause      error         // why
	Err        error         // why there is no decision; loader.ErrExceedsLimit of a denial because of the cost
}

// Decision is the decision of one limiter about a request.
type Decision struct {
	loader.Decision
	Policy  string // the name that clients see
	Subject string
	Shadow  bool  // it was not enforced
	Slot    bool  // it is of a concurrency limiter
	Err     error // why there is no decision; loader.ErrExceedsLimit if it denied because of the cost
}

// Denies reports whether the limiter denied.
func (d Decision) Denies() bool {
	return !d.Granted && (d.Err == nil || errors.Is(d.Err, loader.ErrExceedsLimit))
}

// Denied returns the policies that denied, and in shadow would have.
func (r Result) Denied(shadow bool) (policies []string) {
	for _, d := range r.Decisions {
		if d.Denies() && d.Shadow == shadow {
			policies = append(policies, d.Policy)
		}
	}
	return policies
}

// Decided returns the decision that decided; the zero Decision if no limiter that is enforced was asked.
func (r Result) Decided() Decision {
	decided := slices.DeleteFunc(slices.Clone(r.Decisions), func(d Decision) bool {
		return d.Shadow || d.Granted != (r.Outcome == Allowed)
	})
	if len(decided) == 0 {
		return Decision{}
	}
	return slices.MinFunc(decided, func(a, b Decision) int {
		if r.Outcome == Allowed {
			return cmp.Compare(a.Remaining, b.Remaining)
		}
		return cmp.Compare(b.Wait, a.Wait)
	})
}

// LogValue has the outcome, the policies that denied, whether a policy for failures decided, and the error. Subjects
// are not in it, because they may be personal data.
func (r Result) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("outcome", r.Outcome.String())}
	if denied := r.Denied(false); len(denied) > 0 {
		attrs = append(attrs, slog.String("denied", strings.Join(denied, ",")))
	}
	if denied := r.Denied(true); len(denied) > 0 {
		attrs = append(attrs, slog.String("shadow_denied", strings.Join(denied, ",")))
	}
	if r.RetryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_after", r.RetryAfter))
	}
	if r.Degraded {
		attrs = append(attrs, slog.Any("degraded", r.Cause))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	return slog.GroupValue(attrs...)
}

// ErrNoLimiter is in the error of a request for which the program chose no limiter.
var ErrNoLimiter = errors.New("no limiter for the request")

// configError is an error that Check returns, or would return for the charges of a request.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

// isMisconfigured reports whether a request is refused whatever Redis says.
func isMisconfigured(err error) bool {
	_, config := errors.AsType[*configError](err)
	_, argument := errors.AsType[*loader.ArgumentError](err)
	return config || argument || errors.Is(err, errors.ErrUnsupported)
}
