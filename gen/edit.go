package main

import (
	"slices"
	"strings"
)

// An editor puts texts in the place of bytes of a source, where the syntax tree says that something stands.
type editor struct {
	tree   *chunk
	source string
	edits  []replacement
}

type replacement struct {
	from, to int
	text     string
}

func (e *editor) replace(from, to int, text string) {
	e.edits = append(e.edits, replacement{from, to, text})
}

// text is a piece of the source with what was replaced in it.
func (e *editor) text(from, to int) string {
	slices.SortStableFunc(e.edits, func(a, b replacement) int { return a.from - b.from })
	var b strings.Builder
	for _, r := range e.edits {
		if r.from >= from && r.to <= to {
			b.WriteString(e.source[from:r.from] + r.text)
			from = r.to
		}
	}
	return b.String() + e.source[from:to]
}

// lineStart is where a line begins, counted from 1.
func lineStart(source string, line int) int {
	at := 0
	for range line - 1 {
		at += strings.Index(source[at:], "\n") + 1
	}
	return at
}
