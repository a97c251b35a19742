// Package embedded starts a Redis in this process, for tests and first steps without a server.
//
// It is miniredis, which runs the same scripts, but not on the same Lua: before a release run a few tests against a
// real server too. docs/testing-your-handler.md says what its clock and its errors are good for.
package embedded

import (
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Server is a Redis in this process. Start makes it. It is safe for concurrent use.
type Server struct {
	redis  *miniredis.Miniredis
	client *redis.Client
}

// Start starts a Redis without data. Close it when it is not needed. It costs no process and no port that other
// machines reach.
//
//	server, err := embedded.Start()
//	limits := loader.New(server.Client())
func Start() (*Server, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	server.ClockTTL(true)
	return &Server{server, redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1})}, nil
}

// Client returns the client of the server, always the same one.
func (s *Server) Client() *redis.Client { return s.client }

// SetTime sets the server's clock, by which limits and keys end, and stops it. Until then it is this machine's.
func (s *Server) SetTime(t time.Time) { s.redis.SetTime(t) }

// SetError has the server answer every call with this error, such as "LOADING Redis is loading"; with "" none.
func (s *Server) SetError(text string) { s.redis.SetError(text) }

// Close ends the server. Calls of its client fail from then on, as while a Redis is down.
func (s *Server) Close() { s.redis.Close() }
