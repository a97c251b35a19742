package grpclimit

import (
	"encoding/base64"
	"strings"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/internal/clientaddr"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Key says whom a call is counted for: it makes the subject of a limiter. Make one with KeyByIP, KeyByMetadata,
// KeyByMethod, KeyBy or KeyOf, and join several with Join. Subject says how the subject is made of them.
//
// A call may have no value for a key: no such metadata, say, or one that is not UTF-8. By default it is then refused
// with INVALID_ARGUMENT: see IfEmpty. The zero Key has no value for any call.
type Key struct{ key admit.Key[*Call] }

// IfEmpty returns the key with a choice of what happens to a call that has no value for it.
func (k Key) IfEmpty(choice Empty) Key { return Key{k.key.IfEmpty(choice)} }

// Check returns what is wrong with the key.
func (k Key) Check() error { return k.key.Check() }

// Subject returns the subject for a call and ShareEmpty. If it has none, the subject is "" and the choice RefuseEmpty
// or SkipEmpty.
func (k Key) Subject(c *Call) (subject string, choice Empty) { return k.key.Subject(c) }

// Empty is what happens to a call that has no value for a Key: see Key.IfEmpty.
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
// Unix socket has no address, and neither has a client's call. Where that is refused (see IfEmpty), the code is
// INTERNAL.
func KeyByIP() Key {
	var finder clientaddr.Finder
	return Key{admit.KeyByConnection(func(c *Call) (string, error) {
		addr, err := finder.Find(c.peer(), nil)
		return admit.Network(addr, ipv6Bits), err
	})}
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
func KeyBy(value func(*Call) string) Key { return Key{admit.KeyBy(value)} }

// KeyOf counts all calls under these values. Use it to count a whole service or a partner's quota together, and where
// the values are known already: see PerRequest.
func KeyOf(values ...string) Key { return Key{admit.KeyOf[*Call](values...)} }

// Join counts by several keys together: by address and account, say. Two calls are counted together only if all of
// their values are equal. Each key keeps its choice for an empty value; if they differ, RefuseEmpty goes before
// SkipEmpty.
func Join(keys ...Key) Key {
	joined := make([]admit.Key[*Call], len(keys))
	for i, k := range keys {
		joined[i] = k.key
	}
	return Key{admit.Join(joined...)}
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
	if strings.HasSuffix(strings.ToLower(name), "-bin") {
		return base64.RawURLEncoding.EncodeToString([]byte(values[0]))
	}
	return values[0]
}

// peer returns the address of the caller, "" if there is none.
func (c *Call) peer() string {
	if p, ok := peer.FromContext(c.ctx); ok && p.Addr != nil && !c.outgoing {
		return p.Addr.String()
	}
	return ""
}

// Subject returns the subject under which calls with these values are counted. Use it to look a subject up or to
// unblock it: login.Reset(ctx, grpclimit.Subject("192.0.2.7", "ada")).
//
// Values are joined by "|". In a value "~" is written ~0 and "|" is written ~1. An empty value is written ~, and one of
// more than 128 bytes as ~2 and its SHA-256 hash in unpadded base64url, so that no caller can store long keys. So
// different lists of values have different subjects, and most values are written as they are.
func Subject(values ...string) string { return admit.Subject(values...) }
