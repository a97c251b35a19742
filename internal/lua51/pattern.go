package lua51

import (
	"bytes"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/pm"
)

const (
	maxCaptures = 32 // Lua 5.1's LUA_MAXCAPTURES
	// maxMatchSteps bounds what a pattern may take, which the budget of a run does not count.
	maxMatchSteps = 1e9
)

// matches are the places in a subject, from an offset on, that match a pattern: up to limit of them, or all if that is
// -1. What gopher-lua's patterns do not do as Lua 5.1's ends the run.
func (c call) matches(subject, pattern string, offset, limit int) []match {
	pattern = cString(pattern)
	c.checkPattern(subject, pattern)
	found, err := pm.Find(pattern, []byte(subject), offset, limit)
	if err != nil {
		c.unsupported("the error text of a pattern: " + err.Error())
	}
	all := make([]match, len(found))
	for i, places := range found {
		all[i] = match{MatchData: places, subject: subject}
	}
	return all
}

func (c call) checkPattern(subject, pattern string) {
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			continue
		}
		i++
		if i == len(pattern) || strings.IndexByte("bf0123456789", pattern[i]) >= 0 {
			c.unsupported("the pattern " + pattern)
		}
	}
	repeats := strings.Count(pattern, "*") + strings.Count(pattern, "+") + strings.Count(pattern, "-")
	steps := math.Pow(float64(len(subject)), float64(repeats)) * math.Pow(2, float64(strings.Count(pattern, "?")))
	if strings.Count(pattern, "(") > maxCaptures || steps > maxMatchSteps {
		c.unsupported("the pattern " + pattern + " on so long a string")
	}
}

// match is one place in a subject that matches: its first two captures are where it begins and ends.
type match struct {
	*pm.MatchData
	subject string
}

func (m match) start() int { return m.Capture(0) }
func (m match) end() int   { return m.Capture(1) }

// captures are what a pattern captures, or the whole match where it has no captures and whole asks for that.
func (m match) captures(whole bool) []lua.LValue {
	if m.CaptureLength() == 2 && whole {
		return []lua.LValue{m.value(0)}
	}
	values := make([]lua.LValue, 0, m.CaptureLength()/2)
	for i := 2; i < m.CaptureLength(); i += 2 {
		values = append(values, m.value(i))
	}
	return values
}

// value is the capture whose places begin at i. () captures a position.
func (m match) value(i int) lua.LValue {
	if m.IsPosCapture(i) {
		return lua.LNumber(m.Capture(i))
	}
	return lua.LString(m.subject[m.Capture(i):m.Capture(i+1)])
}

// expand writes a replacement text: %0 to %9 are captures, % before anything else is that.
func (c call) expand(out *bytes.Buffer, m match, template string) {
	for i := 0; i < len(template); i++ {
		if template[i] != '%' {
			out.WriteByte(template[i])
			continue
		}
		i++
		if i == len(template) {
			c.unsupported("a replacement that ends with %")
		}
		if !isDigit(template[i]) {
			out.WriteByte(template[i])
			continue
		}
		values := append([]lua.LValue{m.value(0)}, m.captures(true)...)
		k := int(template[i] - '0')
		if k >= len(values) {
			c.fail("invalid capture index")
		}
		text, _ := toString(values[k])
		out.WriteString(text)
	}
}

// replace writes what a function or table gave for a match; nil and false leave it as it is.
func (c call) replace(out *bytes.Buffer, m match, v lua.LValue) {
	if !lua.LVAsBool(v) {
		out.WriteString(m.subject[m.start():m.end()])
		return
	}
	text, ok := toString(v)
	if !ok {
		c.fail("invalid replacement value (a %s)", v.Type())
	}
	out.WriteString(text)
}
