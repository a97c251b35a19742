// Package localredis starts Redis and Valkey servers and clusters on this machine, on free loopback ports, without
// persistence.
package localredis

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	Dir    string // its working directory
	PID    int

	environment []string // in addition to this process's
	extraArgs   []string
	process     *os.Process
	exited      chan struct{}
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
	return nil, fmt.Errorf(
		"no redis-server or valkey-server on PATH, and %s is not set: install one, as `make server` does", Environment)
}

// Start starts a server in this working directory and waits until it answers. environment is added to this process's,
// extraArgs to the server's command line. The caller must Kill it.
func Start(binary, dir string, environment []string, extraArgs ...string) (s *Server, err error) {
	for range attempts {
		s = &Server{Binary: binary, Dir: dir, environment: environment, extraArgs: extraArgs}
		if s.Addr, err = FreeAddr(); err != nil {
			return nil, err
		}
		if err = s.run(); err == nil {
			return s, nil
		}
		s.Kill()
	}
	return nil, fmt.Errorf("starting %s: %w", binary, err)
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
func (s *Server) Restart() error {
	if err := s.run(); err != nil {
		return fmt.Errorf("restarting %s: %w", s.Addr, err)
	}
	return nil
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
		if s.listens() && s.Answers() {
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

// listens reports whether the server's log says that it listens. What answers on its port before may be another
// server, which has taken the port first.
func (s *Server) listens() bool {
	log, err := os.ReadFile(s.log())
	return err == nil && (bytes.Contains(log, []byte("Ready to accept connections")) ||
		bytes.Contains(log, []byte("Sentinel ID is")))
}

func (s *Server) log() string { return filepath.Join(s.Dir, "server.log") }

// Answers reports whether the server is ready: it replies to PING, or with -NOAUTH, but not with -LOADING.
func (s *Server) Answers() bool {
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

// FreeAddr is an address of this machine at which nobody listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
