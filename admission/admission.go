// Package admission is what httplimit, grpclimit and policy say of a request that they have decided about: its outcome,
// and what each limiter has answered. It is one set of types, so that a program logs requests of HTTP and of gRPC by
// one function.
package admission

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Outcome is what became of a request. Which status it has, packages httplimit and grpclimit say.
type Outcome int

const (
	Allowed       Outcome = iota // the request goes on; a limit in shadow may have denied
	Denied                       // a limiter denied
	NoKey                        // the request has no value for a key that refuses such requests
	Undecided                    // a limiter failed that has no fallback, or no limiter was chosen
	Misconfigured                // a limiter, key or option is wrong, as Check would have said
	CallerGone                   // the request's context ended before the decision
)

// String returns the outcome in lower case: "caller gone".
func (o Outcome) String() string {
	switch o {
	case Allowed:
		return "allowed"
	case Denied:
		return "denied"
	case NoKey:
		return "no key"
	case Undecided:
		return "undecided"
	case Misconfigured:
		return "misconfigured"
	case CallerGone:
		return "caller gone"
	}
	return "unknown"
}

// ErrNoLimiter is in the error of a request for which the program chose no limiter: its plan is not known, say.
var ErrNoLimiter = errors.New("no limiter for the request")

// Result is what was decided about a request.
type Result struct {
	Outcome Outcome

	// RetryAfter is the time until it is worth to come back, of a denial. 0: waiting does not help.
	RetryAfter time.Duration

	// Decisions is those of the limiters that answered: the enforced ones, in the order of the charges, those in
	// shadow, budgets, and slots. If one of several limiters that were asked together denied, only the denials are in
	// it. One limiter for which a client waited has none.
	Decisions []Decision

	// Degraded is true if the fallback of a limiter that is enforced decided, because Redis did not. Cause is why.
	Degraded bool
	Cause    error

	// Err is why there is no decision; nil if the caller left. Of a denial because the request costs more than the
	// limit it is loader.ErrExceedsLimit.
	Err error

	// Missing is, with the outcome NoKey, the policy without a value for its key; "" if it is a slot's or a budget's.
	Missing string
}

// Decision is the decision of one limiter about a request.
type Decision struct {
	loader.Decision

	Policy  string // the name that clients see
	Subject string
	Shadow  bool // it was not enforced
	Slot    bool // it is of a concurrency limiter

	// Err is why there is no decision, and loader.ErrExceedsLimit if it denied because of the cost.
	Err error
}

// Denies reports whether the limiter denied: not if it failed.
func (d Decision) Denies() bool {
	return !d.Granted && (d.Err == nil || errors.Is(d.Err, loader.ErrExceedsLimit))
}

// Denied returns the policies that denied, or in shadow would have.
func (r Result) Denied(shadow bool) (policies []string) {
	for _, d := range r.Decisions {
		if d.Denies() && d.Shadow == shadow {
			policies = append(policies, d.Policy)
		}
	}
	return policies
}

// Decided returns the decision that decided: of several denials the one with the longest Wait, of grants the one with
// the fewest permits remaining. It is the zero Decision if no limiter that is enforced was asked.
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

// LogValue is for log/slog: slog.Info("limited", "limit", result). It has the outcome, the policies that denied,
// whether a fallback decided, and the error. Subjects are not in it, because they may be personal data.
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
