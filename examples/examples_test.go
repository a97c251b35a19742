// Package examples_test runs the example programs as a reader would, each against a server of its own.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/internal/redistest"
)

func TestServerPython(t *testing.T) {
	python := interpreter(t, "Debian: apt-get install python3-redis", []string{"python3", "/usr/bin/python3"}, "-c",
		"import redis")
	got := output(t, python, "python/send_code.py", "redis://"+redistest.Start(t).Addr)
	want := strings.Join([]string{
		"code sent, 2 more this minute",
		"code sent, 1 more this minute",
		"code sent, 0 more this minute",
		"too many codes: try again in 60 s",
		"code sent, 2 more this minute",
		"",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// Five calls go out at once and nothing goes out before its second, however slow this machine is.
func TestServerNode(t *testing.T) {
	node := interpreter(t, "cd examples/node && npm ci", []string{"node"}, "--input-type=module", "-e",
		"await import('"+absolute(t, "node/node_modules/redis/package.json")+"', {with: {type: 'json'}})")
	got := output(t, node, "node/paced-calls.mjs", "redis://"+redistest.Start(t).Addr)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 8 {
		t.Fatalf("want 8 calls, got:\n%s", got)
	}
	for _, line := range lines[5:] {
		if strings.HasSuffix(line, "second 0") {
			t.Errorf("a sixth call in the first second:\n%s", got)
		}
	}
}

// interpreter returns the first of names that runs the probe. Where there is none the test is
// skipped, but never in CI, which installs them all.
func interpreter(t *testing.T, cure string, names []string, probe ...string) string {
	t.Helper()
	for _, name := range names {
		if exec.Command(name, probe...).Run() == nil {
			return name
		}
	}
	message := "no " + names[0] + " with a Redis client: " + cure
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
