package grpclimit

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Key says whom a call is counted for: it makes the subject of a limiter. Make one with KeyByIP, KeyByMetadata,
// KeyByMethod, KeyBy or KeyOf, and join several with Join. The subject is that of Subject.
//
// A call may have no value for a key: no such metadata, say. By default it is then refused with INVALID_ARGUMENT;
// IfEmpty chooses something else. The zero Key has no value for any call.
type Key struct {
	parts []keyPart
	err   error
}

// keyPart is one value of a key.
type keyPart struct {
	known   string // "": see value
	value   func(*Call) string
	ifEmpty Empty
}

func (p keyPart) of(c *Call) string {
	if p.value == nil {
		return p.known
	}
	return p.value(c)
}

// Empty is what happens to a call that has no value for a Key: see Key.IfEmpty.
type Empty int

const (
	// RefuseEmpty refuses the call with INVALID_ARGUMENT. It is the default.
	RefuseEmpty Empty = iota

	// SkipEmpty does not count the call under this key. Whoever leaves the value out is then not limited by it: use it
	// only beside another limit, or where only some calls have the value.
	SkipEmpty

	// ShareEmpty counts all calls without a value together, as one subject of their own.
	ShareEmpty
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
// freely, such as an API key that is checked before: who may send anything is a new subject with each call.
func KeyByMetadata(name string) Key {
	return KeyBy(func(c *Call) string { return c.metadata(name) })
}

// KeyByMethod counts by the full method, "/shop.Orders/Place": each has the whole limit. To have the methods in the
// names of limiters, so that each may have a limit of its own, see PerMethod.
func KeyByMethod() Key {
	return KeyBy(func(c *Call) string { return c.Method })
}

// KeyBy counts by what a function returns; "" is no value.
func KeyBy(value func(*Call) string) Key {
	if value == nil {
		return Key{err: errors.New("grpclimit: KeyBy: the function is nil")}
	}
	return Key{parts: []keyPart{{value: value}}}
}

// KeyOf counts all calls under these values. Use it to count a whole service or a partner's quota together, and where
// the values are known already: see PerCall.
func KeyOf(values ...string) Key {
	key := Key{parts: make([]keyPart, len(values))}
	for i, value := range values {
		key.parts[i].known = value
	}
	return key
}

// Join counts by several keys together: by address and account, say. Two calls are counted together only if all of
// their values are equal. Each key keeps its choice for an empty value; if they differ, RefuseEmpty goes before
// SkipEmpty.
func Join(keys ...Key) Key {
	var joined Key
	for _, key := range keys {
		joined.parts = append(joined.parts, key.parts...)
		joined.err = errors.Join(joined.err, key.Check())
	}
	return joined
}

// IfEmpty returns the key with a choice of what happens to a call that has no value for it.
func (k Key) IfEmpty(choice Empty) Key {
	k.parts = slices.Clone(k.parts)
	for i := range k.parts {
		k.parts[i].ifEmpty = choice
	}
	if choice < RefuseEmpty || choice > ShareEmpty {
		k.err = errors.Join(k.err, errors.New("grpclimit: IfEmpty: want RefuseEmpty, SkipEmpty or ShareEmpty"))
	}
	return k
}

// Check returns what is wrong with the key. Interceptor.Check calls it.
func (k Key) Check() error {
	if k.err == nil && len(k.parts) == 0 {
		return errors.New("grpclimit: the key is empty: want KeyByIP or another one")
	}
	return k.err
}

// Subject returns the subject for a call. If the call is not to be counted, or is to be refused, the subject is "" and
// choice says which: SkipEmpty or RefuseEmpty.
func (k Key) Subject(c *Call) (subject string, choice Empty) {
	if len(k.parts) == 0 {
		return "", RefuseEmpty
	}
	values := make([]string, 0, 4)
	choice = ShareEmpty
	for _, part := range k.parts {
		value := part.of(c)
		if value == "" {
			choice = min(choice, part.ifEmpty)
		}
		values = append(values, value)
	}
	if choice != ShareEmpty {
		return "", choice
	}
	return Subject(values...), ShareEmpty
}

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
