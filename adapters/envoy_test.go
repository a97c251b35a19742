package adapters_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// ratelimit is the service in whose place sluiced stands, at the version that bench compares.
const ratelimit = "github.com/envoyproxy/ratelimit@v1.4.1-0.20260122083618-3fb702589d36"

// ratelimitCannot are the assertions of its integration tests that fail, by a word of each.
var ratelimitCannot = map[string]string{
	"limitRemaining1": "wants the state of a descriptor beside one that is over its limit: sluiced does not ask for it",
}

// ratelimitLeftOut are its tests that cannot run against sluiced, each with the reason.
var ratelimitLeftOut = map[string]string{
	"TestXdsProviderBasicConfig":         "reads limits from an xDS server",
	"TestXdsProviderBasicConfigReload":   "reads limits from an xDS server",
	"TestBasicConfig_ExtraTags":          "looks at statistics alone",
	"TestBasicTLSConfig":                 "wants stunnel, and its certificate among those of the system",
	"Test_mTLS":                          "wants stunnel, and its certificate among those of the system",
	"Test_mTLSSetup":                     "tests what these tests make certificates with",
	"TestBasicConfigMemcache":            "counts in memcached",
	"TestConfigMemcacheWithMaxIdleConns": "counts in memcached",
	"TestMultiNodeMemcache":              "counts in memcached",
}

// ratelimitSometimes fails if a slice of the window ends between its two calls: the second one counts longer.
const ratelimitSometimes = "resp2.GetStatuses()[0].DurationUntilReset"

// TestServerRatelimit runs the integration tests of envoyproxy/ratelimit with sluiced in place of its runner. What they
// read of its statistics is left out, but for reloads; its ports become free ones.
func TestServerRatelimit(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module download\n"), 0o600))
	var module struct{ Dir string }
	must(t, json.Unmarshal([]byte(runAlone(t, dir, "go", "mod", "download", "-json", ratelimit)), &module))
	copied := filepath.Join(dir, "ratelimit")
	must(t, os.CopyFS(copied, os.DirFS(module.Dir)))
	must(t, exec.Command("chmod", "-R", "u+w", copied).Run())
	shim, err := os.ReadFile("testdata/runner.go")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(copied, "src/service_cmd/runner/runner.go"), shim, 0o600))
	tests := filepath.Join(copied, "test/integration")
	source := edit(t, filepath.Join(tests, "integration_test.go"))
	t.Setenv("SLUICED", filepath.Join(dir, "sluiced"))
	run(t, "go", "build", "-o", dir, "../cmd/sluiced")
	program := filepath.Join(dir, "integration.test")
	runAlone(t, copied, "go", "test", "-c", "-vet=off", "-tags=integration", "-o", program, "./test/integration")

	var run []string
	for _, name := range strings.Fields(runAlone(t, tests, program, "-test.list", ".")) {
		if ratelimitLeftOut[name] == "" {
			run = append(run, name)
		}
	}
	cmd := exec.Command(program, "-test.v", "-test.timeout=5m", "-test.run=^("+strings.Join(run, "|")+")$")
	cmd.Dir = tests
	out, _ := cmd.CombinedOutput()
	if ran := len(regexp.MustCompile(`--- (PASS|FAIL): \w+/`).FindAll(out, -1)); ran != 28 {
		t.Errorf("%d tests ran, want 28:\n%s", ran, out)
	}
	failures := map[string]int{}
	for _, found := range regexp.MustCompile(`integration_test\.go:(\d+)\s+Error:.*\n.*`).FindAllSubmatch(out, -1) {
		line, _ := strconv.Atoi(string(found[1]))
		statement := strings.Join(source[line-1:min(line+8, len(source))], "\n")
		listed := strings.Contains(statement, ratelimitSometimes)
		for word := range ratelimitCannot {
			if strings.Contains(statement, word) {
				failures[word]++
				listed = true
			}
		}
		if !listed {
			t.Errorf("%s\n%s", found[0], statement)
		}
	}
	for word, reason := range ratelimitCannot {
		t.Logf("%q fails %d times: it %s", word, failures[word], reason)
		if failures[word] == 0 {
			t.Errorf("%q passes: take it from the list", word)
		}
	}
}

// edit replaces ports and addresses, and leaves out what is asserted of statistics. It returns the lines.
func edit(t *testing.T, path string) []string {
	t.Helper()
	bytes, err := os.ReadFile(path)
	must(t, err)
	text := string(bytes)
	for _, port := range []string{"6383", "6380", "6384", "6385", "8083", "8084"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		text = strings.ReplaceAll(text, port, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	var nodes []string
	for _, node := range redistest.StartCluster(t, 3, 0) {
		nodes = append(nodes, node.Addr)
	}
	sentinels := redistest.StartSentinels(t, time.Minute)
	text = strings.NewReplacer("localhost:6386,localhost:6387,localhost:6388", strings.Join(nodes, ","),
		"mymaster,localhost:26394,localhost:26395,localhost:26396",
		sentinels.Name+","+strings.Join(sentinels.Addrs, ",")).Replace(text)
	text = regexp.MustCompile(`assert\.Equal\(.*, int\((\w+)\.Value\(\)\)\)`).ReplaceAllString(text, "_ = $1")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return strings.Split(text, "\n")
}

// runAlone runs a command in a folder that is no part of this repository.
func runAlone(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	return output(t, cmd)
}
