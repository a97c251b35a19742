//go:build !linux

package redistest

import (
	"testing"
	"time"
)

// Clock is the wall clock of one server, which can be stepped on Linux only.
type Clock struct{}

// StartWithClock skips the test, and fails it in CI: see the Linux one.
func StartWithClock(tb testing.TB, _ string, _ ...string) (*Server, *Clock) {
	tb.Helper()
	withoutClock(tb, "a server's clock can be stepped on Linux only, by LD_PRELOAD")
	return nil, nil
}

func (c *Clock) Now() time.Time     { return time.Now() }
func (c *Clock) Step(time.Duration) {}
func (c *Clock) Stop()              {}
func (c *Clock) Resume()            {}
func (c *Clock) Set(time.Time)      {}
