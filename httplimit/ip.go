package httplimit

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/internal/clientaddr"
)

// KeyByIP counts by the address of the client. By default that is the remote address of the connection. Behind a proxy
// that is the proxy's: say with TrustXForwardedFor or TrustForwarded which proxies may tell the client's.
//
// IPv6 addresses are counted by their /64 prefix, because that is what one customer has: see IPv6Prefix. An IPv4
// address that is written as IPv6 (::ffff:192.0.2.7) is that IPv4 address, and zones (fe80::1%eth0) are left out. A
// connection without an IP address, such as a Unix socket, has no value. Where that is refused (see IfEmpty), the status
// is 500: trust "unix", and have the proxy behind the socket tell the client's.
func KeyByIP(opts ...IPOption) Key {
	s := &ipKey{ipv6Bits: 64}
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
	if s.err != nil {
		return Key{admit.WrongKey[*http.Request](fmt.Errorf("KeyByIP: %w", s.err))}
	}
	return Key{admit.KeyByConnection(s.value)}
}

// IPOption is an option of KeyByIP.
type IPOption func(*ipKey)

// IPv6Prefix sets how many bits of an IPv6 address are counted together: 1 to 128. The default is 64. Use fewer if your
// customers have shorter prefixes (56, 48), and 128 to count each address by itself.
func IPv6Prefix(bits int) IPOption {
	return func(s *ipKey) {
		if s.ipv6Bits = bits; bits < 1 || bits > 128 {
			s.err = cmp.Or(s.err, fmt.Errorf("IPv6Prefix %d: want 1 to 128", bits))
		}
	}
}

// TrustXForwardedFor names the proxies that write the header X-Forwarded-For: as prefixes ("10.0.0.0/8"), as addresses,
// or "unix" for proxies that connect by a Unix socket. Each of them has to append the address that it was called from.
//
// The client is found from the right: the first address that is not of a trusted proxy. What stands to the left of it
// was written by the client, and is never used. If the remote address is not of a trusted proxy, the header is not
// used at all. If a trusted proxy writes "unknown" or no header, the address is the proxy's own, and all of its clients
// share a limit: try it before you rely on it. If it has written anything else that is not an address, the request has
// no value: see IfEmpty.
func TrustXForwardedFor(proxies ...string) IPOption {
	return func(s *ipKey) { s.err = cmp.Or(s.err, s.finder.TrustXForwardedFor(proxies...)) }
}

// TrustHops says how many proxies, 1 to 100, append to X-Forwarded-For on the way to this program. Use it if their
// addresses are not known: the client is then the n-th address from the right, and if there are fewer, or it is none,
// that of the connection, as with Envoy's xff_num_trusted_hops. Nobody may reach the program past one of the proxies:
// who does so chooses the address.
func TrustHops(n int) IPOption {
	return func(s *ipKey) { s.err = cmp.Or(s.err, s.finder.TrustHops(n)) }
}

// TrustForwarded names the proxies that write the header Forwarded (RFC 7239). The rest is as with TrustXForwardedFor.
// A port is left out, also one that is hidden ("192.0.2.7:_x"); _hidden is no address. Only one of the two headers is
// used: the other one may come from the client.
func TrustForwarded(proxies ...string) IPOption {
	return func(s *ipKey) { s.err = cmp.Or(s.err, s.finder.TrustForwarded(proxies...)) }
}

// ipKey makes keys of the addresses of clients.
type ipKey struct {
	finder   clientaddr.Finder
	ipv6Bits int
	err      error
}

func (s *ipKey) value(r *http.Request) (string, error) {
	addr, err := s.finder.Find(r.RemoteAddr, r.Header)
	return admit.Network(addr, s.ipv6Bits), err
}
