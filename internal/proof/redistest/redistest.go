// Package redistest starts real Redis and Valkey servers for tests.
//
// Every server belongs to one test. It has a free loopback port, its own temporary directory and no persistence, and
// is killed when the test ends. Without a server program the test fails and says how to get one. Only tests that step
// the server's clock are skipped if that is not possible.
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Environment is the variable that lists the server binaries to test against, separated by spaces.
// The first one is the server that Start runs.
const Environment = "SLUICE_SERVERS"

// startTimeout is how long a server may take until it answers PING.
const startTimeout = 10 * time.Second

// attempts is how many ports are tried if another process takes the port first.
const attempts = 3

// Server is one running server.
type Server struct {
	Addr   string // host:port on the loopback interface
	Binary string // the path of the program
	Dir    string // its working directory, removed with the test
	PID    int

	environment []string // in addition to the test's
	extraArgs   []string
	process     *os.Process
	exited      chan struct{}
}

// Servers returns the server programs to test. It fails the test if there is none or a listed one is missing.
func Servers(tb testing.TB) []string {
	tb.Helper()
	programs, err := Programs()
	must(tb, err)
	return programs
}

// Programs returns the server programs listed in SLUICE_SERVERS, or else redis-server or valkey-server from PATH.
func Programs() ([]string, error) {
	if listed := strings.Fields(os.Getenv(Environment)); len(listed) > 0 {
		for _, path := range listed {
			if _, err := exec.LookPath(path); err != nil {
				return nil, fmt.Errorf("%s lists %s: %w", Environment, path, err)
			}
		}
		return listed, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, fmt.Errorf("no redis-server or valkey-server on PATH, and %s is not set: run `make test`", Environment)
}

// Start starts the first of Servers and waits until it answers. extraArgs are added to its command line
// ("--cluster-enabled", "yes"). The server is killed in the test's cleanup.
func Start(tb testing.TB, extraArgs ...string) *Server {
	tb.Helper()
	return StartBinary(tb, Servers(tb)[0], extraArgs...)
}

// StartBinary is Start for a given program. Use it in tests that run on all of Servers.
func StartBinary(tb testing.TB, binary string, extraArgs ...string) *Server {
	tb.Helper()
	return launch(tb, binary, nil, extraArgs)
}

// withoutClock skips a test that steps a server's clock. In CI it fails the test.
func withoutClock(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

func launch(tb testing.TB, binary string, environment, extraArgs []string) *Server {
	tb.Helper()
	var err error
	for range attempts {
		var s *Server
		if s, err = start(tb, binary, environment, extraArgs); err == nil {
			return s
		}
	}
	tb.Fatalf("starting %s: %v", binary, err)
	return nil
}

func start(tb testing.TB, binary string, environment, extraArgs []string) (*Server, error) {
	s := &Server{Binary: binary, Dir: tb.TempDir(), environment: environment, extraArgs: extraArgs}
	tb.Cleanup(s.Kill)
	return s, s.begin()
}

// Run starts a server for a program that is not a test, with this working directory. The caller must Kill it.
func Run(binary, dir string) (*Server, error) {
	s := &Server{Binary: binary, Dir: dir}
	if err := s.begin(); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Server) begin() (err error) {
	if s.Addr, err = freeAddr(); err != nil {
		return err
	}
	return s.run()
}

func (s *Server) run() error {
	log, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command(s.Binary, s.args(s.extraArgs)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	cmd.Env = append(os.Environ(), s.environment...)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.PID, s.process, s.exited = cmd.Process.Pid, cmd.Process, exited
	go func() { _ = cmd.Wait(); close(exited) }()

	if err := s.await(exited); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// Kill ends the server as kill -9 does and returns when it is gone. Its directory stays.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Kill()
	<-s.exited
}

// Restart starts a killed server again, with the same address and directory, and waits until it answers.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.run(); err != nil {
		tb.Fatalf("restarting %s: %v", s.Addr, err)
	}
}

func (s *Server) args(extra []string) []string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--appendonly", "no",
	}, extra...)
}

// await waits until the server answers PING. It returns an error if the server ends or is too slow.
func (s *Server) await(exited <-chan struct{}) error {
	deadline := time.After(startTimeout)
	for {
		if s.listens() && s.answers() {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s ended at once", s.Binary)
		case <-deadline:
			return fmt.Errorf("%s does not answer on %s after %s", s.Binary, s.Addr, startTimeout)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// listens reports whether the server's log says that it listens. What answers on its port before may be another test's
// server, which has taken the port first.
func (s *Server) listens() bool {
	log, err := os.ReadFile(s.log())
	return err == nil && (bytes.Contains(log, []byte("Ready to accept connections")) ||
		bytes.Contains(log, []byte("Sentinel ID is")))
}

func (s *Server) log() string { return filepath.Join(s.Dir, "server.log") }

// answers reports whether the server is ready: it replies to PING, or with -NOAUTH, but not with -LOADING.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	return err == nil && !bytes.HasPrefix(reply[:n], []byte("-LOADING"))
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
