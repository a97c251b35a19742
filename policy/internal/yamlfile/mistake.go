package yamlfile

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

// Mistakes is what is wrong in a file, in the order of its lines: everything, but no more than 1000. In what is not
// YAML, and in an expression that is not CEL, it may be only the first thing. Parse and Load return it as their error:
// find it with errors.AsType.
type Mistakes []Mistake

const (
	maxMistakes  = 1000 // where the reading ends
	maxShown     = 20
	maxTextShown = 1000 // of a mistake, in bytes
)

// Error has a line for each of the first 20 mistakes, and one that says how many more there are.
func (m Mistakes) Error() string {
	var lines []string
	for _, one := range m[:min(len(m), maxShown)] {
		lines = append(lines, one.Error())
	}
	switch more := len(m) - maxShown; {
	case len(m) == maxMistakes:
		lines = append(lines, fmt.Sprintf("%s: and at least %d more", m[0].File, more))
	case more > 0:
		lines = append(lines, fmt.Sprintf("%s: and %d more", m[0].File, more))
	}
	return strings.Join(lines, "\n")
}

// short cuts what a file makes long.
func short(text string) string {
	if len(text) <= maxTextShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextShown], "") + ".."
}

// Sorted returns the mistakes in the order of their places.
func (m Mistakes) Sorted() Mistakes {
	slices.SortStableFunc(m, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return m
}
