package main

import (
	"errors"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

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
