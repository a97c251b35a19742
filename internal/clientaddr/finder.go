// Package clientaddr finds the address of a request's client, behind proxies that are named.
package clientaddr

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxHops bounds how many proxies there may be.
const maxHops = 100

// Finder finds the address of a client. The zero Finder takes that of the connection.
type Finder struct {
	header  string                       // "": no proxy is trusted
	next    func(*hops) (element string) // takes the right-most element, as an address with or without a port
	trusted []netip.Prefix
	unix    bool // Unix sockets are trusted
	hops    int  // that write X-Forwarded-For, at any address; 0: those that are trusted
}

// TrustXForwardedFor has these proxies believed in the header X-Forwarded-For.
func (f *Finder) TrustXForwardedFor(proxies ...string) error {
	return f.trust("X-Forwarded-For", (*hops).xForwardedFor, proxies)
}

// TrustForwarded has these proxies believed in the header Forwarded.
func (f *Finder) TrustForwarded(proxies ...string) error {
	return f.trust("Forwarded", (*hops).forwarded, proxies)
}

// TrustHops has so many proxies, at any address, believed in the header X-Forwarded-For: the client is the n-th
// address from the right.
func (f *Finder) TrustHops(n int) error {
	if f.header != "" || n < 1 || n > maxHops {
		return fmt.Errorf("TrustHops %d: want 1 to %d, and no other header or proxies", n, maxHops)
	}
	f.header, f.next, f.hops = "X-Forwarded-For", (*hops).xForwardedFor, n
	return nil
}

func (f *Finder) trust(header string, next func(*hops) string, proxies []string) (err error) {
	if f.header != "" {
		err = errors.New("TrustXForwardedFor or TrustForwarded: want one of the two, once")
	}
	if len(proxies) == 0 {
		err = cmp.Or(err, fmt.Errorf("no proxies are named for %s: want prefixes, as \"10.0.0.0/8\"", header))
	}
	f.header, f.next = header, next
	for _, proxy := range proxies {
		if proxy == "unix" {
			f.unix = true
			continue
		}
		prefix, errOf := ParsePrefix(proxy)
		if errOf != nil {
			err = cmp.Or(err, fmt.Errorf("proxy %q: want a prefix (\"10.0.0.0/8\"), an address or \"unix\"", proxy))
		}
		if prefix.Bits() == 0 {
			slog.Warn("sluice: every address is a trusted proxy, so clients choose their address: name the proxies, or how "+
				"many there are (hops)", "proxy", proxy)
		}
		f.trusted = append(f.trusted, prefix)
	}
	return err
}

// ParsePrefix parses a prefix or an address. A prefix of IPv4 addresses in IPv6 becomes one of IPv4.
func ParsePrefix(text string) (netip.Prefix, error) {
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

// Find returns the address of the client of a connection, IPv4 not as IPv6 and without a zone. The client is found from
// the right of the header: what a proxy that is not trusted has written is not read. The address is not valid if what a
// trusted proxy has written is none. It is a PeerError if the connection has none, and no proxy tells the client's.
func (f *Finder) Find(peer string, header http.Header) (client netip.Addr, err error) {
	client, ok := parseNode(peer)
	if f.hops > 0 {
		if hop, found := f.hop(header); found {
			client, ok = hop, true
		}
	} else if f.header != "" && f.Trusts(peer) {
		rest := hops{lines: header[f.header]}
		for rest.more() {
			node := f.next(&rest)
			if strings.EqualFold(node, "unknown") {
				break // of the proxy that wrote it
			}
			if client, ok = parseNode(node); !ok {
				return client, nil
			}
			if !f.trustsAddr(client) {
				break
			}
		}
	}
	if !ok {
		return client, &PeerError{peer}
	}
	return client, nil
}

// hop returns the address that the first of so many proxies wrote.
func (f *Finder) hop(header http.Header) (addr netip.Addr, ok bool) {
	rest, node := hops{lines: header[f.header]}, ""
	for range f.hops {
		if !rest.more() {
			return addr, false
		}
		node = f.next(&rest)
	}
	return parseNode(node)
}

// PeerError is about a connection whose peer has no IP address. What listens, or the proxy, is to be mended, not the
// request.
type PeerError struct{ Peer string }

func (e *PeerError) Error() string {
	return fmt.Sprintf("the connection's peer is %q: want an IP address, or a Unix socket's \"unix\" among the trusted "+
		"proxies, and the address that the proxy writes", e.Peer)
}

// Trusts reports whether the peer of a connection is a trusted proxy. One without an address came by a Unix socket, or
// is unknown. Where only the number of proxies is known, it is taken for one.
func (f *Finder) Trusts(peer string) bool {
	if f.hops > 0 {
		return true
	}
	if addr, ok := parseNode(peer); ok {
		return f.trustsAddr(addr)
	}
	isUnix := peer == "" || strings.ContainsRune("@/", rune(peer[0])) || strings.HasPrefix(peer, "unix:")
	return f.unix && isUnix
}

func (f *Finder) trustsAddr(addr netip.Addr) bool {
	return slices.ContainsFunc(f.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
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
		return netip.Addr{}, false // in brackets
	}
	return plain(addr), err == nil
}
