package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// document returns the mapping that the file is, nil if it is none.
func (r *reader) document(src []byte) *yaml.Node {
	if len(src) > maxFile {
		r.failAt(1, 1, "a file of more than 1 MiB", "at most 1 MiB")
		return nil
	}
	if !utf8.Valid(src) {
		r.failAt(1, 1, "the file is not UTF-8", "UTF-8")
		return nil
	}
	var document yaml.Node
	if err := yaml.Load(src, &document); err != nil {
		r.failYAML(err)
		return nil
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		r.failAt(1, 1, "the file is empty", "limits")
		return nil
	}
	return document.Content[0]
}

// failYAML adds what is not YAML.
func (r *reader) failYAML(err error) {
	what, line, column := strings.TrimPrefix(err.Error(), "yaml: "), 1, 1
	var loadErr *yaml.LoadError
	if errors.As(err, &loadErr) && loadErr.Mark.Line > 0 {
		what, line, column = loadErr.Message, loadErr.Mark.Line, loadErr.Mark.Column
	}
	want := "YAML"
	switch {
	case strings.Contains(what, "no documents"):
		what, want = "the file is empty", "limits"
	case strings.Contains(what, "found multiple"):
		what, want = "several documents", "one, without ---"
	case strings.Contains(what, "mapping values are not allowed"):
		want = `YAML: a space behind the colon of a word, and quotes around an expression with ": " in it`
	case strings.Contains(what, "did not find expected key"):
		want = "YAML: the words of a limit in the same column, and quotes around an expression that begins with one"
	case strings.Contains(what, "YAML tag"):
		want = "quotes around what begins with an exclamation mark"
	case strings.Contains(what, "cannot start any token") && slices.Index(r.rest(line, column), '\t') == 0:
		what, want = "a tab", "spaces: YAML is not indented by tabs"
	case strings.Contains(what, "cannot start any token"):
		want = "YAML: quotes around what begins with this character"
	case strings.Contains(what, "expected ',' or ']'"):
		want = "YAML: in [..] an expression stands in quotes"
	}
	r.failAt(line, column, what, want)
}

// place returns where in the file a problem of an expression is, or where the expression begins if it is not written
// as it is read: in quotes with escapes, or folded.
func (r *reader) place(n *yaml.Node, p problem) (line, column int) {
	texts := strings.Split(n.Value, "\n")
	line, from := n.Line, n.Column-1
	if n.Style&yaml.LiteralStyle != 0 {
		line, from = n.Line+p.line, 0
	}
	if p.line < 1 || p.line > len(texts) || line > len(r.lines) {
		return n.Line, n.Column
	}
	rest, text := r.rest(line, from+1), texts[p.line-1]
	if n.Style&yaml.LiteralStyle == 0 {
		rest = rest[:min(len(rest), 1+len(text))] // it may have a quote in front
	}
	before, _, found := strings.Cut(string(rest), text)
	if !found || line == n.Line && len(texts) > 1 {
		return n.Line, n.Column
	}
	return line, from + utf8.RuneCountInString(before) + p.column + 1
}

// rest returns the characters of a line of the file from a column on.
func (r *reader) rest(line, column int) []rune {
	if line > len(r.lines) {
		return nil
	}
	if _, found := r.runes[line]; !found {
		r.runes[line] = []rune(r.lines[line-1])
	}
	return r.runes[line][min(max(column-1, 0), len(r.runes[line])):]
}

// scalar returns the text of a node.
func (r *reader) scalar(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fail(n, "an anchor or alias", what+" written out")
	case n.Kind != yaml.ScalarNode:
		r.fail(n, what+" is "+kindOf(n), "a single value")
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, fmt.Sprintf("%s has the YAML tag %s", what, n.Tag), "quotes around what begins with an exclamation mark")
	case n.Value == "":
		r.fail(n, what+" is empty", "a value")
	default:
		return n.Value, true
	}
	return "", false
}

// items returns the values of a list. A single value is a list of one. It is not ok if there is no list.
func (r *reader) items(n *yaml.Node, what string) (items []*yaml.Node, ok bool) {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, true
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.fail(n, "an anchor or alias", what+" written out")
		return nil, false
	case n.Kind == yaml.SequenceNode:
		return n.Content, true
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}, true
	}
	r.fail(n, what+" is "+kindOf(n), "a value or a list")
	return nil, false
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

// isMapping reports whether a node is a mapping.
func (r *reader) isMapping(n *yaml.Node, what string) bool {
	if n.Kind == yaml.MappingNode && n.Anchor == "" {
		return true
	}
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.fail(n, "an anchor or alias", what+" written out")
	case n.Kind == yaml.ScalarNode && n.Value == "":
		r.fail(n, what+" is empty", "words and values below it")
	default:
		r.fail(n, what+" is "+kindOf(n), "a mapping: words and values")
	}
	return false
}

// entry is one line of a mapping.
type entry struct{ key, value *yaml.Node }

// entries returns the entries of a mapping. Two of the same key are a mistake.
func (r *reader) entries(n *yaml.Node, what string) (entries []entry) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, ok := r.scalar(key, what); !ok {
			continue
		}
		if line, twice := lines[key.Value]; twice {
			r.fail(key, fmt.Sprintf("two %ss of the name %q", what, key.Value),
				fmt.Sprintf("another name: line %d has it", line))
		}
		lines[key.Value] = key.Line
		entries = append(entries, entry{key, n.Content[i+1]})
	}
	return entries
}

// mapping returns the values of a mapping whose words are known.
func (r *reader) mapping(n *yaml.Node, known []string) map[string]*yaml.Node {
	values := map[string]*yaml.Node{}
	for _, e := range r.entries(n, "word") {
		if !slices.Contains(known, e.key.Value) {
			what, want := unknown("word", e.key.Value, known)
			if isRate(e.key.Value) {
				want = wantBrackets
			}
			r.fail(e.key, what, want)
			continue
		}
		values[e.key.Value] = e.value
	}
	return values
}
