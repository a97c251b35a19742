package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/httplimit"
)

// addressOf is what KeyByIP makes of a request; "" if it has no address.
func addressOf(key httplimit.Key, remoteAddr string, header http.Header) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remoteAddr
	for name, values := range header {
		r.Header[name] = values
	}
	subject, _ := key.Subject(r)
	return subject
}

// The address of the connection, without a proxy.
func TestRemoteAddress(t *testing.T) {
	for _, test := range []struct {
		name, remoteAddr, want string
		opts                   []httplimit.IPOption
	}{
		{"IPv4", "192.0.2.7:1234", "192.0.2.7", nil},
		{"IPv6 by prefix", "[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::/64", nil},
		{"another of the same prefix", "[2001:db8:1:2:ffff::1]:1", "2001:db8:1:2::/64", nil},
		{"another prefix", "[2001:db8:1:3::1]:1", "2001:db8:1:3::/64", nil},
		{"a prefix of 56", "[2001:db8:1:2ff::1]:1", "2001:db8:1:200::/56",
			[]httplimit.IPOption{httplimit.IPv6Prefix(56)}},
		{"each address", "[2001:db8::7]:1", "2001:db8::7", []httplimit.IPOption{httplimit.IPv6Prefix(128), nil}},
		{"a prefix does not touch IPv4", "192.0.2.7:1", "192.0.2.7", []httplimit.IPOption{httplimit.IPv6Prefix(1)}},
		{"mapped", "[::ffff:192.0.2.7]:1234", "192.0.2.7", nil},
		{"mapped in hexadecimal", "[::ffff:c000:207]:1234", "192.0.2.7", nil},
		{"zone", "[fe80::1%eth0]:1234", "fe80::/64", nil},
		{"another zone", "[fe80::1%eth1]:1234", "fe80::/64", nil},
		{"mapped with a zone", "[::ffff:192.0.2.7%eth0]:1234", "192.0.2.7", nil},
		{"loopback", "[::1]:1234", "::/64", nil},
		{"without a port", "192.0.2.7", "192.0.2.7", nil},
		{"IPv6 without a port", "2001:db8::7", "2001:db8::/64", nil},
		{"Unix socket", "@", "", nil},
		{"named Unix socket", "/run/app.sock", "", nil},
		{"nothing", "", "", nil},
		{"a name", "localhost:1234", "", nil},
		{"no proxy is trusted", "10.0.0.1:1234", "10.0.0.1", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=198.51.100.2"}}
			if got := addressOf(httplimit.KeyByIP(test.opts...), test.remoteAddr, header); got != test.want {
				t.Errorf("%q is %q, want %q", test.remoteAddr, got, test.want)
			}
		})
	}
}

