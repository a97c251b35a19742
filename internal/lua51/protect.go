package lua51

import lua "github.com/yuin/gopher-lua"

const readonlyText = "Attempt to modify a readonly table"

// protected returns a table to hand to scripts in place of t: it reads as t does and refuses every
// write. The library functions that go round metatables (pairs, rawget, rawset, ...) look through it
// with unprotected.
func protected(L *lua.LState, t *lua.LTable) *lua.LTable {
	mt := L.NewTable()
	mt.RawSetString("__index", t)
	mt.RawSetString("__newindex", L.NewFunction(refuseWrite))
	mt.RawSet(protection, t)
	proxy := L.NewTable()
	proxy.Metatable = mt
	return proxy
}

// protection is the key under which a proxy's metatable keeps what the proxy stands for. Scripts do not
// get hold of that metatable.
const protection = lua.LBool(true)

// unprotected is the table that t stands for, or t itself.
func unprotected(t *lua.LTable) *lua.LTable {
	mt, ok := t.Metatable.(*lua.LTable)
	if !ok {
		return t
	}
	if inner, ok := mt.RawGet(protection).(*lua.LTable); ok {
		return inner
	}
	return t
}

func refuseWrite(L *lua.LState) int {
	call{LState: L}.fail(readonlyText)
	return 0
}

// unknownGlobal is what reading a global that is not there runs into.
func unknownGlobal(c call) int {
	name, _ := toString(c.Get(2))
	c.fail("Script attempted to access nonexistent global variable '%s'", name)
	return 0
}
