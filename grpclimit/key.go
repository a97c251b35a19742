package grpclimit

import (
	"encoding/base64"
	"net"
	"net/netip"
	"strings"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/internal/subjects"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Key says whom a call is counted for: it makes the subject of a limiter. Make one with KeyByIP, KeyByMetadata,
// KeyByMethod, KeyBy or KeyOf, and join several with Join. Subject says how the subject is made of them.
//
// A call may have no value for a key: no such metadata, say, or one that is not UTF-8. By default it is then refused
// with INVALID_ARGUMENT; its method IfEmpty(choice) returns a Key that chooses something else. Check() returns what is
// wrong with it. Subject(c) returns the subject for a call and ShareEmpty; if it has none, "" and its choice,
// RefuseEmpty or SkipEmpty. The zero Key has no value for any call.
type Key = admit.Key[*Call]

// Empty is what happens to a call that has no value for a Key: see Key.
type Empty = admit.Empty

const (
	// RefuseEmpty refuses the call with INVALID_ARGUMENT. It is the default.
	RefuseEmpty = admit.RefuseEmpty

	// SkipEmpty does not count the call under this key. Whoever leaves the value out is then not limited by it: use it
	// only beside another limit, or where only some calls have the value.
	SkipEmpty = admit.SkipEmpty

	// ShareEmpty counts all calls without a value together, as one subject of their own.
	ShareEmpty = admit.ShareEmpty
)

// KeyByIP counts by the IP address that the caller has connected from. Behind a proxy that is the proxy's: use
// KeyByMetadata with what the proxy sets, if it replaces what callers send under that name.
//
// IPv6 addresses are counted by their /64 prefix, because that is what one customer has. An IPv4 address that is
// written as IPv6 (::ffff:192.0.2.7) is that IPv4 address, and zones (fe80::1%eth0) are left out. A call that came by a
// Unix socket has no address, and neither has a client's call.
func KeyByIP() Key {
	return KeyBy(func(c *Call) string {
		addr := c.peer()
		switch {
		case !addr.IsValid():
			return ""
		case addr.Is4():
			return addr.String()
		}
		return netip.PrefixFrom(addr, ipv6Bits).Masked().String() // a prefix has no zone
	})
}

// ipv6Bits is how many bits of an IPv6 address are counted together.
const ipv6Bits = 64

// KeyByMetadata counts by the first value of a metadata key, "x-user". Use it for values that the caller cannot choose
// freely, such as an API key that is checked before: a caller who may send anything is a new subject with each call.
// A binary value ("x-user-bin") is counted in unpadded base64url.
func KeyByMetadata(name string) Key {
	return KeyBy(func(c *Call) string { return c.metadata(name) })
}

// KeyByMethod counts by the full method, "/shop.Orders/Place": each has the whole limit. To have the methods in the
// names of limiters, so that each may have a limit of its own, see PerMethod.
func KeyByMethod() Key {
	return KeyBy(func(c *Call) string { return c.Method })
}

// KeyBy counts by what a function returns; "" is no value.
func KeyBy(value func(*Call) string) Key { return admit.KeyBy(value) }

// KeyOf counts all calls under these values. Use it to count a whole service or a partner's quota together, and where
// the values are known already: see PerRequest.
func KeyOf(values ...string) Key { return admit.KeyOf[*Call](values...) }

// Join counts by several keys together: by address and account, say. Two calls are counted together only if all of
// their values are equal. Each key keeps its choice for an empty value; if they differ, RefuseEmpty goes before
// SkipEmpty.
func Join(keys ...Key) Key { return admit.Join(keys...) }

// metadata returns the first value of a metadata key, "" if there is none: of the incoming metadata on a server, of the
// outgoing metadata on a client.
func (c *Call) metadata(name string) string {
	var values []string
	if c.outgoing {
		md, _ := metadata.FromOutgoingContext(c.ctx)
		values = md.Get(name)
	} else {
		values = metadata.ValueFromIncomingContext(c.ctx, name)
	}
	if len(values) == 0 {
		return ""
	}
	if strings.HasSuffix(strings.ToLower(name), "-bin") {
		return base64.RawURLEncoding.EncodeToString([]byte(values[0]))
	}
	return values[0]
}

// peer returns the IP address of the caller, IPv4 not as IPv6. It is not valid if there is none.
func (c *Call) peer() netip.Addr {
	p, ok := peer.FromContext(c.ctx)
	if !ok || c.outgoing || p.Addr == nil {
		return netip.Addr{}
	}
	addr, isTCP := p.Addr.(*net.TCPAddr)
	if isTCP {
		return addr.AddrPort().Addr().Unmap()
	}
	from, _ := netip.ParseAddrPort(p.Addr.String()) // a listener of another kind
	return from.Addr().Unmap()
}

// Subject returns the subject under which calls with these values are counted. Use it to look a subject up or to
// unblock it: login.Reset(ctx, grpclimit.Subject("192.0.2.7", "ada")).
//
// Values are joined by "|". In a value "~" is written ~0 and "|" is written ~1. An empty value is written ~, and one of
// more than 128 bytes as ~2 and its SHA-256 hash in unpadded base64url, so that no caller can store long keys. So
// different lists of values have different subjects, and most values are written as they are.
func Subject(values ...string) string { return subjects.Join(values...) }
