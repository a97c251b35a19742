package lua51

import (
	"bytes"

	lua "github.com/yuin/gopher-lua"
)

// maxCaptures is Lua 5.1's LUA_MAXCAPTURES.
const maxCaptures = 32

// maxMatchSteps ends a pattern that backtracks without end in sight.
const maxMatchSteps = 5_000_000

// What the length of a capture says when it is not a length.
const (
	captureOpen     = -1
	capturePosition = -2
)

type capture struct {
	start, length int
}

// matcher matches one pattern against one subject, as Lua 5.1 does.
type matcher struct {
	call     call
	subject  string
	pattern  string // without its anchor
	anchored bool
	captures []capture
	steps    int
}

func newMatcher(c call, subject, pattern string) *matcher {
	pattern = cString(pattern)
	m := &matcher{call: c, subject: subject, pattern: pattern}
	if pattern != "" && pattern[0] == '^' {
		m.anchored, m.pattern = true, pattern[1:]
	}
	return m
}

// matchAt matches the whole pattern at a position of the subject: where the match ends, or -1.
func (m *matcher) matchAt(s int) int {
	m.captures = m.captures[:0]
	return m.match(s, 0)
}

// match matches the pattern from p at s. It returns the end of the match, or -1.
func (m *matcher) match(s, p int) int {
	for {
		m.step()
		if p == len(m.pattern) {
			return s
		}
		switch m.pattern[p] {
		case '(':
			return m.openCapture(s, p)
		case ')':
			return m.closeCapture(s, p+1)
		case '$':
			if p+1 == len(m.pattern) {
				if s == len(m.subject) {
					return s
				}
				return -1
			}
		case '%':
			if next, end, special := m.matchSpecial(s, p); special {
				if next < 0 {
					return -1
				}
				s, p = next, end
				continue
			}
		}
		var done bool
		if s, p, done = m.item(s, p, m.classEnd(p)); done {
			return s
		}
	}
}

// item matches the single-character item from p to end, with its suffix. If that completes the match, it returns the
// result and true. Otherwise it returns where the match continues in the subject and in the pattern.
func (m *matcher) item(s, p, end int) (next, rest int, done bool) {
	switch m.suffix(end) {
	case '?':
		if m.single(s, p, end) {
			if e := m.match(s+1, end+1); e >= 0 {
				return e, 0, true
			}
		}
		return s, end + 1, false
	case '*':
		return m.longest(s, p, end), 0, true
	case '+':
		if !m.single(s, p, end) {
			return -1, 0, true
		}
		return m.longest(s+1, p, end), 0, true
	case '-':
		return m.shortest(s, p, end), 0, true
	}
	if !m.single(s, p, end) {
		return -1, 0, true
	}
	return s + 1, end, false
}

func (m *matcher) step() {
	if m.steps++; m.steps > maxMatchSteps {
		run := runOf(m.call.LState)
		run.end(m.call.LState, &BudgetError{Script: run.script.Name, Budget: run.budget})
	}
}

func (m *matcher) suffix(end int) byte {
	if end < len(m.pattern) {
		return m.pattern[end]
	}
	return 0
}

// matchSpecial handles %b, %f and %1 to %9: where the subject and the pattern go on.
func (m *matcher) matchSpecial(s, p int) (next, end int, special bool) {
	if p+1 >= len(m.pattern) {
		return 0, 0, false
	}
	switch k := m.pattern[p+1]; {
	case k == 'b':
		return m.balanced(s, p+2), p + 4, true
	case k == 'f':
		end := m.frontierEnd(p + 2)
		if !m.frontier(s, p+2, end) {
			s = -1
		}
		return s, end, true
	case isDigit(k):
		return m.backReference(s, k), p + 2, true
	}
	return 0, 0, false
}

func (m *matcher) openCapture(s, p int) int {
	if len(m.captures) >= maxCaptures {
		m.call.fail("too many captures")
	}
	length := captureOpen
	p++
	if p < len(m.pattern) && m.pattern[p] == ')' {
		length = capturePosition
		p++
	}
	level := len(m.captures)
	m.captures = append(m.captures, capture{s, length})
	end := m.match(s, p)
	if end < 0 {
		m.captures = m.captures[:level]
	}
	return end
}

func (m *matcher) closeCapture(s, p int) int {
	level := len(m.captures) - 1
	for level >= 0 && m.captures[level].length != captureOpen {
		level--
	}
	if level < 0 {
		m.call.fail("invalid pattern capture")
	}
	m.captures[level].length = s - m.captures[level].start
	end := m.match(s, p)
	if end < 0 {
		m.captures[level].length = captureOpen
	}
	return end
}

