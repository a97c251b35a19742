package lua51

import (
	"fmt"
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"
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

// vmError is an error text that comes from inside the VM: the chunk and the line, the message.
var vmError = regexp.MustCompile(`^(.*?:\d+: )(.*)$`)

// lua51 puts an error text of the VM's into Lua 5.1's words. The rest is raised by this package in those
// words already. A stack overflow ends the run: here the stack is smaller.
func (r *run) lua51(v lua.LValue) lua.LValue {
	text, ok := v.(lua.LString)
	if !ok {
		return v
	}
	if strings.Contains(string(text), "registry overflow") || strings.Contains(string(text), "lua callstack overflow") {
		r.doubt(stackOverflow)
	}
	if strings.HasPrefix(string(text), "runtime error: ") {
		r.doubt("this script: gopher-lua's VM fails with a " + string(text))
	}
	parts := vmError.FindStringSubmatch(string(text))
	if parts == nil {
		return lua.LString(unplaced(strings.TrimPrefix(string(text), " ")))
	}
	return lua.LString(parts[1] + vmMessage(parts[2]))
}

const stackOverflow = "a stack overflow: Redis overflows at another depth"

// unplaced are texts of the VM that have no position.
func unplaced(text string) string {
	if text == "attempt to call a non-function object" {
		return "attempt to call a table value"
	}
	return text
}

func vmMessage(message string) string {
	switch {
	case strings.HasPrefix(message, "cannot perform "), message == "__unm undefined":
		return "attempt to perform arithmetic on a table value"
	case strings.HasPrefix(message, "attempt to compare "):
		return compareText(message)
	}
	return unplaced(message)
}

func compareText(message string) string {
	a, b, ok := strings.Cut(strings.TrimPrefix(message, "attempt to compare "), " with ")
	if ok && a[2] == b[2] { // all that Lua looks at
		return "attempt to compare two " + a + " values"
	}
	return message
}