// Who may say which address a request has. The attacker's own address is 203.0.113.9; 198.51.100.1 is whom he would
// like to be. Proxies are 10.0.0.0/8, 2001:db8:f::/48 and, in the last column, Unix sockets.
func TestXForwardedForSpoofing(t *testing.T) {
	const proxy, victim, attacker = "10.0.0.1:1234", "198.51.100.1", "203.0.113.9"
	trusted := []string{"10.0.0.0/8", "2001:db8:f::/48", "192.0.2.200"}
	tcp := httplimit.KeyByIP(httplimit.TrustXForwardedFor(trusted...))
	unix := httplimit.KeyByIP(httplimit.TrustXForwardedFor(append(trusted, "unix")...))
	for _, test := range []struct {
		name       string
		key        httplimit.Key
		remoteAddr string
		lines      []string
		want       string
	}{
		{"no proxy in between", tcp, attacker + ":1", []string{victim}, attacker},
		{"one proxy", tcp, proxy, []string{attacker}, attacker},
		{"left-most", tcp, proxy, []string{victim + ", " + attacker}, attacker},
		{"many", tcp, proxy, []string{strings.Repeat(victim+", ", 1000) + attacker}, attacker},
		{"many lines", tcp, proxy, []string{victim, victim, attacker}, attacker},
		{"the attacker's line before the proxy's", tcp, proxy, []string{victim + ", 10.0.0.2", attacker}, attacker},
		{"two proxies", tcp, proxy, []string{victim + "," + attacker + ",10.0.0.2"}, attacker},
		{"two proxies on two lines", tcp, proxy, []string{victim + ", " + attacker, "10.0.0.2"}, attacker},
		{"claims to be a proxy", tcp, proxy, []string{victim + ", 10.9.9.9, " + attacker}, attacker},
		{"a proxy's own request", tcp, proxy, nil, "10.0.0.1"},
		{"a request of a host among the proxies", tcp, proxy, []string{"10.0.0.3"}, "10.0.0.3"},
		{"a single trusted address", tcp, "192.0.2.200:1", []string{attacker}, attacker},
		{"beside the single address", tcp, "192.0.2.201:1", []string{victim}, "192.0.2.201"},

		{"malformed, right", tcp, proxy, []string{victim + ", unknown"}, ""},
		{"malformed, left", tcp, proxy, []string{"unknown, " + attacker}, attacker},
		{"malformed before a proxy", tcp, proxy, []string{victim + ", x, 10.0.0.2"}, ""},
		{"empty", tcp, proxy, []string{""}, ""},
		{"empty, right", tcp, proxy, []string{victim + ","}, ""},
		{"empty, right, with space", tcp, proxy, []string{victim + ", "}, ""},
		{"empty, left", tcp, proxy, []string{", " + attacker}, attacker},
		{"an empty line at the end", tcp, proxy, []string{victim, ""}, ""},
		{"leading zeros", tcp, proxy, []string{victim + ", 203.0.113.09"}, ""},
		{"hexadecimal", tcp, proxy, []string{victim + ", 0xcb.0.0x71.9"}, ""},
		{"a number", tcp, proxy, []string{victim + ", 3405803785"}, ""},
		{"quoted", tcp, proxy, []string{victim + `, "203.0.113.9"`}, ""},
		{"semicolons", tcp, proxy, []string{victim + "; " + attacker}, ""},
		{"spaces", tcp, proxy, []string{victim + " " + attacker}, ""},
		{"tabs around", tcp, proxy, []string{victim + ",\t" + attacker + "\t"}, attacker},
		{"a NUL", tcp, proxy, []string{attacker + "\x00"}, ""},
		{"a prefix", tcp, proxy, []string{"203.0.113.0/24"}, ""},
		{"half a bracket", tcp, proxy, []string{"[2001:db8::9"}, ""},
		{"brackets around IPv4", tcp, proxy, []string{"[203.0.113.9]"}, ""},

		{"zone", tcp, proxy, []string{"fe80::9%eth0"}, "fe80::/64"},
		{"zones make no new client", tcp, proxy, []string{"fe80::9%a"}, "fe80::/64"},
		{"a zone that looks like a list", tcp, proxy, []string{"fe80::9%a,203.0.113.9"}, attacker},
		{"a trusted proxy with a zone", tcp, "[2001:db8:f::1%eth0]:1", []string{attacker}, attacker},
		{"an empty zone", tcp, proxy, []string{"fe80::9%"}, ""},

		{"mapped", tcp, proxy, []string{"::ffff:203.0.113.9"}, attacker},
		{"mapped in hexadecimal", tcp, proxy, []string{"::ffff:cb00:7109"}, attacker},
		{"a mapped proxy", tcp, "[::ffff:10.0.0.1]:1234", []string{victim + ", " + attacker}, attacker},
		{"a mapped proxy in the list", tcp, proxy, []string{attacker + ", ::ffff:10.0.0.2"}, attacker},
		{"a mapped prefix is trusted", httplimit.KeyByIP(httplimit.TrustXForwardedFor("::ffff:10.0.0.0/104")), proxy,
			[]string{attacker}, attacker},
		{"compatible, not mapped", tcp, proxy, []string{"::203.0.113.9"}, "::/64"},

		{"port", tcp, proxy, []string{attacker + ":4711"}, attacker},
		{"ports make no new client", tcp, proxy, []string{attacker + ":4712"}, attacker},
		{"port of IPv6", tcp, proxy, []string{"[2001:db8::9]:4711"}, "2001:db8::/64"},
		{"brackets without a port", tcp, proxy, []string{"[2001:db8::9]"}, "2001:db8::/64"},
		{"a proxy with a port", tcp, proxy, []string{attacker + ", 10.0.0.2:80"}, attacker},
		{"no such port", tcp, proxy, []string{attacker + ":99999"}, ""},
		{"an empty port", tcp, proxy, []string{attacker + ":"}, ""},
		{"an obfuscated port, which only Forwarded has", tcp, proxy, []string{attacker + ":_x"}, ""},

		{"Unix socket, not trusted", tcp, "@", []string{victim}, ""},
		{"Unix socket", unix, "@", []string{victim + ", " + attacker}, attacker},
		{"named Unix socket", unix, "/run/app.sock", []string{attacker}, attacker},
		{"Unix socket without a name", unix, "", []string{attacker}, attacker},
		{"Unix socket without the header", unix, "@", nil, ""},
		{"what nginx writes for its own Unix socket", unix, "@", []string{victim + ", unix:"}, ""},
		{"unix is no address in the header", unix, proxy, []string{victim + ", unix"}, ""},
		{"an attacker by TCP", unix, attacker + ":1", []string{victim}, attacker},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"Forwarded": {"for=" + victim}, "X-Real-Ip": {victim}}
			if test.lines != nil {
				header["X-Forwarded-For"] = test.lines
			}
			if got := addressOf(test.key, test.remoteAddr, header); got != test.want {
				t.Errorf("%q from %s is %q, want %q", test.lines, test.remoteAddr, got, test.want)
			}
		})
	}
}

