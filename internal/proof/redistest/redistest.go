// Package redistest starts real Redis and Valkey servers for tests.
//
// Every server belongs to one test. It has a free loopback port, its own temporary directory and no persistence, and
// is killed when the test ends. Without a server program the test fails and says how to get one. Only tests that step
// the server's clock are skipped if that is not possible.
package redistest

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// Environment is the variable that lists the server binaries to test against, separated by spaces.
// The first one is the server that Start runs.
const Environment = localredis.Environment

// Server is one running server.
type Server struct{ *localredis.Server }

// Servers returns the server programs to test. It fails the test if there is none or a listed one is missing.
func Servers(tb testing.TB) []string {
	tb.Helper()
	programs, err := localredis.Programs()
	must(tb, err)
	return programs
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
	s, err := localredis.Start(binary, tb.TempDir(), environment, extraArgs...)
	must(tb, err)
	tb.Cleanup(s.Kill)
	return &Server{s}
}

// Restart starts a killed server again, with the same address and directory, and waits until it answers.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	must(tb, s.Server.Restart())
}

// Client returns a client for this server only. It is closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return Client(tb, s.Addr)
}

// Client returns a client for the server at an address only. It is closed when the test ends.
func Client(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	client := localredis.Client(addr)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// DialOnce returns a Client that finds out at once that nobody listens: for servers that a test closes.
func DialOnce(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	options := *Client(tb, addr).Options()
	options.DialerRetries = 1
	client := redis.NewClient(&options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
