package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// A token of a body, with its place in the file.
type token struct {
	kind int
	text string // of a string, its value
	at   place
}

func (t token) String() string {
	switch t.kind {
	case parse.TString:
		return fmt.Sprintf("%q", t.text)
	case parse.EOF:
		return "the end"
	case '.':
		return "."
	}
	return t.text
}

func (t token) is(other token) bool { return t.kind == other.kind && t.text == other.text }

// scan reads the tokens of a source; the last one is its end.
func scan(file, source string) ([]token, error) {
	scanner := parse.NewScanner(strings.NewReader(source), file)
	var tokens []token
	var lexer parse.Lexer
	for {
		t, err := scanner.Scan(&lexer)
		if err != nil {
			return nil, syntaxError(file, source, err)
		}
		if t.Type == parse.EOF {
			return append(tokens, token{t.Type, "", lastLine(file, source)}), nil
		}
		tokens = append(tokens, token{t.Type, t.Str, place{file, t.Pos.Line, t.Pos.Column}})
	}
}

func lastLine(file, source string) place { return place{file, strings.Count(source, "\n"), 1} }

func syntaxError(file, source string, err error) error {
	var e *parse.Error
	if !errors.As(err, &e) {
		return err
	}
	at := place{file, e.Pos.Line, max(e.Pos.Column, 1)} // an unended string's column may be 0
	if e.Pos.Line == parse.EOF {
		at = lastLine(file, source)
	}
	return refuse(at, "%s near %q, want Lua 5.1", e.Message, e.Token)
}

// A chunk is the syntax tree of a body, with a place for each node.
type chunk struct {
	statements []ast.Stmt
	places     []place // by the lines that the parser saw
}

// parseLua parses a source. The parser keeps no columns, so it is given a text in which every
// token begins a line, and the line it has seen stands for the token's place.
func parseLua(file, source string, tokens []token) (*chunk, error) {
	if _, err := parse.Parse(strings.NewReader(source), file); err != nil {
		return nil, syntaxError(file, source, err)
	}
	c := &chunk{places: []place{{file, 1, 1}, {file, 1, 1}}}
	lines := strings.SplitAfter(source, "\n")
	var spread strings.Builder
	line, col := 1, 1
	copyTo := func(at place) {
		for ; line < at.line; line, col = line+1, 1 {
			spread.WriteString(lines[line-1][col-1:])
			c.places = append(c.places, at)
		}
		spread.WriteString(lines[line-1][col-1 : at.col-1])
		col = at.col
	}
	for _, t := range tokens[:len(tokens)-1] {
		copyTo(t.at)
		if t.kind != '(' { // a call's parenthesis must not begin a line
			spread.WriteString("\n")
			c.places = append(c.places, t.at)
		}
	}
	spread.WriteString(lines[line-1][col-1:])
	statements, err := parse.Parse(strings.NewReader(spread.String()), file)
	c.statements = statements
	return c, err
}

// at is where a node begins; of an operator with one operand, where that begins.
func (c *chunk) at(node ast.PositionHolder) place { return c.places[node.Line()] }
