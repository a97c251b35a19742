package lua51

import (
	"context"
	"time"

	lua "github.com/yuin/gopher-lua"
)

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

// Command is one redis.call or redis.pcall.
type Command struct {
	Args  []string // the name first, as the script spelled it
	Write bool     // Redis counts the command as a write, even where it changed nothing
}

// Run runs the script as EVALSHA does.
func (s *Script) Run(r *Redis, keys, args []string) Result {
	return s.run(r, keys, args, false)
}

// RunRO runs the script as EVALSHA_RO does: commands that write are refused.
func (s *Script) RunRO(r *Redis, keys, args []string) Result {
	return s.run(r, keys, args, true)
}

func (s *Script) run(r *Redis, keys, args []string, readOnly bool) Result {
	run := &run{redis: r, script: s, readOnly: readOnly, client: r.newClient()}
	run.budget = s.Budget
	if run.budget <= 0 {
		run.budget = DefaultBudget
	}
	L := r.lib.newState(run, keys, args)
	defer L.Close()

	reply, err := run.main(L)
	return Result{Reply: reply, Err: err, Commands: run.commands, Instructions: run.used}
}

func (r *run) main(L *lua.LState) (any, error) {
	main := r.redis.lib.instantiate(L, r.script.proto)
	r.used = 0
	L.Push(L.NewFunction(callOn))
	L.Push(main)
	err := L.PCall(1, 1, L.NewFunction(locateError))
	var raised lua.LValue
	if err != nil {
		raised = r.errorValue(err)
	}
	if r.fault != nil {
		return nil, r.fault
	}
	if err != nil {
		return nil, r.errorOf(raised)
	}
	reply := r.reply(L.Get(-1))
	if r.fault != nil {
		return nil, r.fault
	}
	if failure, ok := reply.(ErrorReply); ok {
		return nil, failure
	}
	return reply, nil
}

// run is the state of one run. It is also the context of its Lua threads: the VM asks Done before every
// instruction, which is how instructions are counted and how the run is ended.
type run struct {
	redis    *Redis
	script   *Script
	readOnly bool
	client   *client
	budget   int
	used     int
	sent     int // bytes of commands
	depth    int // of calls from library functions into Lua
	fault    error
	commands []Command
	callers  map[*lua.LState]*lua.LState // of threads that pcall has made: the ones it was called on
}

var _ context.Context = (*run)(nil)

func runOf(L *lua.LState) *run { return L.Context().(*run) }

func (r *run) Done() <-chan struct{} {
	r.used++
	if r.used > r.budget && r.fault == nil {
		r.used = r.budget
		r.fault = &BudgetError{Script: r.script.Name, Budget: r.budget}
	}
	if r.fault != nil {
		return closed
	}
	return nil
}

// Err is what the VM raises once Done says so.
func (r *run) Err() error                  { return r.fault }
func (r *run) Deadline() (time.Time, bool) { return time.Time{}, false }
func (r *run) Value(any) any               { return nil }

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// refuse ends the run: what it asks for is not emulated. No pcall of the script stops that, since every
// further instruction fails too.
func (r *run) refuse(L *lua.LState, what string) {
	r.end(L, &UnsupportedError{What: what})
}

// unsupported ends the run: the function needs what is not emulated.
func (c call) unsupported(what string) { runOf(c.LState).refuse(c.LState, what) }

// refused is a library function that is not emulated.
func refused(what string) function {
	return func(c call) int {
		c.unsupported(what)
		return 0
	}
}

// refusedAll are functions of a library that are not emulated.
func refusedAll(library string, names ...string) map[string]function {
	functions := map[string]function{}
	for _, name := range names {
		functions[name] = refused(library + "." + name)
	}
	return functions
}

// doubt ends the run with the next instruction: what follows may be otherwise on Redis.
func (r *run) doubt(what string) {
	if r.fault == nil {
		r.fault = &UnsupportedError{What: what}
	}
}

func (r *run) end(L *lua.LState, fault error) {
	if r.fault == nil {
		r.fault = fault
	}
	call{LState: L}.raise(r.fault.Error())
}

// errorOf makes the reply of an error that the script did not catch.
func (r *run) errorOf(v lua.LValue) error {
	t, ok := v.(*lua.LTable)
	if !ok {
		return errorReply("ERR " + displayed(v)) // the handler itself failed: the stack was full
	}
	text, ok := t.RawGetString("err").(lua.LString)
	if !ok {
		return &UnsupportedError{What: "error() with a table without err, which crashes Redis 7.0"}
	}
	return errorReply(cString(string(text)) + " script: " + r.script.SHA1 + ", on " + displayed(t.RawGetString("source")) +
		":" + displayed(t.RawGetString("line")) + ".")
}

// locateError is the handler that Redis runs a script under: it makes a table of the error and notes
// where it was raised.
func locateError(L *lua.LState) int {
	v := L.Get(1)
	t, ok := v.(*lua.LTable)
	if !ok {
		t = L.NewTable()
		t.RawSetString("err", lua.LString("ERR "+displayed(runOf(L).lua51(v))))
	}
	source, line := raisedAt(L)
	t.RawSetString("source", source)
	t.RawSetString("line", line)
	L.Push(t)
	return 1
}

// raisedAt is the place of the error: where the function that failed stands, or its caller when it is
// not Lua. Level 0 is the handler.
func raisedAt(L *lua.LState) (source, line lua.LValue) {
	for level := 1; level <= 2; level++ {
		if chunk, line, ok := lineAt(L, level); ok {
			return lua.LString("@" + chunk), lua.LNumber(line)
		}
	}
	return lua.LString("=[C]"), lua.LNumber(-1)
}

// callOn calls the function that is its first argument with the others. It stands at the bottom of every
// stack, as a C function does in Redis.
func callOn(L *lua.LState) int {
	L.Call(L.GetTop()-1, lua.MultRet)
	return L.GetTop()
}

func (r *run) errorValue(err error) lua.LValue {
	api, ok := err.(*lua.ApiError)
	if !ok {
		return lua.LString(err.Error())
	}
	return r.lua51(api.Object)
}

// displayed is tostring without metatables.
func displayed(v lua.LValue) string {
	if s, ok := toString(v); ok {
		return s
	}
	return v.String()
}
