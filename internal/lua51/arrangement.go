package lua51

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// arrangement says where Lua 5.1 keeps the entries of a table: the order of next, and what # gives for an array
// with holes, follow from nothing else. The values themselves are in the gopher-lua table beside it.
//
// A table has places for the indices 1 to array, and nodes for all other keys: a hash table whose chains run
// through the nodes themselves. Every key has a main node; one whose main node is taken moves to the last
// free node. When none is free, all keys are counted and both parts are made again.
type arrangement struct {
	table *lua.LTable
	array int
	nodes []node
	free  int // nodes from here on have been taken at some time

	fixed []lua.LValue // the keys of a library's table, which never changes

	// uncertain says why Redis itself may have another order from one run to the next, else "".
	uncertain string
}

type node struct {
	key  lua.LValue // nil: never taken
	next int        // the node that goes on with the chain, or noNode
}

const (
	noNode = -1

	maxArrayBits = 26 // an array part has up to 2^26 places
)

// arranged is the arrangement of a table. Tables that the script did not make have their entries as the server
// puts them there: indices first, from 1 on, then names.
func (r *run) arranged(t *lua.LTable) *arrangement {
	if l, ok := r.arrangements[t]; ok {
		return l
	}
	if keys := r.redis.lib.keysOf(t); keys != nil {
		return &arrangement{table: t, fixed: keys}
	}
	l := &arrangement{table: t, array: ceilPower2(t.MaxN())}
	if n, ok := t.RawGetString("n").(lua.LNumber); ok {
		l.array = int(n) // it is the arg of a function that takes ...
		l.setNodes(1)
	}
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		if _, isIndex := arrayIndex(k); !isIndex {
			l.place(k)
		}
	}
	r.arrangements[t] = l
	return l
}

func ceilPower2(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

// arrayIndex is a key as a place of an array part, if it can be one.
func arrayIndex(key lua.LValue) (int, bool) {
	x, ok := key.(lua.LNumber)
	if i := int(x); ok && lua.LNumber(i) == x && i >= 1 && i <= 1<<maxArrayBits {
		return i, true
	}
	return 0, false
}

func (l *arrangement) present(key lua.LValue) bool { return l.table.RawGet(key) != lua.LNil }

// place makes sure that a key has a place. It does not change the value.
func (l *arrangement) place(key lua.LValue) {
	if i, ok := arrayIndex(key); ok && i <= l.array {
		return
	}
	if l.find(key) != noNode {
		if _, isText := key.(lua.LString); isText && !l.present(key) {
			l.uncertain = "the order of a table in which a removed name is set again: it depends on when Redis collects garbage"
		}
		return
	}
	l.insert(key)
}

// find is the node of a key, or noNode.
func (l *arrangement) find(key lua.LValue) int {
	if len(l.nodes) == 0 {
		return noNode
	}
	for n := l.mainNode(key); n != noNode; n = l.nodes[n].next {
		if l.nodes[n].key == key {
			return n
		}
	}
	return noNode
}

func (l *arrangement) insert(key lua.LValue) {
	if len(l.nodes) == 0 {
		l.rehash(key)
		return
	}
	main := l.mainNode(key)
	if occupant := l.nodes[main].key; occupant == nil || !l.present(occupant) {
		l.nodes[main].key = key
		return
	}
	free := l.takeFree()
	if free == noNode {
		l.rehash(key)
		return
	}
	other := l.mainNode(l.nodes[main].key)
	if other == main {
		l.nodes[free] = node{key, l.nodes[main].next}
		l.nodes[main].next = free
		return
	}
	for l.nodes[other].next != main {
		other = l.nodes[other].next
	}
	l.nodes[other].next = free
	l.nodes[free] = l.nodes[main]
	l.nodes[main] = node{key, noNode}
}

func (l *arrangement) takeFree() int {
	for l.free > 0 {
		l.free--
		if l.nodes[l.free].key == nil {
			return l.free
		}
	}
	return noNode
}

// rehash makes room for one more key: the array part becomes the largest that is more than half full.
func (l *arrangement) rehash(key lua.LValue) {
	var counts [maxArrayBits + 1]int // of the indices above 2^(i-1), up to 2^i
	indices, all := 0, 1
	count := func(key lua.LValue) {
		if i, ok := arrayIndex(key); ok {
			counts[bits.Len(uint(i-1))]++
			indices++
		}
	}
	for i := 1; i <= l.array; i++ {
		if l.table.RawGetInt(i) != lua.LNil {
			count(lua.LNumber(i))
			all++
		}
	}
	for _, n := range l.nodes {
		if n.key != nil && l.present(n.key) {
			count(n.key)
			all++
		}
	}
	count(key)
	array, inArray := bestArray(&counts, indices)
	l.resize(array, all-inArray)
	l.place(key)
}

func bestArray(counts *[maxArrayBits + 1]int, indices int) (size, inside int) {
	below := 0
	for i, power := 0, 1; power/2 < indices; i, power = i+1, power*2 {
		below += counts[i]
		if counts[i] > 0 && below > power/2 {
			size, inside = power, below
		}
		if below == indices {
			break
		}
	}
	return size, inside
}

// resize makes both parts again, with room for at least that many nodes.
func (l *arrangement) resize(array, room int) {
	oldArray, oldNodes := l.array, l.nodes
	l.array = array
	l.setNodes(room)
	for i := array + 1; i <= oldArray; i++ {
		if l.table.RawGetInt(i) != lua.LNil {
			l.insert(lua.LNumber(i))
		}
	}
	for i := len(oldNodes) - 1; i >= 0; i-- {
		if key := oldNodes[i].key; key != nil && l.present(key) && !l.inArray(key) {
			l.insert(key)
		}
	}
}

func (l *arrangement) inArray(key lua.LValue) bool {
	i, ok := arrayIndex(key)
	return ok && i <= l.array
}

func (l *arrangement) setNodes(room int) {
	l.nodes = make([]node, ceilPower2(room))
	for i := range l.nodes {
		l.nodes[i].next = noNode
	}
	l.free = len(l.nodes)
}

func (l *arrangement) mainNode(key lua.LValue) int {
	size := len(l.nodes)
	odd := uint32(size-1) | 1
	switch key := key.(type) {
	case lua.LString:
		return int(textHash(string(key)) & uint32(size-1))
	case lua.LNumber:
		return int(numberHash(float64(key)) % odd)
	case lua.LBool:
		if key {
			return 1 & (size - 1)
		}
		return 0
	case *lua.LUserData: // cjson.null, the address 0
		return 0
	}
	l.uncertain = "the order of a table that has a " + key.Type().String() + " for a key: it depends on addresses"
	return 0
}

// textHash takes every byte, the last one first; only Lua as it is released leaves some out.
func textHash(s string) uint32 {
	h := uint32(len(s))
	for i := len(s) - 1; i >= 0; i-- {
		h ^= h<<5 + h>>2 + uint32(s[i])
	}
	return h
}

func numberHash(x float64) uint32 {
	if x == 0 {
		return 0 // of either sign
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], math.Float64bits(x))
	return binary.LittleEndian.Uint32(word[:4]) + binary.LittleEndian.Uint32(word[4:])
}

