package main

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

const refusalsFile = "testdata/refusals.txt"

// A refusalCase is one of testdata/refusals.txt, which explains itself.
type refusalCase struct {
	name, script string
	hunks        []hunk
	want         []string
}

// A hunk is lines of a script and those that stand in their place.
type hunk struct{ old, new []string }

// Refusals of the text of one script.
func TestRefusals(t *testing.T) {
	cases, comment := readRefusals(t)
	tree := smallTree(t)
	for i := range cases {
		c := &cases[i]
		t.Run(c.name, func(t *testing.T) {
			_, err := parseScript(tree, "scripts/"+c.script, c.source(t, tree))
			if err == nil {
				t.Fatal("not refused")
			}
			got := strings.Split(err.Error(), "\n")
			if *update {
				c.want = got
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	if *update {
		writeRefusals(t, cases, comment)
	}
}

// source is the changed script.
func (c *refusalCase) source(t testing.TB, tree fs.FS) string {
	t.Helper()
	source, err := fs.ReadFile(tree, "scripts/"+c.script)
	must(t, err)
	text := "\n" + string(source)
	for _, h := range c.hunks {
		old := "\n" + strings.Join(append(h.old, ""), "\n")
		if strings.Count(text, old) != 1 {
			t.Fatalf("%s holds these lines %d times, want once:%s", c.script, strings.Count(text, old), old)
		}
		text = strings.Replace(text, old, "\n"+strings.Join(append(h.new, ""), "\n"), 1)
	}
	return text[1:]
}

func readRefusals(t testing.TB) (cases []refusalCase, comment string) {
	t.Helper()
	text, err := os.ReadFile(refusalsFile)
	must(t, err)
	comment, _, _ = strings.Cut(string(text), "\n=")
	for i, line := range strings.Split(strings.TrimPrefix(string(text), comment), "\n") {
		if line == "" {
			continue
		}
		if line[0] == '=' {
			script, name, _ := strings.Cut(strings.TrimPrefix(line, "= "), ": ")
			cases = append(cases, refusalCase{name: name, script: script})
			continue
		}
		c := &cases[len(cases)-1]
		if !c.add(line[0], strings.TrimPrefix(line[1:], " ")) {
			t.Fatalf("%s: the line %d behind the comment begins with %q, want =, -, + or !", refusalsFile, i, line[0])
		}
	}
	return cases, comment
}

func (c *refusalCase) add(kind byte, line string) bool {
	last := len(c.hunks) - 1
	switch {
	case kind == '!':
		c.want = append(c.want, line)
	case kind == '-' && (last < 0 || len(c.hunks[last].new) > 0):
		c.hunks = append(c.hunks, hunk{old: []string{line}})
	case kind == '-':
		c.hunks[last].old = append(c.hunks[last].old, line)
	case kind == '+' && last >= 0:
		c.hunks[last].new = append(c.hunks[last].new, line)
	default:
		return false
	}
	return true
}

func writeRefusals(t *testing.T, cases []refusalCase, comment string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(comment)
	for _, c := range cases {
		b.WriteString("\n= " + c.script + ": " + c.name + "\n")
		for _, h := range c.hunks {
			writeLines(&b, "-", h.old)
			writeLines(&b, "+", h.new)
		}
		writeLines(&b, "!", c.want)
	}
	must(t, os.WriteFile(refusalsFile, []byte(b.String()), 0o644))
}

func writeLines(b *strings.Builder, mark string, lines []string) {
	for _, line := range lines {
		b.WriteString(strings.TrimSuffix(mark+" "+line, " ") + "\n")
	}
}

func flatten(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range many.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}
