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
	"testing"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
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

// What an address is, of the connection and in a header.
func TestAddresses(t *testing.T) {
	behind := httplimit.KeyByIP(httplimit.TrustXForwardedFor("10.0.0.1"))
	local := httplimit.KeyByIP(httplimit.TrustXForwardedFor("unix"))
	for _, v := range readSubjects(t).Addresses {
		want := v.Subject
		if got := addressOf(httplimit.KeyByIP(nil), v.Text, nil); got != want {
			t.Errorf("from %q: %q, want %q", v.Text, got, want)
		}
		if got := addressOf(behind, "10.0.0.1:80", http.Header{"X-Forwarded-For": {v.Text}}); got != want {
			t.Errorf("in a header %q: %q, want %q", v.Text, got, want)
		}
		if v.Unix {
			want = "192.0.2.1"
		}
		if got := addressOf(local, v.Text, http.Header{"X-Forwarded-For": {"192.0.2.1"}}); got != want {
			t.Errorf("from %q by a Unix socket: %q, want %q", v.Text, got, want)
		}
	}
}

// A connection without an address is not the client's fault; a header without one is.
func TestPeerWithoutAddress(t *testing.T) {
	_, limits := fake(t)
	trusting := httplimit.KeyByIP(httplimit.TrustXForwardedFor("10.0.0.1", "unix"))
	for _, test := range []struct {
		key          httplimit.Key
		peer, header string
		want         int
	}{
		{httplimit.KeyByIP(), "testclient", "", 500},
		{httplimit.KeyByIP(), "@", "", 500},
		{httplimit.KeyByIP().IfEmpty(httplimit.SkipEmpty), "@", "", 200},
		{trusting, "@", "x", 400},
		{trusting, "@", "unknown", 500},
		{trusting, "10.0.0.1:80", "x", 400},
		{trusting, "testclient", "192.0.2.1", 500},
	} {
		h := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(9)), test.key)).Handler(ok)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.peer
		r.Header.Set("X-Forwarded-For", test.header)
		answer := httptest.NewRecorder()
		if h.ServeHTTP(answer, r); answer.Code != test.want {
			t.Errorf("from %q for %q: %d, want %d", test.peer, test.header, answer.Code, test.want)
		}
	}
}

// Who may say which address a request has. The attacker's own address is 203.0.113.9; 198.51.100.1 is whom he would
// like to be. Quotes that he leaves open in Forwarded change nothing to the right of them.
func TestForwardedSpoofing(t *testing.T) {
	vectors := readSubjects(t)
	for _, header := range []struct {
		name, other string
		trust       func(...string) httplimit.IPOption
		cases       []forwardedCase
	}{
		{"X-Forwarded-For", "Forwarded", httplimit.TrustXForwardedFor, vectors.XForwardedFor},
		{"Forwarded", "X-Forwarded-For", httplimit.TrustForwarded, vectors.Forwarded},
		{"X-Forwarded-For", "Forwarded", nil, vectors.Hops},
	} {
		for _, test := range header.cases {
			t.Run(header.name+"/"+test.Name, func(t *testing.T) {
				var opts []httplimit.IPOption
				if test.Trust != nil {
					opts = append(opts, header.trust(test.Trust...))
				}
				if test.Hops != 0 {
					opts = append(opts, httplimit.TrustHops(test.Hops))
				}
				if test.IPv6Prefix != 0 {
					opts = append(opts, httplimit.IPv6Prefix(test.IPv6Prefix))
				}
				lines := http.Header{header.other: {"for=198.51.100.1"}, "X-Real-Ip": {"198.51.100.1"}}
				for _, line := range test.Lines {
					lines[header.name] = append(lines[header.name], bytesOf(line))
				}
				peer := "@"
				if test.Peer != "" {
					peer = net.JoinHostPort(test.Peer, "1234")
				}
				if got := addressOf(httplimit.KeyByIP(opts...), peer, lines); got != test.Subject {
					t.Errorf("%q from %s is %q, want %q", test.Lines, peer, got, test.Subject)
				}
			})
		}
	}
}

// bytesOf returns the bytes that the characters of a text stand for.
func bytesOf(text string) string {
	var line []byte
	for _, c := range text {
		line = append(line, byte(c))
	}
	return string(line)
}

// Behind a real Unix socket the proxy is trusted only if "unix" is.
func TestUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "http"))
	must(t, err)
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
	must(t, err)
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); string(got) != fmt.Sprint("203.0.113.9", "", httplimit.RefuseEmpty) {
		t.Errorf("%s, %v", got, err)
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
