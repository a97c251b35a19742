package adapters_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-redis/redis_rate/v10" // its tests are run

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// What a library's own tests demand, run against ours. cannot are those that fail, each with the reason.
var suites = []struct {
	module, tests string    // where the tests are
	ours          [2]string // what is imported in place of what
	cannot        map[string]string
}{{
	module: "github.com/go-redis/redis_rate/v10", tests: ".",
	ours: [2]string{`"github.com/go-redis/redis_rate/v10"`, `"github.com/sluice-redis/sluice/adapters/redisrate"`},
}, {
	module: "github.com/ulule/limiter/v3", tests: "drivers/store/redis",
	ours: [2]string{`"github.com/ulule/limiter/v3/drivers/store/redis"`,
		`redis "github.com/sluice-redis/sluice/adapters/ulule"`},
	cannot: map[string]string{
		"TestRedisStoreSequentialAccess": "wants Peek to know whether a call was refused: a refusal stores nothing here",
	},
}}

// TestServerTheirs copies the tests of each library, with our import and the address of our server, and runs them.
func TestServerTheirs(t *testing.T) {
	addr := redistest.Start(t).Addr
	for _, s := range suites {
		t.Run(s.module, func(t *testing.T) {
			dir := strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", s.module))
			program := compile(t, filepath.Join(dir, s.tests), strings.NewReplacer(
				s.ours[0], s.ours[1], "localhost:6379", addr, `":6379"`, `"`+addr+`"`))
			names := regexp.MustCompile(`(?m)^(Test|Example)\w+`).FindAllString(run(t, program, "-test.list", "."), -1)
			if len(names) == 0 {
				t.Fatal("there are no tests")
			}
			for name := range s.cannot {
				if !slices.Contains(names, name) {
					t.Errorf("%s is listed, and there is no such test", name)
				}
			}
			for _, name := range names {
				reason, listed := s.cannot[name]
				out, passed := passes(program, name, !listed)
				switch {
				case passed && listed:
					t.Errorf("%s passes: take it from the list", name)
				case !passed && !listed:
					t.Errorf("%s:\n%s", name, out)
				case listed:
					t.Logf("%s does not hold: %s", name, reason)
				}
			}
		})
	}
}

// passes runs one test, up to three times if it should pass: theirs want times to 10 ms.
func passes(program, name string, should bool) (out []byte, passed bool) {
	for tries := 0; !passed && (tries == 0 || should && tries < 3); tries++ {
		var err error
		out, err = exec.Command(program, "-test.timeout=2m", "-test.run=^"+name+"$").CombinedOutput()
		passed = err == nil
	}
	return out, passed
}

// compile compiles the tests in a folder, with what is replaced, as a package of this module: so the versions of what
// they import are those of its go.mod. The package is in an overlay of the go command, and not in this folder.
func compile(t *testing.T, from string, ours *strings.Replacer) (program string) {
	t.Helper()
	const pkg = "theirs"
	overlay, dir := struct{ Replace map[string]string }{map[string]string{}}, t.TempDir()
	files, err := filepath.Glob(filepath.Join(from, "*_test.go"))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		target := filepath.Join(dir, filepath.Base(file))
		must(t, os.WriteFile(target, []byte(ours.Replace(string(text))), 0o600))
		overlay.Replace[filepath.Join(pkg, filepath.Base(file))] = target
	}
	list, err := json.Marshal(overlay)
	must(t, err)
	config, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "theirs.test")
	must(t, os.WriteFile(config, list, 0o600))
	run(t, "go", "test", "-c", "-vet=off", "-overlay", config, "-o", program, "./"+pkg)
	return program
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return output(t, exec.Command(name, args...))
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