// longest matches as many of an item as there are, and gives back one after the other.
func (m *matcher) longest(s, p, end int) int {
	n := 0
	for m.single(s+n, p, end) {
		n++
	}
	for ; n >= 0; n-- {
		if e := m.match(s+n, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

func (m *matcher) shortest(s, p, end int) int {
	for {
		if e := m.match(s, end+1); e >= 0 {
			return e
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

// classEnd is where the item that begins at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.pattern[p]
	p++
	switch c {
	case '%':
		if p == len(m.pattern) {
			m.call.fail("malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		return m.setEnd(p)
	}
	return p
}

// setEnd is where the set whose inside begins at p ends, after its bracket.
func (m *matcher) setEnd(p int) int {
	if p < len(m.pattern) && m.pattern[p] == '^' {
		p++
	}
	for first := true; ; first = false {
		if p >= len(m.pattern) {
			m.call.fail("malformed pattern (missing ']')")
		}
		switch {
		case m.pattern[p] == ']' && !first:
			return p + 1
		case m.pattern[p] == '%':
			p++
		}
		p++
	}
}

func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.subject) {
		return false
	}
	c := m.subject[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return inSet(c, m.pattern[p+1:end-1])
	}
	return c == m.pattern[p]
}

// inSet reports whether c is in a set; inside is what stands between its brackets.
func inSet(c byte, inside string) bool {
	want := true
	if inside != "" && inside[0] == '^' {
		want, inside = false, inside[1:]
	}
	for i := 0; i < len(inside); i++ {
		switch {
		case inside[i] == '%' && i+1 < len(inside):
			i++
			if inClass(c, inside[i]) {
				return want
			}
		case i+2 < len(inside) && inside[i+1] == '-':
			if inside[i] <= c && c <= inside[i+2] {
				return want
			}
			i += 2
		case inside[i] == c:
			return want
		}
	}
	return !want
}

// inClass reports whether c is in the class %k; a capital letter is the complement.
func inClass(c, k byte) bool {
	var in bool
	switch k | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = isControl(c)
	case 'd':
		in = isDigit(c)
	case 'l':
		in = isLower(c)
	case 'p':
		in = isPunct(c)
	case 's':
		in = isSpace(c)
	case 'u':
		in = isUpper(c)
	case 'w':
		in = isAlnum(c)
	case 'x':
		in = isHexDigit(c)
	case 'z':
		in = c == 0
	default:
		return k == c
	}
	return in != isUpper(k)
}

// balanced is %bxy: where the text that begins with x at s and ends with its y ends.
func (m *matcher) balanced(s, p int) int {
	if p+1 >= len(m.pattern) {
		m.call.fail("unbalanced pattern")
	}
	if s >= len(m.subject) || m.subject[s] != m.pattern[p] {
		return -1
	}
	open, shut := m.pattern[p], m.pattern[p+1]
	depth := 1
	for i := s + 1; i < len(m.subject); i++ {
		switch m.subject[i] {
		case shut:
			if depth--; depth == 0 {
				return i + 1
			}
		case open:
			depth++
		}
	}
	return -1
}

func (m *matcher) frontierEnd(p int) int {
	if p >= len(m.pattern) || m.pattern[p] != '[' {
		m.call.fail("missing '[' after '%%f' in pattern")
	}
	return m.classEnd(p)
}

// frontier is %f[set]: the byte before s is not in the set and the one at s is; beyond the ends is NUL.
func (m *matcher) frontier(s, p, end int) bool {
	set := m.pattern[p+1 : end-1]
	before, at := byte(0), byte(0)
	if s > 0 {
		before = m.subject[s-1]
	}
	if s < len(m.subject) {
		at = m.subject[s]
	}
	return !inSet(before, set) && inSet(at, set)
}

// backReference matches what capture k holds again.
func (m *matcher) backReference(s int, k byte) int {
	i := int(k) - '1'
	if i < 0 || i >= len(m.captures) || m.captures[i].length == captureOpen {
		m.call.fail("invalid capture index")
	}
	c := m.captures[i]
	if c.length < 0 {
		return -1
	}
	text := m.subject[c.start : c.start+c.length]
	if len(m.subject)-s >= len(text) && m.subject[s:s+len(text)] == text {
		return s + len(text)
	}
	return -1
}

// capture is the i-th capture of a match, or all of the match when the pattern has none.
func (m *matcher) capture(i, start, end int) lua.LValue {
	if i >= len(m.captures) {
		if i > 0 {
			m.call.fail("invalid capture index")
		}
		return lua.LString(m.subject[start:end])
	}
	c := m.captures[i]
	switch c.length {
	case captureOpen:
		m.call.fail("unfinished capture")
	case capturePosition:
		return lua.LNumber(c.start + 1)
	}
	return lua.LString(m.subject[c.start : c.start+c.length])
}

// pushCaptures pushes all captures and returns their number; without any it pushes the match if whole
// says so.
func (m *matcher) pushCaptures(start, end int, whole bool) int {
	n := len(m.captures)
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.call.Push(m.capture(i, start, end))
	}
	return n
}

// expand writes a replacement text: %0 to %9 are captures, % before anything else is that.
func (m *matcher) expand(out *bytes.Buffer, template string, start, end int) {
	for i := 0; i < len(template); i++ {
		if template[i] != '%' {
			out.WriteByte(template[i])
			continue
		}
		i++
		switch {
		case i >= len(template): // Lua finds the NUL that ends the string
			out.WriteByte(0)
		case !isDigit(template[i]):
			out.WriteByte(template[i])
		case template[i] == '0':
			out.WriteString(m.subject[start:end])
		default:
			text, _ := toString(m.capture(int(template[i]-'1'), start, end))
			out.WriteString(text)
		}
	}
}

// replace writes what a function or table gave for a match; nil and false leave it as it is.
func (m *matcher) replace(out *bytes.Buffer, v lua.LValue, start, end int) {
	if !lua.LVAsBool(v) {
		out.WriteString(m.subject[start:end])
		return
	}
	text, ok := toString(v)
	if !ok {
		m.call.fail("invalid replacement value (a %s)", v.Type())
	}
	out.WriteString(text)
}
