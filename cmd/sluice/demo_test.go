package main

import (
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/redistest"
)

// A short demo, on the embedded server and on a real one. What was booked is the scripts' doing; how much
// of the capacity was used, and how late the workers were, is up to the machine, so it may say that this
// promise was broken and no other. The fixed window must break and polling be judged, unless no worker could ask: then
// it says so.
func TestDemo(t *testing.T) {
	t.Parallel()
	checkDemo(t, "an embedded miniredis")
}

func TestServerDemo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	checkDemo(t, "redis://"+server.Addr, "--redis", "redis://"+server.Addr)
}

func checkDemo(t *testing.T, server string, flags ...string) {
	t.Helper()
	var got outcome
	for range 3 { // where the machine stands still for a second, a call is given up, and with it the demo
		got = sluiceRun(nil, append([]string{"demo", "--duration=3s", "--workers=8"}, flags...)...)
		if !strings.Contains(got.stderr, "context deadline exceeded") {
			break
		}
	}
	wants := []string{"Server: " + server + "\n", " of 3 s\n", "list_log  ", "capacity: of 15 acts",
		"Our windows are 1.02s"}
	if !strings.Contains(got.stdout, "This machine stopped") {
		wants = append(wants, "  BROKEN\n", "  WASTEFUL\n")
	}
	for _, want := range wants {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in the output", want)
		}
	}
	for _, never := range []string{"acts for one second, above", "calls for", "\x1b"} {
		if strings.Contains(got.stdout, never) {
			t.Errorf("%q is in the output", never)
		}
	}
	wantNarrow(t, "demo", got.stdout)
	if t.Failed() {
		t.Logf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}
