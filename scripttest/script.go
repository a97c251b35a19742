package scripttest

import "github.com/sluice-redis/sluice/internal/lua51"

// DefaultBudget is how many VM instructions a run may take when its script sets no Budget.
const DefaultBudget = lua51.DefaultBudget

// Script is a compiled script. It holds no state of its runs, so one Script serves many of them, on
// several servers at once.
type Script struct {
	Name   string // for messages of the test; Redis does not see it
	Source string // byte for byte what SCRIPT LOAD would be sent
	SHA1   string // forty lower-case hex digits, what EVALSHA takes
	Budget int    // VM instructions a run may take; 0 is DefaultBudget

	engine *lua51.Script
}

// Compile makes a script ready to run. The name serves messages only. The error is an ErrorReply where
// Redis would refuse the script too, though the parser words its syntax errors in its own way.
func Compile(name, source string) (*Script, error) {
	return compile(name, source)
}

func compile(name, source string, edits ...lua51.Edit) (*Script, error) {
	script, err := lua51.Compile(name, source, edits...)
	if err != nil {
		return nil, err
	}
	return newScript(script), nil
}

func newScript(s *lua51.Script) *Script {
	return &Script{Name: s.Name, Source: s.Source, SHA1: s.SHA1, Budget: s.Budget, engine: s}
}

// Result is what one run of a script gave and did.
type Result struct {
	// Reply is what a RESP2 client receives: int64, string (a bulk string), Status, nil, ErrorReply
	// (inside arrays only) or []any of these.
	Reply any
	// Err is an ErrorReply when the script answered or ended with an error, a *BudgetError or an
	// *UnsupportedError when the harness ended it, else nil.
	Err error
	// Commands are the commands that the script called and the server executed or answered with an
	// error, in their order.
	Commands []Command
	// Instructions is how many VM instructions the script took. It grows as the work grows; its unit
	// is this package's own.
	Instructions int
}

// Command is one redis.call or redis.pcall: Args are its words, the name first, as the script spelled it.
// Write says that Redis counts the command as a write, even where it changed nothing.
type Command = lua51.Command

// Run runs the script as EVALSHA does.
func (s *Script) Run(r *Redis, keys, args []string) Result {
	r.tb.Helper()
	return Result(s.current().Run(r.engine, keys, args))
}

// RunRO runs the script as EVALSHA_RO does: commands that write are refused.
func (s *Script) RunRO(r *Redis, keys, args []string) Result {
	r.tb.Helper()
	return Result(s.current().RunRO(r.engine, keys, args))
}

// current is the compiled script with the fields as the test has set them since.
func (s *Script) current() *lua51.Script {
	current := *s.engine
	current.Name, current.Source, current.SHA1, current.Budget = s.Name, s.Source, s.SHA1, s.Budget
	return &current
}
