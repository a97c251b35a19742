package httplimit

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Outcome is what the middleware did with a request.
type Outcome int

const (
	// Allowed: the handler was called. A Shadow may have denied: see Result.Decisions.
	Allowed Outcome = iota

	// Denied: a limiter denied. The status is 429.
	Denied

	// NoKey: the request has no value for a key that refuses such requests. The status is 400.
	NoKey

	// Undecided: a limiter failed that has no policy for it, so the request was refused. The status is 503.
	Undecided

	// Misconfigured: the middleware is not right, as Check would have said. The status is 500.
	Misconfigured

	// ClientGone: the client left before the handler was called. The status is 499, which nobody receives.
	ClientGone
)

func (o Outcome) String() string {
	names := [...]string{"allowed", "denied", "no key", "undecided", "misconfigured", "client gone"}
	if o < 0 || int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// status returns the status of a refusal.
func (o Outcome) status() int {
	return [...]int{0, http.StatusTooManyRequests, http.StatusBadRequest, http.StatusServiceUnavailable,
		http.StatusInternalServerError, statusClientGone}[o]
}

// statusClientGone is what nginx logs for a client that has left.
const statusClientGone = 499

// Result is what was decided about a request: see Observe and Refuse.
type Result struct {
	Outcome Outcome

	// Status is that of the refusal; 0 if the handler was called.
	Status int

	// RetryAfter is that of the header, in whole seconds; 0 if there is none.
	RetryAfter int64

	// Decisions are those of the limiters that answered: those that are enforced, in the order of the charges, those in
	// shadow, and the slots. If one of several limiters that were asked together denied, only those that denied are in it.
	Decisions []Decision

	// Degraded is true if the policy of a limiter decided, because Redis did not; Cause says why.
	Degraded bool
	Cause    error

	// Err is why there is no decision. It is nil if the client left. If the request was Denied because it costs more than
	// the limit, it is loader.ErrExceedsLimit. The errors of limiters in shadow are in Decisions.
	Err error
}

// Decision is the decision of one limiter about a request.
type Decision struct {
	loader.Decision
	Policy  string // the name in headers
	Subject string
	Shadow  bool  // it was not enforced
	Slot    bool  // it is of a concurrency limiter
	Err     error // why a Shadow has no decision; loader.ErrExceedsLimit if it denied because of the cost
}

// Denied returns the policies that denied, and in shadow those that would have.
func (r Result) Denied(shadow bool) (policies []string) {
	for _, d := range r.Decisions {
		if d.denied() && d.Shadow == shadow {
			policies = append(policies, d.Policy)
		}
	}
	return policies
}

func (d *Decision) denied() bool {
	return !d.Granted && d.Err == nil || errors.Is(d.Err, loader.ErrExceedsLimit)
}

// violated returns what the headers call the windows that denied: of several those with the fewest permits remaining.
func (r Result) violated() (names []string) {
	for _, d := range r.Decisions {
		if !d.denied() || d.Shadow {
			continue
		}
		items := d.appendItems(nil)
		fewest := slices.MinFunc(items, func(a, b item) int { return cmp.Compare(a.remaining, b.remaining) })
		for _, it := range items {
			if it.remaining == fewest.remaining {
				names = append(names, it.policy)
			}
		}
	}
	return names
}

// LogValue is for log/slog: slog.Info("limited", "limit", result). It has the outcome, the policies that denied,
// whether a policy for failures decided, and the error. Subjects are not in it, because they may be personal data.
func (r Result) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("outcome", r.Outcome.String())}
	if denied := r.Denied(false); len(denied) > 0 {
		attrs = append(attrs, slog.String("denied", strings.Join(denied, ",")))
	}
	if denied := r.Denied(true); len(denied) > 0 {
		attrs = append(attrs, slog.String("shadow_denied", strings.Join(denied, ",")))
	}
	if r.RetryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_after", time.Duration(r.RetryAfter)*time.Second))
	}
	if r.Degraded {
		attrs = append(attrs, slog.Any("degraded", r.Cause))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	return slog.GroupValue(attrs...)
}
