package lua51

import lua "github.com/yuin/gopher-lua"

// sorter sorts a table in place by the steps of Lua 5.1's own quicksort, so that elements that compare
// equal end up in the order they have on Redis.
type sorter struct {
	call    call
	table   *lua.LTable
	compare *lua.LFunction // nil: <
}

func tableSort(c call) int {
	n := c.length(c.table(1))
	s := sorter{call: c, table: c.table(1)}
	if c.Get(2) != lua.LNil {
		s.compare = c.function(2)
	}
	s.sort(1, n)
	return 0
}

// sort sorts the elements from low to high: the shorter part by recursion, the longer in the loop.
func (s sorter) sort(low, high int) {
	for low < high {
		s.order(low, high)
		if high-low == 1 {
			return
		}
		middle := (low + high) / 2
		if s.less(s.at(middle), s.at(low)) {
			s.swap(middle, low)
		} else {
			s.order(middle, high)
		}
		if high-low == 2 {
			return
		}
		pivot := s.partition(low, high, middle)
		if pivot-low < high-pivot {
			s.sort(low, pivot-1)
			low = pivot + 1
		} else {
			s.sort(pivot+1, high)
			high = pivot - 1
		}
	}
}

// partition puts the middle element where it belongs, smaller ones before and larger ones behind it, and
// returns its place. The elements at low and high are in order to it already.
func (s sorter) partition(low, high, middle int) int {
	pivot := s.at(middle)
	s.swap(middle, high-1)
	i, j := low, high-1
	for {
		for i++; s.less(s.at(i), pivot); i++ {
			s.within(i, low, high)
		}
		for j--; s.less(pivot, s.at(j)); j-- {
			s.within(j, low, high)
		}
		if j < i {
			break
		}
		s.swap(i, j)
	}
	s.swap(high-1, i)
	return i
}

// within refuses an order that led out of the part being sorted.
func (s sorter) within(i, low, high int) {
	if i > high || i < low {
		s.call.fail("invalid order function for sorting")
	}
}

func (s sorter) order(i, j int) {
	if s.less(s.at(j), s.at(i)) {
		s.swap(i, j)
	}
}

func (s sorter) at(i int) lua.LValue { return s.table.RawGet(lua.LNumber(i)) }

func (s sorter) swap(i, j int) {
	a, b := s.at(i), s.at(j)
	run := runOf(s.call.LState)
	s.call.writable(1)
	run.store(s.table, lua.LNumber(i), b)
	run.store(s.table, lua.LNumber(j), a)
}

// lessThan is <, except that Lua gives no position to an error inside of sort.
func (s sorter) lessThan(a, b lua.LValue) bool {
	_, number := a.(lua.LNumber)
	_, text := a.(lua.LString)
	_, table := a.(*lua.LTable)
	if a.Type() != b.Type() || !number && !text && !table {
		s.call.raise(compareText("attempt to compare " + a.Type().String() + " with " + b.Type().String()))
	}
	return s.call.LessThan(a, b)
}

func (s sorter) less(a, b lua.LValue) bool {
	if s.compare == nil {
		return s.lessThan(a, b)
	}
	callMeta(s.call.LState, s.compare, a, b)
	result := lua.LVAsBool(s.call.Get(-1))
	s.call.Pop(1)
	return result
}
