package redistest

import (
	"testing"

	"github.com/sluice-redis/sluice/internal/faultproxy"
)

// Proxy is a TCP proxy in front of one server, which injects faults.
type Proxy = faultproxy.Proxy

// StartProxy starts a proxy in front of a server, on a free port. It closes with the test.
func StartProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	p, err := faultproxy.Start(server, func(err error) { tb.Error(err) })
	must(tb, err)
	tb.Cleanup(p.Close)
	return p
}
