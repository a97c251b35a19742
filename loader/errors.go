package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

var (
	// ErrExceedsLimit is in the error of a call that asks for more permits at once than could ever be
	// granted: above the limit, the burst of a GCRA, or what one call to the script may ask for.
	ErrExceedsLimit = errors.New("exceeds limit")

	// ErrNotLoaded is in the error of a call whose script the server does not have, when the loader may
	// not load it: it is PreloadedOnly, or the server refuses SCRIPT LOAD and EVAL. `sluice load` cures it.
	ErrNotLoaded = errors.New("script is not loaded: run `sluice load`")

	// ErrOutcomeUnknown is in every *OutcomeUnknownError.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// ArgumentError says that a call cannot be decided because of what was passed, and that nothing was
// written. It comes from the script (BADARG), or from the loader before anything is sent.
type ArgumentError struct {
	Script   string // "gcra_v1"; "" when no script was asked
	Limiter  string // the limiter's name, where the loader says so
	Argument string // its name in the script's header, or what the loader calls it
	Value    string // what was passed, where the loader says so
	Want     string // what would be right

	text string // what Error says behind the name; "" means Argument, Value and Want
}

// Error names the limiter or the script, what was passed, and what is wanted, in the units in which it was passed.
func (e *ArgumentError) Error() string {
	text := e.text
	switch {
	case text != "":
	case e.Value != "":
		text = e.Argument + " " + e.Value + ": want " + e.Want
	default:
		text = "bad " + e.Argument + ": want " + e.Want
	}
	return prefixed(cmp.Or(e.Limiter, e.Script), text)
}

// Is reports whether target is ErrExceedsLimit and the script said so.
func (e *ArgumentError) Is(target error) bool {
	return target == ErrExceedsLimit && e.Argument == "permits" && strings.HasPrefix(e.Want, "up to")
}

// StateError says that a key holds what the script cannot understand, and that nothing was written. A
// Reset removes it, and what was granted with it.
type StateError struct {
	Script string   // "gcra_v1"
	Keys   []string // the keys of the call
	Code   string   // WRONGTYPE: a key has another type; BADSTATE: what it holds was written by something else
	Text   string   // what the server said behind the code
}

func (e *StateError) Error() string {
	return prefixed(e.Script, fmt.Sprintf("%s %s (keys %s)", e.Code, e.Text, strings.Join(e.Keys, ", ")))
}

// OutcomeUnknownError says that a decision was sent and no reply came: the connection was lost, or the
// time was up. It was charged once or not at all. Asking again may charge again, except with the same
// ID.
type OutcomeUnknownError struct {
	Script string   // "list_log_v1"
	Keys   []string // the keys of the call
	ID     string   // the request id that it carried, "" where the script takes none
	Err    error    // why no reply came

	inFlight <-chan struct{} // ready once the command that was abandoned cannot be sent any more; nil: it never was
}

func (e *OutcomeUnknownError) Error() string {
	return prefixed(e.Script, fmt.Sprintf("%v: %v", ErrOutcomeUnknown, e.Err))
}

// Unwrap returns ErrOutcomeUnknown and the cause.
func (e *OutcomeUnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.Err} }

// WaitError says that Wait would have taken longer than it may. It is returned at once, and nothing is
// booked, unless the answer was so late that the wait it granted did not fit any more: see WaitN. It is
// context.DeadlineExceeded where the context's deadline was in the way, not where MaxWait was.
type WaitError struct {
	Limiter  string        // the limiter's name
	N        int64         // permits asked for
	Wait     time.Duration // how long they would take if no one else asks; Never for a limit of 0
	MaxWait  time.Duration // the limiter's MaxWait, if that was in the way
	Deadline time.Time     // the context's deadline, if that was in the way
}

func (e *WaitError) Error() string {
	text := fmt.Sprintf("Wait(n=%d) of %v would exceed context deadline", e.N, e.Wait)
	switch {
	case e.Wait == Never:
		text = fmt.Sprintf("Wait(n=%d) would never end: the limit is 0", e.N)
	case e.MaxWait > 0:
		text = fmt.Sprintf("Wait(n=%d) of %v would exceed MaxWait %v", e.N, e.Wait, e.MaxWait)
	}
	return prefixed(e.Limiter, text)
}

// Is reports whether target is context.DeadlineExceeded and the context's deadline was in the way.
func (e *WaitError) Is(target error) bool {
	return target == context.DeadlineExceeded && !e.Deadline.IsZero() && e.MaxWait == 0 && e.Wait != Never
}

// NodeError is what went wrong on one node.
type NodeError struct {
	Addr string
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("loading scripts on %s: %v", e.Addr, e.Err) }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// limiterName is the limiter's name, "" of one that no method of Loader made.
func (c core) limiterName() string {
	if c.settings == nil {
		return ""
	}
	return c.name
}

// errNoPermits is the error of a call that asks for less than one permit.
func errNoPermits(limiter string, n int64) error {
	return &ArgumentError{Limiter: limiter, Argument: "n", Value: strconv.FormatInt(n, 10), Want: "1 or more"}
}

// errEmptySubject is the error of a call about nobody.
func errEmptySubject(limiter string) error {
	return &ArgumentError{Limiter: limiter, Argument: "subject", Value: `""`, Want: "at least one character"}
}

// errCannotGiveBack is the error of a limiter whose script cannot give back.
func (c core) errCannotGiveBack() error {
	return fmt.Errorf("loader: %s: %s cannot give permits back: %w", c.name, c.kind.name, errors.ErrUnsupported)
}

// prefixed is text behind the names of the package and, if any, the limiter or script.
func prefixed(name, text string) string {
	if name == "" {
		return "loader: " + text
	}
	return "loader: " + name + ": " + text
}

// nameOf is a script's name and version as errors show it, "gcra_v1".
func nameOf(script *sluice.Script) string { return strings.TrimSuffix(script.File, ".lua") }
