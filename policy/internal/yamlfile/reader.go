// Package yamlfile reads the nodes of YAML files, and says what is wrong in them and where.
package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/internal/watch"
)

// lineBreak is what ends a line for the YAML library.
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// Reader reads one file and collects its mistakes.
type Reader struct {
	Mistakes Mistakes
	Hint     func(word string) string // what is wanted in place of an unknown word; "": one of those that are known
	Lines    []string
	Made     bool // by a machine: anchors, aliases and merge keys are taken, and only the first document is read
	Further  bool // there are documents behind the first one

	name, first string
	runes       map[int][]rune // the characters of lines, by their numbers
}

// New returns the reader of a file. first is the word that an empty file should have.
func New(name string, src []byte, first string) *Reader {
	return &Reader{name: name, first: first, Lines: lineBreak.Split(string(src), -1), runes: map[int][]rune{}}
}

// Fail adds a mistake at a node.
func (r *Reader) Fail(n *yaml.Node, what, want string) { r.FailAt(n.Line, n.Column, what, want) }

// FailAt adds a mistake at a place.
func (r *Reader) FailAt(line, column int, what, want string) {
	if r.Full() {
		return
	}
	m := Mistake{File: r.name, Line: max(line, 1), Column: max(column, 1), What: short(what), Want: short(want)}
	r.Mistakes = append(r.Mistakes, m)
}

// Full reports whether so much is wrong that the rest is not looked at.
func (r *Reader) Full() bool { return len(r.Mistakes) >= maxMistakes }

// Document returns the mapping that the file is, nil if it is none.
func (r *Reader) Document(src []byte) *yaml.Node {
	if len(src) > watch.MaxFile {
		r.FailAt(1, 1, "a file of more than 1 MiB", "at most 1 MiB")
		return nil
	}
	if !utf8.Valid(src) {
		r.FailAt(1, 1, "the file is not UTF-8", "UTF-8")
		return nil
	}
	document, err := r.load(src)
	if err != nil {
		r.failYAML(err)
		return nil
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		r.FailAt(1, 1, "the file is empty", r.first)
		return nil
	}
	if left := maxNodes; r.Made && !r.expand(&document, &left) {
		r.FailAt(1, 1, "aliases that make a file of more than 100000 values, or of themselves", "fewer aliases")
		return nil
	}
	return document.Content[0]
}

// load returns the only document of a file, or the first of one that is made by a machine.
func (r *Reader) load(src []byte) (document yaml.Node, err error) {
	if !r.Made {
		return document, yaml.Load(src, &document)
	}
	loader, err := yaml.NewLoader(bytes.NewReader(src))
	if err == nil {
		err = loader.Load(&document)
	}
	if errors.Is(err, io.EOF) {
		return document, nil
	}
	if second := (yaml.Node{}); err == nil {
		next := loader.Load(&second)
		r.Further = !errors.Is(next, io.EOF) && (next != nil || !IsNull(&second))
	}
	return document, err
}