// next is the entry behind a key, nil for the first: ok is false of a key that has no place.
func (l *arrangement) next(key lua.LValue) (k, v lua.LValue, ok bool) {
	if l.fixed != nil {
		return l.nextFixed(key)
	}
	at := 0
	if i, isIndex := arrayIndex(key); isIndex && i <= l.array {
		at = i
	} else if key != lua.LNil {
		n := l.find(key)
		if n == noNode {
			return lua.LNil, lua.LNil, false
		}
		at = l.array + n + 1
	}
	for ; at < l.array; at++ {
		if v := l.table.RawGetInt(at + 1); v != lua.LNil {
			return lua.LNumber(at + 1), v, true
		}
	}
	for _, n := range l.nodes[at-l.array:] {
		if n.key == nil {
			continue
		}
		if v := l.table.RawGet(n.key); v != lua.LNil {
			return n.key, v, true
		}
	}
	return lua.LNil, lua.LNil, true
}

func (l *arrangement) nextFixed(key lua.LValue) (k, v lua.LValue, ok bool) {
	at := slices.Index(l.fixed, key) + 1
	if at == 0 && key != lua.LNil {
		return lua.LNil, lua.LNil, false
	}
	for _, k := range l.fixed[at:] {
		if v := l.table.RawGet(k); v != lua.LNil {
			return k, v, true
		}
	}
	return lua.LNil, lua.LNil, true
}

// length is what # gives: some index n such that n is there, or 0, and n + 1 is not.
func (l *arrangement) length() int {
	there := func(i int) bool { return l.table.RawGetInt(i) != lua.LNil }
	low, high := 0, l.array
	if high == 0 || there(high) {
		if len(l.nodes) == 0 {
			return high
		}
		low, high = high, high+1
		for there(high) {
			low, high = high, high*2
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; there(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// hasHoles reports whether # might give something else than n.
func (l *arrangement) hasHoles(n int) bool {
	for i := 1; i <= n; i++ {
		if l.table.RawGetInt(i) == lua.LNil {
			return true
		}
	}
	return l.table.MaxN() != n
}

// taken is how many keys with values are in nodes.
func (l *arrangement) taken() (n int) {
	for _, node := range l.nodes {
		if node.key != nil && l.present(node.key) {
			n++
		}
	}
	return n
}
