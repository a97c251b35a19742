package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice/internal/admit"
)

// KeyByIP counts by the address of the client. By default that is the remote address of the connection. Behind a proxy
// that is the proxy's: say with TrustXForwardedFor or TrustForwarded which proxies may tell the client's.
//
// IPv6 addresses are counted by their /64 prefix, because that is what one customer has: see IPv6Prefix. An IPv4
// address that is written as IPv6 (::ffff:192.0.2.7) is that IPv4 address, and zones (fe80::1%eth0) are left out. A
// request that came by a Unix socket has no address.
func KeyByIP(opts ...IPOption) Key {
	s := &ipKey{ipv6Bits: 64}
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
	if s.err != nil {
		return admit.WrongKey[*http.Request](fmt.Errorf("KeyByIP: %w", s.err))
	}
	return KeyBy(s.value)
}

// IPOption is an option of KeyByIP.
type IPOption func(*ipKey)

// IPv6Prefix sets how many bits of an IPv6 address are counted together: 1 to 128. The default is 64. Use fewer if your
// customers have shorter prefixes (56, 48), and 128 to count each address by itself.
func IPv6Prefix(bits int) IPOption {
	return func(s *ipKey) {
		if s.ipv6Bits = bits; bits < 1 || bits > 128 {
			s.setErr(fmt.Errorf("IPv6Prefix %d: want 1 to 128", bits))
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
	return func(s *ipKey) { s.trust("X-Forwarded-For", (*hops).xForwardedFor, proxies) }
}

// TrustForwarded names the proxies that write the header Forwarded (RFC 7239). The rest is as with TrustXForwardedFor.
// A port is left out, also one that is hidden ("192.0.2.7:_x"); _hidden is no address. Only one of the two headers is
// used: the other one may come from the client.
func TrustForwarded(proxies ...string) IPOption {
	return func(s *ipKey) { s.trust("Forwarded", (*hops).forwarded, proxies) }
}

// ipKey finds the address of a client.
type ipKey struct {
	ipv6Bits int
	header   string                       // "": no proxy is trusted
	next     func(*hops) (element string) // takes the right-most element, as an address with or without a port
	trusted  []netip.Prefix
	unix     bool // Unix sockets are trusted
	err      error
}

// setErr keeps the first error.
func (s *ipKey) setErr(err error) { s.err = cmp.Or(s.err, err) }

func (s *ipKey) trust(header string, next func(*hops) string, proxies []string) {
	if s.header != "" {
		s.setErr(errors.New("TrustXForwardedFor or TrustForwarded: want one of the two, once"))
	}
	if len(proxies) == 0 {
		s.setErr(fmt.Errorf("no proxies are named for %s: want prefixes, as \"10.0.0.0/8\"", header))
	}
	s.header, s.next = header, next
	for _, proxy := range proxies {
		if proxy == "unix" {
			s.unix = true
			continue
		}
		prefix, err := parsePrefix(proxy)
		if err != nil {
			s.setErr(fmt.Errorf("proxy %q: want a prefix (\"10.0.0.0/8\"), an address or \"unix\"", proxy))
		}
		s.trusted = append(s.trusted, prefix)
	}
}

// parsePrefix parses a prefix or an address. A prefix of IPv4 addresses in IPv6 becomes one of IPv4.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		addr = plain(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), err
	}
	prefix, err := netip.ParsePrefix(text)
	const mapped = 96 // bits before the IPv4 address
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= mapped {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-mapped)
	}
	return prefix.Masked(), err
}

// plain returns an address as it is counted and compared: IPv4 not as IPv6, and without a zone.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func (s *ipKey) value(r *http.Request) string {
	client, ok := s.client(r)
	if !ok {
		return ""
	}
	if client.Is4() || s.ipv6Bits == client.BitLen() {
		return client.String()
	}
	return netip.PrefixFrom(client, s.ipv6Bits).Masked().String()
}

// client returns the address of the client. It is not ok if there is none.
func (s *ipKey) client(r *http.Request) (client netip.Addr, ok bool) {
	client, ok = parseNode(r.RemoteAddr)
	if s.header == "" || !s.trusts(client, ok) {
		return client, ok
	}
	rest := hops{lines: r.Header[s.header]}
	for rest.more() {
		node := s.next(&rest)
		if strings.EqualFold(node, "unknown") {
			return client, ok // of the proxy that wrote it
		}
		if client, ok = parseNode(node); !ok || !s.trustsAddr(client) {
			return client, ok
		}
	}
	return client, ok
}

// trusts reports whether the peer is a trusted proxy. A peer without an address came by a Unix socket.
func (s *ipKey) trusts(peer netip.Addr, hasAddr bool) bool {
	if !hasAddr {
		return s.unix
	}
	return s.trustsAddr(peer)
}

func (s *ipKey) trustsAddr(addr netip.Addr) bool {
	return slices.ContainsFunc(s.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseNode parses an address with or without a port: "192.0.2.7", "192.0.2.7:80", "2001:db8::7", "[2001:db8::7]" and
// "[2001:db8::7]:80".
func parseNode(text string) (addr netip.Addr, ok bool) {
	host, hasPort := text, false
	switch i := strings.LastIndexByte(text, ':'); {
	case strings.HasPrefix(text, "["):
		hasPort = !strings.HasSuffix(text, "]")
		host = strings.TrimSuffix(text[1:], "]")
	case i >= 0 && strings.IndexByte(text, ':') == i:
		hasPort = true
	}
	if hasPort {
		withPort, err := netip.ParseAddrPort(text)
		return plain(withPort.Addr()), err == nil
	}
	addr, err := netip.ParseAddr(host)
	if host != text && addr.Is4() {
		return addr, false // in brackets
	}
	return plain(addr), err == nil
}
