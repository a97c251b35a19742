package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong in a file, and what would be right.
type Mistake struct {
	File         string
	Line, Column int // from 1; the column counts characters
	What         string
	Want         string
}

// Error is `file:line:column: what: want what`.
func (m Mistake) Error() string {
	text := fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.What)
	if m.Want != "" {
		text += ": want " + m.Want
	}
	return text
}

// Mistakes is everything that is wrong in a file, in the order of its lines. Parse and Load return it as their error:
// find it with errors.As.
type Mistakes []Mistake

// Error has a line for each mistake.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i := range m {
		lines[i] = m[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the mistakes in the order of their places.
func (m Mistakes) sorted() Mistakes {
	slices.SortStableFunc(m, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return m
}
