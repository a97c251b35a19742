package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

type token struct {
	kind int
	text string // for a string, its value
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

// scan returns the tokens of a source. The last one marks the end.
func scan(file, source string) ([]token, error) {
	scanned, err := luasyntax.Scan(source)
	if err != nil {
		return nil, syntaxError(file, source, err)
	}
	end := len(scanned) - 1
	tokens := make([]token, 0, len(scanned))
	for _, t := range scanned[:end] {
		tokens = append(tokens, token{t.Type, t.Str, place{file, t.Pos.Line, t.Pos.Column}})
	}
	return append(tokens, token{parse.EOF, "", lastLine(file, source)}), nil
}

func lastLine(file, source string) place { return place{file, strings.Count(source, "\n"), 1} }

func syntaxError(file, source string, err error) error {
	var e *parse.Error
	if !errors.As(err, &e) {
		return err
	}
	at := place{file, e.Pos.Line, max(e.Pos.Column, 1)} // an unterminated string may have column 0
	if e.Pos.Line == parse.EOF {
		at = lastLine(file, source)
	}
	return refuse(at, "%s near %q, want Lua 5.1", e.Message, e.Token)
}

type chunk struct {
	file       string
	statements []ast.Stmt
	places     *luasyntax.Places
}

func parseLua(file, source string) (*chunk, error) {
	statements, err := parse.Parse(strings.NewReader(source), file)
	if err != nil {
		return nil, syntaxError(file, source, err)
	}
	return &chunk{file, statements, luasyntax.Locate(source, statements)}, nil
}

func (c *chunk) at(node ast.PositionHolder) place {
	line, column := c.places.At(node)
	return place{c.file, line, column}
}
