package lua51

import lua "github.com/yuin/gopher-lua"

// coroutineFunctions are gopher-lua's, save that every coroutine counts its instructions, and that wrap
// raises errors as Lua 5.1 does.
func coroutineFunctions(L *lua.LState) map[string]function {
	L.Push(L.NewFunction(lua.OpenCoroutine))
	L.Push(lua.LString(lua.CoroutineLibName))
	L.Call(1, 1)
	module := L.Get(-1).(*lua.LTable)
	L.Pop(1)

	functions := map[string]function{}
	module.ForEach(func(name, f lua.LValue) {
		original := f.(*lua.LFunction).GFunction
		functions[name.String()] = func(c call) int { return original(c.LState) }
	})
	create, resume := functions["create"], resumeLike51(functions["resume"])
	functions["resume"] = resume
	functions["running"] = coroutineRunning
	functions["status"] = statusLike51(functions["status"])
	functions["create"] = func(c call) int {
		if f, ok := c.Get(1).(*lua.LFunction); !ok || f.IsG {
			c.argError(1, "Lua function expected")
		}
		run := c.RemoveContext()
		create(c)
		c.SetContext(run)
		c.Get(-1).(*lua.LState).SetContext(run)
		return 1
	}
	functions["wrap"] = func(c call) int {
		functions["create"](c)
		thread := c.Get(-1)
		c.Push(c.NewFunction(func(L *lua.LState) int { return resumeWrapped(call{LState: L}, thread, resume) }))
		return 1
	}
	return functions
}

// ofRunning is the coroutine that runs, nil outside of any: a stack that pcall has made belongs to its caller.
func ofRunning(L *lua.LState) *lua.LState {
	run := runOf(L)
	for run.callers[L] != nil {
		L = run.callers[L]
	}
	if L == run.thread {
		return nil
	}
	return L
}

func coroutineRunning(c call) int {
	if thread := ofRunning(c.LState); thread != nil {
		c.Push(thread)
	} else {
		c.Push(lua.LNil)
	}
	return 1
}

func (c call) coroutine(n int) *lua.LState {
	thread, ok := c.Get(n).(*lua.LState)
	if !ok {
		c.argError(n, "coroutine expected")
	}
	return thread
}

// statusLike51 is coroutine.status for those that are inside of a pcall too.
func statusLike51(status function) function {
	return func(c call) int {
		if c.coroutine(1) == ofRunning(c.LState) {
			return c.push(lua.LString("running"))
		}
		return status(c)
	}
}

// resumeLike51 is coroutine.resume with the messages of Lua 5.1.
func resumeLike51(resume function) function {
	return func(c call) int {
		c.coroutine(1)
		run := runOf(c.LState)
		depth := run.depth
		run.enter(c.LState)
		results := resume(c)
		run.depth = depth
		if c.Get(-results) == lua.LFalse {
			failure := runOf(c.LState).lua51(c.Get(-1))
			c.Pop(1)
			c.Push(failure)
		}
		return results
	}
}

// resumeWrapped resumes a thread and raises its error again, with one more position before it.
func resumeWrapped(c call, thread lua.LValue, resume function) int {
	c.Insert(thread, 1)
	results := resume(c)
	if c.Get(-results) != lua.LFalse {
		return results - 1
	}
	v := c.Get(-1)
	if text, ok := v.(lua.LString); ok {
		v = lua.LString(position(c.LState, 1)) + text
	}
	c.Error(v, 0)
	return 0
}
