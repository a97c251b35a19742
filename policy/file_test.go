//go:build unix

package policy_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/policy"
)

// within fails the test if a call does not return.
func within(t *testing.T, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not return", what)
	}
}

// What is no regular file is not read: a pipe that nobody writes would never end.
func TestNoRegularFile(t *testing.T) {
	_, limits := fakeRedis(t)
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), writeFile(t, oneLimit)
	must(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, dir, os.DevNull} {
		within(t, "Load", func() {
			if _, err := policy.Load(limits, path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("Load(%q): %v", path, err)
			}
		})
		within(t, "ParseFile", func() {
			if _, err := policy.ParseFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("ParseFile(%q): %v", path, err)
			}
		})
	}
	var log notes
	policies, err := policy.Load(limits, file, policy.ReloadEvery(time.Millisecond),
		policy.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, err)
	must(t, os.Rename(pipe, file))
	redistest.Await(t, "a line in the log", func() bool { return strings.Contains(log.take(), "not a regular file") })
	within(t, "Close", func() { _ = policies.Close() })
}

// A file that is too long is not read to its end.
func TestLongFile(t *testing.T) {
	path := writeFile(t, oneLimit)
	if err := os.Truncate(path, 1<<32); err != nil { // nearly all of it is a hole
		t.Fatal(err)
	}
	const want = ":1:1: a file of more than 1 MiB: want at most 1 MiB"
	if _, err := policy.ParseFile(path); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want ..%s", err, want)
	}
}
