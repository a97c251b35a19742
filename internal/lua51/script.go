package lua51

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// DefaultBudget is how many VM instructions a run may take when its script sets no Budget.
const DefaultBudget = 10_000_000

// chunkName is what Redis calls a script in error messages.
const chunkName = "user_script"

// Script is a compiled script. It holds no state of its runs, so one Script serves many of them, on
// several servers at once.
type Script struct {
	Name   string // for messages of the test; Redis does not see it
	Source string // byte for byte what SCRIPT LOAD would be sent
	SHA1   string // forty lower-case hex digits, what EVALSHA takes
	Budget int    // VM instructions a run may take; 0 is DefaultBudget

	proto  *lua.FunctionProto
	counts []atomic.Int64 // where its runs went, for a Coverage; else empty
}

// An Edit changes a script's syntax tree. It sees the tree as the author wrote it, before it is made to compute as
// Redis does.
type Edit func([]ast.Stmt, *luasyntax.Places) []ast.Stmt

// Compile makes a script ready to run. The name serves messages only. The error is an ErrorReply where
// Redis would refuse the script too, though the parser words its syntax errors in its own way.
func Compile(name, source string, edits ...Edit) (*Script, error) {
	if strings.HasPrefix(source, "#") {
		return nil, &UnsupportedError{What: "a first line that begins with #"}
	}
	proto, err := compileChunk(source, chunkName, edits...)
	if unsupported := (*UnsupportedError)(nil); errors.As(err, &unsupported) {
		return nil, err
	}
	if err != nil {
		return nil, ErrorReply("ERR Error compiling script (new function): " + err.Error())
	}
	return &Script{Name: name, Source: source, SHA1: sha1Hex(source), proto: proto}, nil
}

// compileChunk compiles source to a function that takes the helpers and returns the chunk proper. An
// *UnsupportedError says that Redis might compile it.
func compileChunk(source, display string, edits ...Edit) (*lua.FunctionProto, error) {
	stmts, places, err := luasyntax.Parse(source, display)
	if err != nil {
		return nil, err
	}
	for _, edit := range edits {
		stmts = edit(stmts, places)
	}
	proto, err := lua.Compile(asRedis(stmts), display)
	var failure *lua.CompileError
	if errors.As(err, &failure) {
		return nil, compileFailure(failure, display)
	}
	return proto, err
}

// compileFailure is what Lua would refuse too, or else a limit of the VM here.
func compileFailure(failure *lua.CompileError, display string) error {
	if failure.Message == "no loop to break" {
		return fmt.Errorf("%s:%d: %s", display, failure.Line, failure.Message)
	}
	return &UnsupportedError{What: "a chunk in which there is: " + failure.Message}
}

func sha1Hex(s string) string {
	sum := sha1.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}
