// Package embedded starts a Redis in this process, for tests and first steps without a server.
//
// It is miniredis, which runs the same scripts, but not on the same Lua: before a release run a few tests against a
// real server too. docs/testing-your-handler.md says what its clock and its errors are good for.
package embedded

import (
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Start starts a Redis without data, and returns a client of it:
//
//	rdb, server, err := embedded.Start()
//	limits := loader.New(rdb)
//
// server.SetTime sets its clock, by which limits and keys end; until then it is this machine's. server.SetError makes
// calls fail. Close both. It costs no process and no port that other machines reach.
func Start() (*redis.Client, *miniredis.Miniredis, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	server.ClockTTL(true)
	return redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1}), server, nil
}
