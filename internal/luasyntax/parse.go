package luasyntax

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Parse makes the syntax tree, a new one each time, and says where its nodes stand. display is the chunk's name in
// errors.
func Parse(source, display string) ([]ast.Stmt, *Places, error) {
	stmts, err := parse.Parse(strings.NewReader(source), display)
	if err != nil {
		return nil, nil, errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	if err := refuseGoto(stmts, display); err != nil {
		return nil, nil, err
	}
	places := Locate(source, stmts)
	if places.ambiguous > 0 {
		return nil, nil, fmt.Errorf("%s:%d: ambiguous syntax (function call x new statement) near '('", display, places.ambiguous)
	}
	return stmts, places, nil
}

// refuseGoto finds what gopher-lua knows and Lua 5.1 does not.
func refuseGoto(stmts []ast.Stmt, display string) error {
	var err error
	Walk(stmts, Visitor{Stmt: func(s ast.Stmt) {
		switch s.(type) {
		case *ast.GotoStmt, *ast.LabelStmt:
			err = fmt.Errorf("%s:%d: goto and labels are not Lua 5.1", display, s.Line())
		}
	}})
	return err
}
