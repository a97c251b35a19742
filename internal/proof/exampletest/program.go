// Package exampletest builds example programs, runs them, and calls those that serve HTTP, for tests.
package exampletest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
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

// StartIn starts a program on PATH in a folder, which is its home as well. It is killed when the test ends; if the test
// has failed, what it said is logged. If there is no such program, the test is skipped, and fails in CI.
func StartIn(tb testing.TB, folder string, command ...string) {
	tb.Helper()
	cmd := inFolder(tb, folder, command)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("%s said:\n%s", command[0], &out)
		}
	})
}

// Run is StartIn for a program that ends by itself. It returns what it said.
func Run(tb testing.TB, folder string, command ...string) []byte {
	tb.Helper()
	out, err := inFolder(tb, folder, command).CombinedOutput()
	if err != nil {
		tb.Errorf("%s: %v\n%s", command[0], err, out)
	}
	return out
}

func inFolder(tb testing.TB, folder string, command []string) *exec.Cmd {
	tb.Helper()
	binary, err := exec.LookPath(command[0])
	if err != nil {
		missing(tb, command[0]+" is not on PATH: make envoy installs Envoy, a package manager the others")
	}
	cmd := exec.Command(binary, command[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	return cmd
}

var block = regexp.MustCompile("(?s)```\\w+ (\\S+)\n(.*?)```")

// Files returns the files that a Markdown page shows, by the names behind the languages of their blocks.
func Files(tb testing.TB, page string) map[string]string {
	tb.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		tb.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = m[2]
	}
	return found
}

var port = regexp.MustCompile(`\b[0-9]{4}\b`)

// WithPorts returns a text with other ports, by those of the text.
func WithPorts(text string, ports map[string]string) string {
	return port.ReplaceAllStringFunc(text, func(shown string) string {
		if own, found := ports[shown]; found {
			return own
		}
		return shown
	})
}

var ports sync.Map // what FreePort has returned

// FreePort is a port of 127.0.0.1 that nobody listens at. It is below those that systems give to clients, so that none
// takes it before it is used. No port is returned twice.
func FreePort(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		if _, again := ports.LoadOrStore(port, true); !again {
			return strconv.Itoa(port)
		}
	}
	tb.Fatal("no free port")
	return ""
}

// missing skips a test for which a program is missing. In CI it fails the test.
func missing(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

// Interpreter returns the first of names that runs the probe. Where there is none the test is
// skipped, but never in CI, which installs them all.
func Interpreter(t testing.TB, cure string, names []string, probe ...string) string {
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

// Output returns what a program prints. The test fails if it does.
func Output(t testing.TB, name string, args ...string) string {
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

// Absolute returns a path from the root of the file system.
func Absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
