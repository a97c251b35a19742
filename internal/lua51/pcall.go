package lua51

import lua "github.com/yuin/gopher-lua"

// maxNested is how deep calls from library functions into Lua may nest; Lua 5.1 has 200 of them.
const maxNested = 190

// enter begins such a call. What ends it lowers depth, or sets it back where it catches errors.
func (r *run) enter(L *lua.LState) {
	if r.depth >= maxNested {
		r.refuse(L, stackOverflow)
	}
	r.depth++
}

// Call calls a function as lua.LState does.
func (c call) Call(args, results int) {
	run := runOf(c.LState)
	run.enter(c.LState)
	c.LState.Call(args, results)
	run.depth--
}

// basePcall is Redis's pcall: of an error that is a table with a text err it gives the text, and any other
// err behind the table.
func basePcall(c call) int {
	if c.GetTop() == 0 {
		c.unsupported("pcall() without a function, which Redis lets read beyond its stack")
	}
	args := make([]lua.LValue, c.GetTop())
	for i := range args {
		args[i] = c.Get(i + 1)
	}
	results, failure := c.protect(args)
	if failure == nil {
		return c.push(lua.LTrue) + c.push(results...)
	}
	if t, ok := failure.(*lua.LTable); ok {
		reason := c.GetField(t, "err")
		if _, isText := toString(reason); !isText {
			return c.push(lua.LFalse, failure, reason)
		}
		failure = reason
	}
	return c.push(lua.LFalse, failure)
}

// protect calls callee[0] with the rest, and returns its results or the value it raised.
//
// It does so on a Lua thread of its own, because an error caught on the thread it was raised on makes
// gopher-lua close every upvalue of that thread: closures of the functions that go on would no longer
// share their locals.
func (c call) protect(callee []lua.LValue) (results []lua.LValue, failure lua.LValue) {
	run := runOf(c.LState)
	depth := run.depth
	run.enter(c.LState)
	defer func() { run.depth = depth }()

	thread := newThread(c.LState)
	defer thread.Close()
	if run.callers == nil {
		run.callers = map[*lua.LState]*lua.LState{}
	}
	run.callers[thread] = c.LState
	defer delete(run.callers, thread)
	thread.Push(c.NewFunction(callOn))
	for _, v := range callee {
		thread.Push(v)
	}
	if err := thread.PCall(len(callee), lua.MultRet, nil); err != nil {
		return nil, run.errorValue(err)
	}
	for i := 1; i <= thread.GetTop(); i++ {
		results = append(results, thread.Get(i))
	}
	return results, nil
}

// newThread makes a thread that counts its instructions on the same run. Left to itself, gopher-lua
// would give it a derived context, which is asked only once.
func newThread(L *lua.LState) *lua.LState {
	run := L.RemoveContext()
	thread, _ := L.NewThread()
	L.SetContext(run)
	thread.SetContext(run)
	return thread
}
