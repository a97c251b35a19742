package lua51

import (
	"iter"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// newTable makes a table as a constructor does that has room for so many positions and keys.
func (r *run) newTable(L *lua.LState, positions, keys int) *arrangement {
	l := &arrangement{table: L.CreateTable(positions, keys), array: constructorRoom(positions)}
	l.setNodes(constructorRoom(keys))
	r.arrangements[l.table] = l
	return l
}

// constructorRoom is what a constructor makes room for: Lua writes the number with three binary digits
// behind the first one, rounded up.
func constructorRoom(n int) int {
	exponent := 0
	for n >= 16 {
		n = (n + 1) >> 1
		exponent++
	}
	return n << exponent
}

// helpTable makes a table of the first items of its constructor; see rewriter.constructor.
func helpTable(L *lua.LState) int {
	run := runOf(L)
	room := func(i int) int { return int(L.Get(i).(lua.LNumber)) - 1 }
	l := run.newTable(L, room(1), room(2))
	run.fill(L, l, 1, 3)
	L.Push(l.table)
	return 1
}

func helpMore(L *lua.LState) int {
	t := L.Get(1).(*lua.LTable)
	run := runOf(L)
	run.fill(L, run.arranged(t), int(L.Get(2).(lua.LNumber)), 3)
	L.Push(t)
	return 1
}

// fill stores items, whose shape is argument at, the positions from a given one on. As in Lua keys are
// stored at once and positions behind them.
func (r *run) fill(L *lua.LState, l *arrangement, position, at int) {
	shape := string(L.Get(at).(lua.LString))
	var values []lua.LValue
	for i := range len(shape) {
		if shape[i] == 'v' {
			if at++; at <= L.GetTop() { // a call that stands last may give nothing
				values = append(values, L.Get(at))
			}
			continue
		}
		key := L.Get(at + 1)
		r.checkItemKey(L, key)
		l.place(key)
		l.table.RawSet(key, L.Get(at+2))
		at += 2
	}
	for at++; at <= L.GetTop(); at++ {
		values = append(values, L.Get(at))
	}
	if last := position + len(values) - 1; last > l.array {
		l.resize(last, len(l.nodes))
	}
	for i, v := range values {
		l.table.RawSetInt(position+i, v)
	}
}

// checkItemKey ends the run for a bad key in a constructor of several lines, since it has but one here.
func (r *run) checkItemKey(L *lua.LState, key lua.LValue) {
	if at, _ := caller(L); at.callee.kind == unknownKind {
		defer func() {
			if p := recover(); p != nil {
				r.doubt("the line of an error in a table constructor of several lines")
				panic(p)
			}
		}()
	}
	call{LState: L}.checkKey(key)
}

// helpSet assigns to a field: arguments are the object, the key and the value.
func helpSet(L *lua.LState) int {
	run := runOf(L)
	object, key, value := L.Get(1), L.Get(2), L.Get(3)
	for range maxMetaLoop {
		t, ok := object.(*lua.LTable)
		if !ok {
			cannotUse(L, "index", object)
		}
		if t.Metatable == lua.LNil {
			call{LState: L}.checkKey(key)
			run.store(t, key, value)
			return 0
		}
		if unprotected(t) != t {
			return refuseWrite(L)
		}
		call{LState: L}.checkKey(key)
		run.arranged(t).place(key)
		handler := L.GetMetaField(t, "__newindex")
		if handler == lua.LNil || t.RawGet(key) != lua.LNil {
			t.RawSet(key, value)
			return 0
		}
		if _, isFunction := handler.(*lua.LFunction); isFunction {
			L.Push(handler)
			L.Push(object)
			L.Push(key)
			L.Push(value)
			L.Call(3, 0)
			return 0
		}
		object = handler
	}
	call{LState: L}.fail("loop in settable")
	return 0
}

// maxMetaLoop is how many __newindex are followed.
const maxMetaLoop = 100

func (c call) checkKey(key lua.LValue) {
	if failure := badKey(key); failure != "" {
		c.fail("%s", failure)
	}
}

// badKey is what is wrong with a key for a new field, if anything.
func badKey(key lua.LValue) string {
	if key == lua.LNil {
		return "table index is nil"
	}
	if x, ok := key.(lua.LNumber); ok && math.IsNaN(float64(x)) {
		return "table index is NaN"
	}
	return ""
}

// store sets a field as rawset does.
func (r *run) store(t *lua.LTable, key, value lua.LValue) {
	r.arranged(t).place(key)
	t.RawSet(key, value)
}

// helpLength is #.
func helpLength(L *lua.LState) int {
	switch v := L.Get(1).(type) {
	case lua.LString:
		L.Push(lua.LNumber(len(v)))
	case *lua.LTable:
		L.Push(lua.LNumber(call{LState: L}.length(unprotected(v))))
	default:
		cannotUse(L, "get length of", v)
	}
	return 1
}

func (c call) length(t *lua.LTable) int {
	run := runOf(c.LState)
	l := run.arranged(t)
	n := l.length()
	if l.uncertain != "" && l.hasHoles(n) {
		run.doubt(l.uncertain)
	}
	return n
}

// next is the entry behind a key, in Lua 5.1's order.
func (c call) next(t *lua.LTable, key lua.LValue) (k, v lua.LValue) {
	run := runOf(c.LState)
	l := run.arranged(t)
	run.checkOrder(l)
	k, v, ok := l.next(key)
	if !ok {
		c.raise("invalid key to 'next'")
	}
	return k, v
}

// checkOrder ends a run that asks for an order that Redis itself does not always have.
func (r *run) checkOrder(l *arrangement) {
	if l.uncertain != "" && l.taken() > 1 {
		r.doubt(l.uncertain)
	}
}

// entries are those of a table, in Lua 5.1's order.
func (r *run) entries(t *lua.LTable) iter.Seq2[lua.LValue, lua.LValue] {
	r.checkOrder(r.arranged(t))
	return r.anyOrder(t)
}

// anyOrder is entries for those who do not care in which order.
func (r *run) anyOrder(t *lua.LTable) iter.Seq2[lua.LValue, lua.LValue] {
	l := r.arranged(t)
	return func(yield func(k, v lua.LValue) bool) {
		for k, v, _ := l.next(lua.LNil); k != lua.LNil && yield(k, v); k, v, _ = l.next(k) {
		}
	}
}
