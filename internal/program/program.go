// Package program builds example programs, runs them, and calls those that serve HTTP, for tests.
package program

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build builds the program of a package, given as go build wants it, in a folder of its module. It returns the path of
// the binary, which goes with the test.
func Build(tb testing.TB, folder, pkg string) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", binary, pkg)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return binary
}

// Serve starts a program and returns the URL that it says it listens on: "listening on http://127.0.0.1:8080". The
// program is killed when the test ends.
func Serve(tb testing.TB, cmd *exec.Cmd) string {
	tb.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !found {
		rest, _ := io.ReadAll(lines)
		tb.Fatalf("want an address, got %q, %v\n%s", line, err, rest)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // so that it never waits for a reader
	return address
}

// Curl sends a request without a body by curl, so that what a test sees is what a client sees that is not net/http.
// Without curl, net/http sends it.
func Curl(tb testing.TB, request *http.Request) *http.Response {
	tb.Helper()
	program, err := exec.LookPath("curl")
	if err != nil {
		return do(tb, request)
	}
	args := []string{"--silent", "--show-error", "--include", "--max-time", "30", "--request", request.Method}
	for name, values := range request.Header {
		for _, value := range values {
			args = append(args, "--header", name+": "+value)
		}
	}
	cmd := exec.Command(program, append(args, request.URL.String())...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("curl %s: %v\n%s", request.URL, err, &stderr)
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), request)
	if err != nil {
		tb.Fatalf("curl %s: %v\n%s", request.URL, err, out)
	}
	return response
}

func do(tb testing.TB, request *http.Request) *http.Response {
	tb.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = response.Body.Close() })
	return response
}
