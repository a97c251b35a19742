package lua51

import (
	"fmt"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// library is what Redis puts into Lua before a script runs. It is made once a server and shared by its
// runs: scripts cannot write to it, and its functions find their run in the thread that calls them.
type library struct {
	globals    *lua.LTable  // _G
	env        *lua.LTable  // _G as scripts get it
	strings    *lua.LTable  // the metatable of strings
	primitives *lua.LTable  // the metatable of what else is neither table nor userdata
	types      []lua.LValue // a value of each type that has it
	helpers    []lua.LValue // as helperNames
	common     *lua.LTable  // _G, which this one copies
	maker      *lua.LState  // that made it
}

// stateOptions size a Lua state: small to begin with, since a fresh one serves every run.
func stateOptions() lua.Options {
	return lua.Options{
		SkipOpenLibs:        true,
		CallStackSize:       4096, // calls within calls; Lua 5.1 has 20000
		MinimizeStackMemory: true,
		RegistrySize:        512,
		RegistryGrowStep:    4096,
		RegistryMaxSize:     1 << 18,
	}
}

// newLibrary makes the library of a server. All but _G is the same for all servers, and never written to.
func newLibrary() *library {
	lib := *commonLibrary()
	lib.common = lib.globals
	L := lib.maker
	lib.setGlobals(L)
	lib.common.ForEach(lib.globals.RawSet)
	lib.globals.Metatable = lib.common.Metatable
	lib.globals.RawSetString("_G", lib.env)
	return &lib
}

func (lib *library) setGlobals(L *lua.LState) {
	lib.globals = L.NewTable()
	lib.env = protected(L, lib.globals)
}

var commonLibrary = sync.OnceValue(func() *library {
	L := lua.NewState(stateOptions())
	lib := &library{maker: L}
	lib.setGlobals(L)
	lib.primitives = primitiveMeta(L)
	lib.types = []lua.LValue{lua.LNil, lua.LTrue, lua.LNumber(0), L.NewFunction(refuseWrite)}
	for _, f := range helperFunctions() {
		lib.helpers = append(lib.helpers, L.NewFunction(f))
	}
	lib.fill(L)
	return lib
})

func (lib *library) fill(L *lua.LState) {
	lib.register(L, lib.globals, baseFunctions())
	lib.globals.RawSetString("_G", lib.env)
	lib.globals.RawSetString("_VERSION", lua.LString("Lua 5.1"))

	lib.strings = stringMeta(L, lib.module(L, "string", stringFunctions()))
	lib.module(L, "table", tableFunctions())
	lib.module(L, "math", mathFunctions())
	lib.constants("math", mathConstants())
	lib.module(L, "coroutine", refusedAll("coroutine", "create", "resume", "running", "status", "wrap", "yield"))
	lib.module(L, "bit", refusedAll("bit", "arshift", "band", "bnot", "bor", "bswap", "bxor", "lshift", "rol", "ror",
		"rshift", "tobit", "tohex"))
	lib.module(L, "struct", structFunctions())
	lib.module(L, "cjson", refusedAll("cjson", "decode", "encode"))
	lib.module(L, "cmsgpack", refusedAll("cmsgpack", "pack", "unpack", "unpack_limit", "unpack_one"))
	lib.module(L, "redis", redisFunctions())
	lib.constants("redis", redisConstants())

	mt := L.NewTable()
	mt.RawSetString("__index", L.NewFunction(bound("", unknownGlobal)))
	lib.globals.Metatable = mt
}

// module makes a global table of functions and returns it as scripts get it.
func (lib *library) module(L *lua.LState, name string, functions map[string]function) *lua.LTable {
	t := L.NewTable()
	lib.register(L, t, functions)
	proxy := protected(L, t)
	lib.globals.RawSetString(name, proxy)
	return proxy
}

func (lib *library) register(L *lua.LState, t *lua.LTable, functions map[string]function) {
	for name, f := range functions {
		t.RawSetString(name, L.NewFunction(bound(name, f)))
	}
}

func (lib *library) constants(module string, values map[string]lua.LValue) {
	t := unprotected(lib.globals.RawGetString(module).(*lua.LTable))
	for name, v := range values {
		t.RawSetString(name, v)
	}
}

// bound gives a library function its name. A fault of the function itself, as opposed to a Lua error,
// ends the run, so that it is not taken for something the script did.
func bound(name string, f function) lua.LGFunction {
	return func(L *lua.LState) int {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case *lua.ApiError:
				panic(p)
			default:
				runOf(L).fault = fmt.Errorf("scripttest: %s: %v", name, p)
				panic(p)
			}
		}()
		return f(call{LState: L, name: name})
	}
}

func (lib *library) newState(r *run, keys, args []string) *lua.LState {
	L := lua.NewState(stateOptions())
	L.G.Global, L.Env = lib.globals, lib.env
	for _, v := range lib.types {
		L.SetMetatable(v, lib.primitives)
	}
	L.SetMetatable(lua.LString(""), lib.strings)
	lib.globals.RawSetString("KEYS", stringTable(L, keys))
	lib.globals.RawSetString("ARGV", stringTable(L, args))
	L.SetContext(r)
	return L
}

func stringTable(L *lua.LState, items []string) *lua.LTable {
	t := L.CreateTable(len(items), 0)
	for _, item := range items {
		t.Append(lua.LString(item))
	}
	return t
}

func (lib *library) instantiate(L *lua.LState, proto *lua.FunctionProto) *lua.LFunction {
	L.Push(L.NewFunctionFromProto(proto))
	for _, helper := range lib.helpers {
		L.Push(helper)
	}
	L.Call(len(lib.helpers), 1)
	f := L.Get(-1).(*lua.LFunction)
	L.Pop(1)
	return f
}