// Behind a real Unix socket the proxy is trusted only if "unix" is.
func TestUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "http"))
	if err != nil {
		t.Fatal(err)
	}
	trusts := httplimit.KeyByIP(httplimit.TrustXForwardedFor("unix"))
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			trusted, _ := trusts.Subject(r)
			other, choice := httplimit.KeyByIP(httplimit.TrustXForwardedFor("0.0.0.0/0", "::/0")).Subject(r)
			_, _ = fmt.Fprint(w, trusted, other, choice)
		})}}
	server.Start()
	defer server.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", listener.Addr().String())
	}}}
	defer client.CloseIdleConnections()
	r, _ := http.NewRequest(http.MethodGet, "http://unix/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); string(got) != fmt.Sprint("203.0.113.9", "", httplimit.RefuseEmpty) {
		t.Errorf("%s, %v", got, err)
	}
}

// The same with the header Forwarded: quotes that the attacker leaves open change nothing to the right of them.
func TestForwardedSpoofing(t *testing.T) {
	const proxy, attacker = "10.0.0.1:1234", "203.0.113.9"
	key := httplimit.KeyByIP(httplimit.TrustForwarded("10.0.0.0/8"))
	for _, test := range []struct {
		name, remoteAddr string
		lines            []string
		want             string
	}{
		{"no proxy in between", attacker + ":1", []string{"for=198.51.100.1"}, attacker},
		{"one proxy", proxy, []string{"for=203.0.113.9"}, attacker},
		{"other parameters", proxy, []string{"proto=https; For=203.0.113.9 ;by=10.0.0.1"}, attacker},
		{"left-most", proxy, []string{"for=198.51.100.1, for=203.0.113.9"}, attacker},
		{"two lines", proxy, []string{"for=198.51.100.1", "for=203.0.113.9"}, attacker},
		{"two proxies", proxy, []string{`for=198.51.100.1, for=203.0.113.9;proto=http, for="10.0.0.2:80"`}, attacker},
		{"an open quote", proxy, []string{`for="198.51.100.1, for=203.0.113.9`}, attacker},
		{"an open quote with a backslash", proxy, []string{`for="198.51.100.1\, for=203.0.113.9`}, attacker},
		{"an open quote and quotes", proxy, []string{`for="198.51.100.1, for="203.0.113.9:1"`}, attacker},
		{"an open quote on another line", proxy, []string{`for="`, `for="203.0.113.9"`}, attacker},
		{"a comma in quotes", proxy, []string{`for=203.0.113.9;host="a,b"`}, attacker},
		{"a semicolon in quotes", proxy, []string{`host="a;for=198.51.100.1";for=203.0.113.9`}, attacker},
		{"a comma behind an escaped quote", proxy, []string{`for=203.0.113.9;host="a\",for=198.51.100.1"`}, attacker},
		{"IPv6", proxy, []string{`for="[2001:db8::9]:4711"`}, "2001:db8::/64"},
		{"mapped", proxy, []string{`for="[::ffff:203.0.113.9]"`}, attacker},
		{"unknown", proxy, []string{"for=198.51.100.1, for=unknown"}, ""},
		{"obfuscated", proxy, []string{"for=_hidden"}, ""},
		{"obfuscated with a port", proxy, []string{`for=198.51.100.1, for="_hidden:80"`}, ""},
		{"all obfuscated", proxy, []string{`for=198.51.100.1, for="_hidden:_port"`}, ""},
		{"unknown with a port", proxy, []string{`for=198.51.100.1, for="unknown:_port"`}, ""},
		{"an obfuscated port", proxy, []string{`for="203.0.113.9:_x"`}, attacker},
		{"all of its characters", proxy, []string{`for="203.0.113.9:_aZ09._-"`}, attacker},
		{"obfuscated ports make no new client", proxy, []string{`for="203.0.113.9:_y"`}, attacker},
		{"an obfuscated port of IPv6", proxy, []string{`for="[2001:db8::9]:_x"`}, "2001:db8::/64"},
		{"an obfuscated port of a proxy", proxy, []string{`for=203.0.113.9, for="10.0.0.2:_x"`}, attacker},
		{"an obfuscated port without a character", proxy, []string{`for="203.0.113.9:_"`}, ""},
		{"an obfuscated port with another character", proxy, []string{`for="203.0.113.9:_x!"`}, ""},
		{"an obfuscated port that is escaped", proxy, []string{`for="203.0.113.9:_x\""`}, ""},
		{"two ports", proxy, []string{`for="203.0.113.9:80:_x"`}, ""},
		{"two obfuscated ports", proxy, []string{`for="203.0.113.9:_x:_x"`}, ""},
		{"two ports of IPv6", proxy, []string{`for="[2001:db8::9]:80:_x"`}, ""},
		{"an obfuscated port without brackets", proxy, []string{`for="2001:db8::9:_x"`}, ""},
		{"an obfuscated port in brackets", proxy, []string{`for="[2001:db8::9:_x]"`}, ""},
		{"no for", proxy, []string{"for=198.51.100.1, proto=https"}, ""},
		{"two of them", proxy, []string{"for=198.51.100.1;for=203.0.113.9"}, ""},
		{"empty", proxy, []string{"for=198.51.100.1,"}, ""},
		{"an empty value", proxy, []string{"for="}, ""},
		{"half a quote", proxy, []string{`for=203.0.113.9"`}, ""},
		{"no header", proxy, nil, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"X-Forwarded-For": {"198.51.100.1"}}
			if test.lines != nil {
				header["Forwarded"] = test.lines
			}
			if got := addressOf(key, test.remoteAddr, header); got != test.want {
				t.Errorf("%q from %s is %q, want %q", test.lines, test.remoteAddr, got, test.want)
			}
		})
	}
}

