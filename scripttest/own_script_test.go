package scripttest_test

import (
	"testing"

	"github.com/sluice-redis/sluice/scripttest"
)

// ownScript is someone's own script, as the package's doc shows how to test it.
const ownScript = `
local n = redis.call("INCR", KEYS[1])
if n > tonumber(ARGV[1]) then return {0, n - ARGV[1]} end
redis.call("EXPIRE", KEYS[1], ARGV[2])
return {1, 0}
`

func checkOwnScript(t testing.TB, script *scripttest.Script) {
	r := scripttest.Start(t)
	for _, step := range []struct{ at, granted, over int64 }{
		{0, 1, 0}, {1, 1, 0}, {1, 0, 1}, {2, 0, 2}, {10, 0, 3}, {12, 1, 0},
	} {
		r.SetTime(epoch + step.at*1_000_000)
		result := script.Run(r, []string{"key"}, []string{"2", "10"})
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if got := integers(t, result.Reply); got[0] != step.granted || got[1] != step.over {
			t.Errorf("at %d s: %v, want %d, %d", step.at, got, step.granted, step.over)
		}
	}
}

// The ten lines of the package's doc.
func TestOwnScript(t *testing.T) {
	var cov scripttest.Coverage
	script, err := cov.Compile("limiter.lua", ownScript)
	must(t, err)
	checkOwnScript(t, script)
	for _, missing := range cov.Missing() {
		t.Error(missing)
	}
	for m := range script.Mutants() {
		if mutant, err := m.Compile(); err != nil || scripttest.Failure(t,
			func(t testing.TB) { checkOwnScript(t, mutant) }) == "" {
			t.Errorf("survives: %v", m)
		}
	}
}
