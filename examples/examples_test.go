// Package examples_test runs the example programs as a reader would, each against a server of its own.
package examples_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

func TestServerPython(t *testing.T) {
	python := exampletest.Interpreter(t, "Debian: apt-get install python3-redis",
		[]string{"python3", "/usr/bin/python3"}, "-c",
		"import redis")
	got := exampletest.Output(t, python, "python/send_code.py", "redis://"+redistest.Start(t).Addr)
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
	node := exampletest.Interpreter(t, "cd examples/node && npm ci", []string{"node"}, "--input-type=module", "-e",
		"await import('"+exampletest.Absolute(t, "node/node_modules/redis/package.json")+"', {with: {type: 'json'}})")
	got := exampletest.Output(t, node, "node/paced-calls.mjs", "redis://"+redistest.Start(t).Addr)
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