// Whatever a client writes to the left of what the proxy has appended, the key is the same.
func FuzzForwarded(f *testing.F) {
	for _, text := range []string{
		"", "198.51.100.1", `for="`, `for="\`, `"`, `\"`, ",", ";", "10.0.0.1, 10.0.0.1", `for=10.0.0.1;x="`, "a\n", "%",
	} {
		f.Add(text)
	}
	const proxy = "10.0.0.1:1"
	x := httplimit.KeyByIP(httplimit.TrustXForwardedFor("10.0.0.0/8"))
	standard := httplimit.KeyByIP(httplimit.TrustForwarded("10.0.0.0/8"))
	f.Fuzz(func(t *testing.T, client string) {
		for _, own := range []string{"203.0.113.9", "203.0.113.9:80", "[::ffff:203.0.113.9]:80"} {
			for _, got := range []string{
				addressOf(x, proxy, http.Header{"X-Forwarded-For": {client + ", " + own}}),
				addressOf(x, proxy, http.Header{"X-Forwarded-For": {client, own}}),
				addressOf(standard, proxy, http.Header{"Forwarded": {client + `,for="` + own + `"`}}),
				addressOf(standard, proxy, http.Header{"Forwarded": {client, `for="` + own + `";host="a,b"`}}),
			} {
				if got != "203.0.113.9" {
					t.Errorf("behind %q, %s is counted as %q", client, own, got)
				}
			}
		}
	})
}

// Whatever stands in the remote address and in the header: the key is an address, a prefix, or nothing.
func FuzzKeyByIP(f *testing.F) {
	f.Add("192.0.2.7:1", "fe80::1%a|b")
	f.Add("[::ffff:10.0.0.1%x]:1", "10.0.0.1, x")
	f.Add("10.0.0.1:1", `for="[fe80::1%,]:1"`)
	keys := []httplimit.Key{
		httplimit.KeyByIP(), httplimit.KeyByIP(httplimit.TrustXForwardedFor("0.0.0.0/0", "::/0", "unix")),
		httplimit.KeyByIP(httplimit.TrustForwarded("0.0.0.0/0", "::/0", "unix")),
	}
	f.Fuzz(func(t *testing.T, remoteAddr, line string) {
		for _, key := range keys {
			got := addressOf(key, remoteAddr, http.Header{"X-Forwarded-For": {line}, "Forwarded": {line}})
			addr, err := netip.ParseAddr(got)
			prefix, err2 := netip.ParsePrefix(got)
			switch {
			case got == "":
			case err == nil && addr.Is4():
			case err2 == nil && prefix.Bits() == 64 && prefix.Masked() == prefix && !prefix.Addr().Is4In6():
			default:
				t.Errorf("%q with %q is counted as %q", remoteAddr, line, got)
			}
		}
	})
}
