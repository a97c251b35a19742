package scripttest

import lua "github.com/yuin/gopher-lua"

// maxProtected is how deep pcalls may nest; Lua 5.1 has 200 calls of C functions.
const maxProtected = 195

// basePcall is Redis's pcall: of an error that is a table with a string err it gives the string.
func basePcall(c call) int {
	c.any(1)
	args := make([]lua.LValue, c.GetTop())
	for i := range args {
		args[i] = c.Get(i + 1)
	}
	results, failure := c.protect(args)
	if failure == nil {
		return c.pushAll(lua.LTrue, results)
	}
	if t, ok := failure.(*lua.LTable); ok {
		if text, ok := t.RawGetString("err").(lua.LString); ok {
			failure = text
		}
	}
	return c.pushAll(lua.LFalse, []lua.LValue{failure})
}

func baseXpcall(c call) int {
	handler := c.any(2)
	results, failure := c.protect([]lua.LValue{c.Get(1)})
	if failure == nil {
		return c.pushAll(lua.LTrue, results)
	}
	c.Push(handler)
	c.Push(failure)
	c.Call(1, 1)
	return c.pushAll(lua.LFalse, []lua.LValue{c.Get(-1)})
}

func (c call) pushAll(first lua.LValue, rest []lua.LValue) int {
	c.Push(first)
	for _, v := range rest {
		c.Push(v)
	}
	return 1 + len(rest)
}

// protect calls callee[0] with the rest, and returns its results or the value it raised.
//
// It does so on a Lua thread of its own, because an error caught on the thread it was raised on makes
// gopher-lua close every upvalue of that thread: closures of the functions that go on would no longer
// share their locals.
func (c call) protect(callee []lua.LValue) (results []lua.LValue, failure lua.LValue) {
	run := runOf(c.LState)
	if run.depth >= maxProtected {
		run.refuse(c.LState, stackOverflow)
	}
	run.depth++
	defer func() { run.depth-- }()

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