// IsNull reports whether a document or a value is null or not written.
func IsNull(n *yaml.Node) bool {
	if n != nil && n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// failYAML adds what is not YAML.
func (r *Reader) failYAML(err error) {
	what, line, column := strings.TrimPrefix(err.Error(), "yaml: "), 1, 1
	var loadErr *yaml.LoadError
	if errors.As(err, &loadErr) && loadErr.Mark.Line > 0 {
		what, line, column = loadErr.Message, loadErr.Mark.Line, loadErr.Mark.Column
	}
	want := "YAML"
	switch {
	case strings.Contains(what, "no documents"):
		what, want = "the file is empty", r.first
	case strings.Contains(what, "found multiple"):
		what, want = "several documents", "one, without ---"
	case strings.Contains(what, "mapping values are not allowed"):
		want = `YAML: a space behind the colon of a word, and quotes around an expression with ": " in it`
	case strings.Contains(what, "did not find expected key"):
		want = "YAML: the words of a limit in the same column, and quotes around an expression that begins with one"
	case strings.Contains(what, "YAML tag"):
		want = "quotes around what begins with an exclamation mark"
	case strings.Contains(what, "found a tab character"),
		strings.Contains(what, "cannot start any token") && slices.Index(r.Rest(line, column), '\t') == 0:
		what, want = "a tab", "spaces: YAML is not indented by tabs"
	case strings.Contains(what, "cannot start any token"):
		want = "YAML: quotes around what begins with this character"
	case strings.Contains(what, "expected ',' or ']'"):
		want = "YAML: in [..] an expression stands in quotes"
	}
	r.FailAt(line, column, what, want)
}

// Rest returns the characters of a line of the file from a column on.
func (r *Reader) Rest(line, column int) []rune {
	if line > len(r.Lines) {
		return nil
	}
	if _, found := r.runes[line]; !found {
		r.runes[line] = []rune(r.Lines[line-1])
	}
	return r.runes[line][min(max(column-1, 0), len(r.runes[line])):]
}

// Scalar returns the text of a node.
func (r *Reader) Scalar(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.Fail(n, "an anchor or alias", what+" written out")
	case n.Kind != yaml.ScalarNode:
		r.Fail(n, what+" is "+kindOf(n), "a single value")
	case n.Style&yaml.TaggedStyle != 0 && !(r.Made && n.ShortTag() == "!!str"):
		r.Fail(n, fmt.Sprintf("%s has the YAML tag %s", what, n.Tag), "quotes around what begins with an exclamation mark")
	case n.Value == "":
		r.Fail(n, what+" is empty", "a value")
	default:
		return n.Value, true
	}
	return "", false
}

// Items returns the values of a list. A single value is a list of one. It is not ok if there is no list.
func (r *Reader) Items(n *yaml.Node, what string) (items []*yaml.Node, ok bool) {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, true
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.Fail(n, "an anchor or alias", what+" written out")
		return nil, false
	case n.Kind == yaml.SequenceNode:
		return n.Content, true
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}, true
	}
	r.Fail(n, what+" is "+kindOf(n), "a value or a list")
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

// IsMapping reports whether a node is a mapping.
func (r *Reader) IsMapping(n *yaml.Node, what string) bool {
	if n.Kind == yaml.MappingNode && n.Anchor == "" {
		return true
	}
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.Fail(n, "an anchor or alias", what+" written out")
	case n.Kind == yaml.ScalarNode && n.Value == "":
		r.Fail(n, what+" is empty", "words and values below it")
	default:
		r.Fail(n, what+" is "+kindOf(n), "a mapping: words and values")
	}
	return false
}

// Entry is one line of a mapping.
type Entry struct{ Key, Value *yaml.Node }

// Entries returns the entries of a mapping. Two of the same key are a mistake.
func (r *Reader) Entries(n *yaml.Node, what string) (entries []Entry) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, ok := r.Scalar(key, what); !ok {
			continue
		}
		if line, twice := lines[key.Value]; twice {
			r.Fail(key, fmt.Sprintf("two %ss of the name %q", what, key.Value),
				fmt.Sprintf("another name: line %d has it", line))
		}
		lines[key.Value] = key.Line
		entries = append(entries, Entry{key, n.Content[i+1]})
	}
	return entries
}

// Mapping returns the values of a mapping whose words are known.
func (r *Reader) Mapping(n *yaml.Node, known []string) map[string]*yaml.Node {
	values := map[string]*yaml.Node{}
	for _, e := range r.Entries(n, "word") {
		if !slices.Contains(known, e.Key.Value) {
			what, want := Unknown("word", e.Key.Value, known)
			if r.Hint != nil {
				want = cmp.Or(r.Hint(e.Key.Value), want)
			}
			r.Fail(e.Key, what, want)
			continue
		}
		values[e.Key.Value] = e.Value
	}
	return values
}
