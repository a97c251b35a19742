package scripttest

import (
	"fmt"
	"strings"
)

// ErrorReply is an error reply as Redis 7 sends it, without the "-" before it.
type ErrorReply string

func (e ErrorReply) Error() string { return string(e) }

// errorReply makes an error reply of a text; on the wire it is one line.
func errorReply(text string) ErrorReply {
	return ErrorReply(lineBreaks.Replace(strings.Trim(cString(text), "\r\n")))
}

// BudgetError ends a run that took more instructions than its script may take.
type BudgetError struct {
	Script string // its name
	Budget int    // VM instructions
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("scripttest: %s is still running after %d instructions", e.Script, e.Budget)
}

// UnsupportedError ends a run, or refuses a script, that needs what this package does not emulate.
type UnsupportedError struct {
	What string
}

func (e *UnsupportedError) Error() string {
	return "scripttest does not emulate " + e.What
}

// asLua51 puts the few error texts that come from inside the VM into Lua 5.1's words. The rest is
// raised by this package in those words already.
func asLua51(text string) string {
	position, message := "", text
	if i := strings.Index(text, ": "); i >= 0 && strings.Contains(text[:i], ":") {
		position, message = text[:i+2], text[i+2:]
	}
	switch {
	case strings.HasPrefix(message, "cannot perform "):
		message = "attempt to perform arithmetic on a table value"
	case message == "__unm undefined":
		message = "attempt to perform arithmetic on a table value"
	case message == "attempt to call a non-function object":
		message = "attempt to call a table value"
	case strings.HasPrefix(message, "attempt to index a non-table object("):
		message = "attempt to index a userdata value"
	case message == "registry overflow":
		message = "stack overflow"
	case strings.HasSuffix(message, "can not yield from outside of a coroutine"):
		position, message = "", "attempt to yield across metamethod/C-call boundary"
	case message == "can not resume a dead thread":
		message = "cannot resume dead coroutine"
	case strings.HasPrefix(message, "attempt to compare "):
		message = compareText(message)
	}
	return position + message
}

func compareText(message string) string {
	a, b, ok := strings.Cut(strings.TrimPrefix(message, "attempt to compare "), " with ")
	if ok && a == b {
		return "attempt to compare two " + a + " values"
	}
	return message
}
