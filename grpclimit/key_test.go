package grpclimit_test

import (
	"net"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sluice-redis/sluice/grpclimit"
)

// address is that of a listener of another kind than TCP.
type address string

func (a address) Network() string { return "other" }
func (a address) String() string  { return string(a) }

func TestKeyByIP(t *testing.T) {
	v6 := net.ParseIP("2001:db8:1:2:3:4:5:6")
	for _, row := range []struct {
		peer net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7).To4(), Port: 1}, "192.0.2.7"},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7).To16(), Port: 1}, "192.0.2.7"}, // mapped
		{&net.TCPAddr{IP: v6, Port: 1}, "2001:db8:1:2::/64"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}, "fe80::/64"},
		{&net.TCPAddr{}, ""},
		{&net.UnixAddr{Name: "/run/app.sock", Net: "unix"}, ""},
		{&net.UnixAddr{Name: "@", Net: "unix"}, ""},
		{address("192.0.2.7:80"), "192.0.2.7"},
		{address("[::ffff:192.0.2.7]:80"), "192.0.2.7"},
		{address("[2001:db8::1%eth0]:80"), "2001:db8::/64"},
		{address("bufconn"), ""},
		{nil, ""},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: row.peer})
		subject, choice := grpclimit.KeyByIP().Subject(grpclimit.NewCall(ctx, unaryMethod, nil))
		if subject != row.want || (choice == grpclimit.RefuseEmpty) != (row.want == "") {
			t.Errorf("%v: %q, %d, want %q", row.peer, subject, choice, row.want)
		}
	}
	if subject, _ := grpclimit.KeyByIP().Subject(grpclimit.NewCall(t.Context(), unaryMethod, nil)); subject != "" {
		t.Errorf("without a peer: %q", subject)
	}
}

func TestKeys(t *testing.T) {
	md := metadata.Pairs("x-user", "ada", "x-user", "bob", "x-org", "a|b", "x-key-bin", "\x00\xff")
	ctx := metadata.NewOutgoingContext(metadata.NewIncomingContext(t.Context(), md), metadata.Pairs("x-user", "out"))
	c := grpclimit.NewCall(ctx, unaryMethod, nil)
	user, org := grpclimit.KeyByMetadata("X-User"), grpclimit.KeyByMetadata("x-org")
	none := grpclimit.KeyByMetadata("x-none")
	service := grpclimit.KeyBy(func(c *grpclimit.Call) string { return c.Method[:5] })
	for name, row := range map[string]struct {
		key    grpclimit.Key
		want   string
		choice grpclimit.Empty
	}{
		"first value": {user, "ada", grpclimit.ShareEmpty},
		"binary":      {grpclimit.KeyByMetadata("x-key-bin"), "AP8", grpclimit.ShareEmpty},
		"method":      {grpclimit.KeyByMethod(), unaryMethod, grpclimit.ShareEmpty},
		"function":    {service, "/grpc", grpclimit.ShareEmpty},
		"known":       {grpclimit.KeyOf("a", "b"), "a|b", grpclimit.ShareEmpty},
		"joined":      {grpclimit.Join(user, org), "ada|a~1b", grpclimit.ShareEmpty},
		"none":        {none, "", grpclimit.RefuseEmpty},
		"part shared": {grpclimit.Join(user, none.IfEmpty(grpclimit.ShareEmpty)), "ada|~", grpclimit.ShareEmpty},
		"zero":        {grpclimit.Key{}, "", grpclimit.RefuseEmpty},
	} {
		if subject, choice := row.key.Subject(c); subject != row.want || choice != row.choice {
			t.Errorf("%s: %q, %d, want %q, %d", name, subject, choice, row.want, row.choice)
		}
	}
	if err := user.Check(); err != nil || none.IfEmpty(7).Check() == nil {
		t.Error(err)
	}
}
