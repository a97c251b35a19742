package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is why a call has no answer.
type Kind int

const (
	NoDecision  Kind = iota // nothing was written
	Unknown                 // an attempt may have run, and its reply is missing
	BadArgument             // BADARG: nothing was written
	BadState                // BADSTATE or WRONGTYPE: nothing was written
)

// Error is why a call has no answer.
type Error struct {
	Kind   Kind
	Script string // "gcra_v1"
	Keys   []string
	ID     string
	Late   *Late // Unknown: the reply may still come; nil: it cannot
	Err    error // NoDecision, Unknown

	Code     string // BadState
	Text     string // of the reply, behind the code
	Argument string // BadArgument: its name in the script's header
	Want     string
}

func (e *Error) Error() string {
	if e.Err == nil {
		return "loader: " + e.Script + ": " + e.Text
	}
	return fmt.Sprintf("loader: %s: %v", e.Script, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrNotLoaded is in the error of a call whose script is not loaded, and may not be.
	ErrNotLoaded = errors.New("script is not loaded: run `sluice load`")

	// errNoFunction is ErrNotLoaded for a function.
	errNoFunction error = notLoadedFunction{}
)

type notLoadedFunction struct{}

func (notLoadedFunction) Error() string {
	return "function is not loaded: run `sluice load --functions`"
}

func (notLoadedFunction) Is(target error) bool { return target == ErrNotLoaded }

// unanswered is the error of a call that got no reply: Unknown if any of its attempts may have run.
func (c *Call) unanswered(err error) error {
	if c.mayHaveRun == nil {
		return c.noDecision(err)
	}
	e := c.fault(Unknown, err)
	e.Late = c.late
	return e
}

func (c *Call) noDecision(err error) error { return c.fault(NoDecision, c.client.explain(err)) }

func (c *Call) fault(kind Kind, err error) *Error {
	return &Error{Kind: kind, Script: NameOf(c.Script), Keys: c.AllKeys(), ID: c.ID, Err: err}
}

// outOfTime is the error of a call whose context has ended.
func (c *Call) outOfTime(cmd *Command, f Failure, err error) error {
	c.late = cmd.Late
	switch {
	case cmd.GiveUp():
		c.client.patience.extend()
		err = fmt.Errorf("not sent in time: %w", err)
	case !c.Looks && f != neverSent:
		c.mayHaveRun = err
	}
	if c.cause != nil {
		err = fmt.Errorf("%w: %w", err, c.cause)
	}
	return c.unanswered(err)
}

// notLoaded is the error of a call whose script is missing.
func (c *Call) notLoaded(err error) error {
	if c.client.Functions {
		return c.noDecision(fmt.Errorf("%w (%s): %w", errNoFunction, NameOf(c.Script), err))
	}
	if hidden := c.client.errHiddenNodes(); hidden != nil {
		err = fmt.Errorf("%w; %w", err, hidden)
	}
	return c.noDecision(fmt.Errorf("%w (%s): %w", ErrNotLoaded, c.Script.SHA1, err))
}

// final is the error of a call by an error reply that a retry would not change. If Redis stopped the script at a
// command that it does not refuse, the script may have written before.
func (c *Call) final(f Failure, err error) error {
	code := CodeOf(err)
	_, text, _ := strings.Cut(err.Error(), " ")
	if FailedInScript(text) && code != "WRONGTYPE" && !c.Looks && !refusedInScript(err) {
		c.mayHaveRun = err
		return c.unanswered(err)
	}
	switch code {
	case "BADARG":
		e := c.fault(BadArgument, nil)
		e.Text = text
		e.Argument, e.Want, _ = strings.Cut(text, ": want ")
		return e
	case "BADSTATE", "WRONGTYPE":
		e := c.fault(BadState, nil)
		e.Code, e.Text = code, text
		return e
	}
	switch {
	case c.source && f == notAllowed:
		return c.notLoaded(err)
	case c.client.Functions && f == notAllowed && code == "ERR":
		err = fmt.Errorf("%w: Functions needs Redis 7.0 or later: %w", errors.ErrUnsupported, err)
		return c.noDecision(err)
	}
	return c.unanswered(err)
}

// BadValue returns the value of a wrong argument, "" if only the script knows it.
func (e *Error) BadValue() string {
	if e.Argument == "id" && e.ID != "" {
		return strconv.Quote(e.ID)
	}
	return ""
}
