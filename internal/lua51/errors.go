package lua51

import (
	"fmt"
	"regexp"
	"strconv"
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

// vmError is an error text that comes from inside the VM: the chunk, the number of the site, the message.
var vmError = regexp.MustCompile(`^(.*?):(\d{13,19}): (.*)$`)

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
		return lua.LString(unplaced(string(text)))
	}
	number, _ := strconv.Atoi(parts[2])
	at, ok := r.site(number)
	if !ok {
		return v
	}
	return lua.LString(fmt.Sprintf("%s:%d: %s", parts[1], at.line, r.vmMessage(at, parts[3])))
}

const stackOverflow = "a stack overflow: Redis overflows at another depth"

// unplaced are texts of the VM that have no position.
func unplaced(text string) string {
	text = strings.TrimPrefix(text, " ")
	if text == "attempt to call a non-function object" {
		return "attempt to call a table value"
	}
	return text
}

func (r *run) vmMessage(at site, message string) string {
	switch {
	case strings.HasPrefix(message, "cannot perform "):
		operand := 0
		if strings.HasSuffix(message, " table") && !strings.Contains(message, "between table") {
			operand = 1
		}
		return "attempt to perform arithmetic on " + r.describe(at.operand(operand), lua.LTTable)
	case message == "__unm undefined":
		return "attempt to perform arithmetic on " + r.describe(at.operand(0), lua.LTTable)
	case message == "attempt to call a non-function object":
		return "attempt to call " + r.describe(at.callee, lua.LTTable)
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
