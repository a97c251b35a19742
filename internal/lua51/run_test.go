package lua51

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"

	"github.com/sluice-redis/sluice/internal/luasyntax"
)

// run compiles and runs a fragment on a server.
func runOn(t *testing.T, r *Redis, source string) Result {
	t.Helper()
	return compiled(t, source).Run(r, []string{"k1"}, nil)
}

// TestBudget runs scripts that do not end; none may hang, and none may catch its end.
func TestBudget(t *testing.T) {
	for _, source := range []string{
		`while true do end`, `while true do pcall(function() while true do end end) end`,
		`repeat local ok = pcall(error) until false`,
		`local f f = function() return f() end f()`,
		`table.sort({3, 2, 1}, function() while true do end end)`,
		`return ("x"):gsub("x", function() while true do end end)`,
	} {
		script := compiled(t, source)
		script.Budget = 20_000
		result := script.Run(Start(t), nil, nil)
		var budget *BudgetError
		if !errors.As(result.Err, &budget) || budget.Budget != 20_000 || budget.Script != "fragment" {
			t.Errorf("%s: %v, want a BudgetError of 20000", source, result.Err)
		}
	}
}

func TestInstructionsGrowWithTheWork(t *testing.T) {
	count := func(source string) int { return runOn(t, Start(t), source).Instructions }
	ten := count(`local n = 0 for i = 1, 10 do n = n + i end return n`)
	thousand := count(`local n = 0 for i = 1, 1000 do n = n + i end return n`)
	if perTurn := float64(thousand-ten) / 990; perTurn != 2 {
		t.Errorf("%v instructions a turn, want 2: %d for 10, %d for 1000", perTurn, ten, thousand)
	}
	if caught := count(`pcall(function() local n = 0 for i = 1, 1000 do n = n + i end end)`); caught < thousand {
		t.Errorf("%d instructions in a pcall, %d outside", caught, thousand)
	}
	if again := count(`local n = 0 for i = 1, 10 do n = n + i end return n`); again != ten {
		t.Errorf("%d instructions the first time, %d the second", ten, again)
	}
}

func TestCommands(t *testing.T) {
	result := runOn(t, Start(t), `
		redis.call("get", KEYS[1])
		redis.pcall("nope")
		redis.pcall("get")
		redis.call("SET", KEYS[1], 1732100000123456)
		redis.pcall("LPUSH", KEYS[1], 1)
		return redis.call("ZREM", "none", "a")`)
	want := []Command{
		{Args: []string{"get", "k1"}},
		{Args: []string{"SET", "k1", "1732100000123456"}, Write: true},
		{Args: []string{"LPUSH", "k1", "1"}, Write: true},
		{Args: []string{"ZREM", "none", "a"}, Write: true},
	}
	if diff := cmp.Diff(want, result.Commands); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestRunRO compares RunRO with EVAL_RO of a real server.
func TestRunRO(t *testing.T) {
	server := dialRedis(t, redis70(t).Addr)
	emulated := Start(t)
	for _, source := range []string{
		`return redis.call("GET", KEYS[1])`, `return redis.call("SET", KEYS[1], 1)`,
		`return redis.pcall("SET", KEYS[1], 1)`, `return redis.pcall("DEL", KEYS[1])`,
		`return redis.pcall("SET", KEYS[1])`, `return redis.pcall("NOPE")`, `return #redis.call("TIME")`,
	} {
		got := compiled(t, source).RunRO(emulated, []string{"k1"}, nil)
		gotReply := got.Reply
		if got.Err != nil {
			gotReply = got.Err
		}
		if diff := cmp.Diff(server.do(t, "EVAL_RO", source, "1", "k1"), gotReply); diff != "" {
			t.Errorf("%s\n(-redis +lua51)\n%s", source, diff)
		}
	}
	if left := emulated.Snapshot(); left != "" {
		t.Errorf("read-only scripts wrote %s", left)
	}
}

// TestRunsShareNothing lets one run change all it can reach, and looks at the next one.
func TestRunsShareNothing(t *testing.T) {
	r := Start(t)
	runOn(t, r, `KEYS[2] = "x" KEYS.n = 5 ARGV[1] = "y"
		for _, lib in pairs(_G) do
			if type(lib) == "table" then pcall(rawset, lib, "leak", 1) pcall(function() lib.leak = 1 end) end
		end
	`)
	got := runOn(t, r, `local leaks = 0
		for _, lib in pairs(_G) do if type(lib) == "table" and rawget(lib, "leak") then leaks = leaks + 1 end end
		redis.call("SET", KEYS[1], 1)
		return {#KEYS, #ARGV, KEYS.n or 0, leaks, ("x"):rep(2)}`)
	want := []any{int64(1), int64(0), int64(0), int64(0), "xx"}
	if diff := cmp.Diff(want, got.Reply); diff != "" || got.Err != nil {
		t.Errorf("%v\n(-want +got)\n%s", got.Err, diff)
	}
	if reply, err := r.Do("GET", "k1"); reply != "1" || err != nil {
		t.Errorf("SELECT of one run leads the next one astray: %v, %v", reply, err)
	}
}

// TestPass edits a tree before it is compiled, as counting lines or breaking things on purpose will.
func TestPass(t *testing.T) {
	swap := func(stmts []ast.Stmt, _ *luasyntax.Places) []ast.Stmt {
		luasyntax.Walk(stmts, luasyntax.Visitor{Expr: func(e ast.Expr) ast.Expr {
			if op, ok := e.(*ast.RelationalOpExpr); ok && op.Operator == "<" {
				op.Operator = "<="
			}
			return e
		}})
		return stmts
	}
	script, err := Compile("mutant",
		`local f = function(a) if a < 3 then return "under " .. 1e15 end return "over" end return f(3)`, swap)
	must(t, err)
	if got := script.Run(Start(t), nil, nil); got.Reply != "under 1e+15" {
		t.Errorf("reply %v, %v", got.Reply, got.Err)
	}
}

// TestFaultOfALibrary lets a library function fail by itself: that must not pass for an error of the script's, nor be
// caught by it.
func TestFaultOfALibrary(t *testing.T) {
	r := Start(t)
	broken := func(call) int { return len([]string{}[1:]) }
	r.lib.globals.RawSetString("broken", lua.NewState().NewFunction(bound("broken", broken)))
	for _, source := range []string{`broken()`, `pcall(broken) return 1`} {
		err := runOn(t, r, source).Err
		if _, isReply := err.(ErrorReply); isReply || err == nil || !strings.Contains(err.Error(), "broken: runtime error") {
			t.Errorf("%s: %v", source, err)
		}
	}
}
