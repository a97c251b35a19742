package main

import (
	"errors"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
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
	for i := range cases {
		c := &cases[i]
		t.Run(c.name, func(t *testing.T) {
			err := c.refused(t)
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

// refused is what the generator says to the changed script.
func (c *refusalCase) refused(t *testing.T) error {
	t.Helper()
	_, err := parseScript("scripts/"+c.script, c.source(t))
	return err
}

// source is the changed script.
func (c *refusalCase) source(t testing.TB) string {
	t.Helper()
	source, err := fs.ReadFile(os.DirFS(smallProject), "scripts/"+c.script)
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

// Each message in the source has a golden, above or among the tree cases.
func TestEveryRefusalHasAGolden(t *testing.T) {
	seen := map[string]bool{}
	note := func(err error) {
		for _, e := range flatten(err) {
			if r := (*refusal)(nil); errors.As(e, &r) {
				seen[r.format] = true
			}
		}
	}
	cases, _ := readRefusals(t)
	for _, c := range cases {
		note(c.refused(t))
	}
	for _, c := range treeCases {
		tree := smallTree(t)
		c.change(tree)
		_, err := generate(tree)
		note(err)
	}
	for _, format := range formats(t) {
		if !seen[format] {
			t.Errorf("no golden has the message %q", format)
		}
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

// formats are the literals given to refuse in the source. Each occurs once, so that a golden
// for the format is one for the place.
func formats(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	must(t, err)
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isRefuse(call.Fun) {
				if text, ok := call.Args[1].(*ast.BasicLit); ok {
					format, _ := strconv.Unquote(text.Value)
					if slices.Contains(found, format) {
						t.Errorf("%s: the message %q stands in two places, want one", name, format)
					}
					found = append(found, format)
				}
			}
			return true
		})
	}
	if len(found) < 40 {
		t.Errorf("found %d messages, want the many that there are", len(found))
	}
	return found
}

func isRefuse(fun ast.Expr) bool {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name == "refuse"
	case *ast.SelectorExpr:
		return f.Sel.Name == "refuse"
	}
	return false
}
