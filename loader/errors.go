package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

var (
	// ErrExceedsLimit is in the error of a call for more permits at once than could ever be granted: more than the
	// limit, the burst of a GCRA, or what one call of the script may ask for.
	ErrExceedsLimit = errors.New("exceeds limit")

	// ErrNotLoaded is in the error of a call whose script the server does not have and the loader may not load: the
	// loader is PreloadedOnly, or the server refuses SCRIPT LOAD and EVAL. Run `sluice load`. With Functions it means
	// that the server does not have the function: run `sluice load --functions`.
	ErrNotLoaded = wire.ErrNotLoaded

	// ErrBreakerOpen is in the error of a call that was not sent, because the server did not answer the calls before it:
	// see Breaker. Nothing was charged.
	ErrBreakerOpen = wire.ErrBreakerOpen

	// ErrOutcomeUnknown is in every *OutcomeUnknownError.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// ArgumentError says that an argument is wrong: there was no decision, and nothing was written. It comes from the
// script (BADARG), or from the loader before anything is sent.
type ArgumentError struct {
	Script   string // "gcra_v1"; "" if the error is the loader's
	Limiter  string // the limiter's name; "" if the error is the script's
	Argument string // its name in the script's header, or in the loader
	Value    string // what was passed; "" if the error is the script's, unless it is about an id
	Want     string // what would be right

	text string // replaces Argument, Value and Want in Error; "": does not
}

// Error names the limiter or the script, what was passed, and what is wanted, in the unit in which it was passed.
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

// Is reports whether target is ErrExceedsLimit and the script refused more permits than its limit.
func (e *ArgumentError) Is(target error) bool {
	return target == ErrExceedsLimit && e.Argument == "permits" && strings.HasPrefix(e.Want, "up to")
}

// StateError says that a key holds a value that the script cannot read. There was no decision, and nothing was written.
// Reset removes the value, and with it what was granted.
type StateError struct {
	Script string   // "gcra_v1"
	Keys   []string // the keys of the call
	Code   string   // WRONGTYPE: another Redis type; BADSTATE: a value that the script did not write
	Text   string   // the server's text after the code
}

func (e *StateError) Error() string {
	return prefixed(e.Script, fmt.Sprintf("%s %s (keys %s)", e.Code, e.Text, strings.Join(e.Keys, ", ")))
}

// OutcomeUnknownError says that a decision was sent and no reply came, because the connection was lost or the time was
// up. It was charged once or not at all. Asking again may charge again, except with the same ID. If it was a GiveBack
// or a Cancel, the permits were given back once or not at all. What Redis refuses in a script is another error.
type OutcomeUnknownError struct {
	Script string   // "list_log_v1"
	Keys   []string // the keys of the call
	ID     string   // the request id; "" if the script takes none
	Err    error    // why no reply came

	late *wire.Late // nil: no reply can come
}

func (e *OutcomeUnknownError) Error() string {
	return prefixed(e.Script, fmt.Sprintf("%v: %v", ErrOutcomeUnknown, e.Err))
}

// Unwrap returns ErrOutcomeUnknown and the cause.
func (e *OutcomeUnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.Err} }

// SlotLostError is the cause of the end of a Slot's context (context.Cause) if the slot was lost: its work may no
// longer be the only one, and has to stop. Release returns it too, and so does an Acquire whose reply came too late.
type SlotLostError struct {
	Limiter string // the limiter's name
	Subject string // whose slot it was; not in the text of the error
	Err     error  // why: the error of the last renewal, or what the server answered
}

func (e *SlotLostError) Error() string {
	return prefixed(e.Limiter, fmt.Sprintf("slot lost: %v", e.Err))
}

// Unwrap returns Err.
func (e *SlotLostError) Unwrap() error { return e.Err }

// WaitError says that Wait would take longer than the context's deadline or MaxWait allows. It is returned at once, and
// nothing is booked. (If the reply came so late that the granted wait no longer fits, permits were booked, and are
// given back where the limiter can.) It is context.DeadlineExceeded if the deadline was the limit, not if MaxWait was.
type WaitError struct {
	Limiter  string        // the limiter's name
	Permits  int64         // permits asked for
	Wait     time.Duration // how long they would take if no one else asks; Never for a limit of 0; 0 of Acquire: unknown
	MaxWait  time.Duration // the limiter's MaxWait, if it is too short
	Deadline time.Time     // the context's deadline, if it is too early

	text string // replaces the rest in Error; "": does not
}

func (e *WaitError) Error() string {
	text := fmt.Sprintf("Wait(n=%d) of %v would exceed context deadline", e.Permits, e.Wait)
	switch {
	case e.text != "":
		text = e.text
	case e.Wait == Never:
		text = fmt.Sprintf("Wait(n=%d) would never end: the limit is 0", e.Permits)
	case e.MaxWait > 0:
		text = fmt.Sprintf("Wait(n=%d) of %v would exceed MaxWait %v", e.Permits, e.Wait, e.MaxWait)
	}
	return prefixed(e.Limiter, text)
}

// Is reports whether target is context.DeadlineExceeded and the deadline is too early.
func (e *WaitError) Is(target error) bool {
	return target == context.DeadlineExceeded && !e.Deadline.IsZero() && e.MaxWait == 0 && e.Wait != Never
}

// NodeError is the error of loading scripts on one node.
type NodeError struct {
	Addr string
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("loading scripts on %s: %v", e.Addr, e.Err) }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// errNoPermits is the error of a call for less than one permit. amount is what the caller calls them, "" for n.
func errNoPermits(limiter, amount string, n int64) error {
	return &ArgumentError{
		Limiter: limiter, Argument: cmp.Or(amount, "n"), Value: strconv.FormatInt(n, 10), Want: "1 or more",
	}
}

// prefixed adds the name of the package and that of the limiter or script to an error's text.
func prefixed(name, text string) string {
	if name == "" {
		return "loader: " + text
	}
	return "loader: " + name + ": " + text
}

// publicError returns the error of a call as its caller gets it.
func publicError(err error) error {
	e, ok := err.(*wire.Error)
	if !ok {
		return err
	}
	switch e.Kind {
	case wire.Unknown:
		return &OutcomeUnknownError{Script: e.Script, Keys: e.Keys, ID: e.ID, Err: e.Err, late: e.Late}
	case wire.BadArgument:
		return &ArgumentError{Script: e.Script, Argument: e.Argument, Value: e.BadValue(), Want: e.Want}
	case wire.BadState:
		return &StateError{Script: e.Script, Keys: e.Keys, Code: e.Code, Text: e.Text}
	}
	return failed(e.Script, e.Err)
}

// failed is the error of a script that did not decide.
func failed(script string, err error) error { return fmt.Errorf("loader: %s: %w", script, err) }

// undecided reports whether a fallback may answer in place of an error: the arguments and the state are right, and
// the caller did not cancel.
func undecided(ctx context.Context, err error) bool {
	_, argument := errors.AsType[*ArgumentError](err)
	_, state := errors.AsType[*StateError](err)
	return !argument && !state && !errors.Is(ctx.Err(), context.Canceled)
}

// mayHelp reports whether a retry after an error may help and cannot charge twice: nothing has run, or the call has
// an id.
func mayHelp(err error, ids bool) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return ids
	}
	return wire.MayHelp(err)
}
