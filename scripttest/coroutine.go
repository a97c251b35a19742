package scripttest

import lua "github.com/yuin/gopher-lua"

// coroutineFunctions are gopher-lua's, save that every coroutine counts its instructions.
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
	create, wrap := functions["create"], functions["wrap"]
	functions["create"] = func(c call) int {
		run := c.RemoveContext()
		create(c)
		c.SetContext(run)
		c.Get(-1).(*lua.LState).SetContext(run)
		return 1
	}
	functions["wrap"] = func(c call) int {
		run := c.RemoveContext()
		wrap(c)
		c.SetContext(run)
		resume := c.Get(-1).(*lua.LFunction)
		resume.Upvalues[0].Value().(*lua.LState).SetContext(run)
		return 1
	}
	return functions
}
