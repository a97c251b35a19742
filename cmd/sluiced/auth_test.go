package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

func scrape(t *testing.T, m *metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Forward auth finds the client's request in the headers of a trusted peer, and otherwise in the request line. It does
// not guess for a peer that is not trusted.
func TestAuth(t *testing.T) {
	s, _ := newService(t, map[string]string{"login.yaml": "proxies: [192.0.2.1]\nlimits:\n" +
		"  login: {when: 'request.path == \"/login\" && request.method == \"POST\"', by: request.ip, rates: 1/1m,\n" +
		"    overrides: [{subject: 203.0.113.11, rates: 2/1m, until: 2999-01-01T00:00:00Z}]}"})
	of := func(client string, more ...string) map[string]string {
		headers := map[string]string{"X-Forwarded-For": client}
		for i := 0; i < len(more); i += 2 {
			headers[more[i]] = more[i+1]
		}
		return headers
	}
	said := func(uri string) map[string]string {
		return of("203.0.113.9", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", uri)
	}
	const proxy, stranger, client = "192.0.2.1:1", "203.0.113.9:1", "203.0.113.9"
	for _, step := range []struct {
		name, peer, method, url string
		headers                 map[string]string
		want                    int
	}{
		{"a path without a limit", proxy, "GET", "/auth/login/other", nil, 200},
		{"the first", proxy, "POST", "/auth/login/login", of(client), 200},
		{"the second", proxy, "POST", "/auth/login/login", of(client), 429},
		{"the second, for nginx", proxy, "POST", "/auth403/login/login", of(client), 403},
		{"by nginx's headers", proxy, "GET", "/auth403/login", of(client, "X-Original-Method", "POST",
			"X-Original-URI", "/login?x=1"), 403},
		{"another client", proxy, "GET", "/auth/login", of("203.0.113.10", "X-Forwarded-Method", "POST",
			"X-Forwarded-Uri", "/login"), 200},
		{"a client with an override", proxy, "POST", "/auth/login/login", of("203.0.113.11"), 200},
		{"its second", proxy, "POST", "/auth/login/login", of("203.0.113.11"), 200},
		{"its third", proxy, "POST", "/auth/login/login", of("203.0.113.11"), 429},
		{"a proxy that is not trusted", stranger, "GET", "/auth/login", map[string]string{"X-Forwarded-Uri": "/"}, 503},
		{"nor for the address", stranger, "POST", "/auth/login/login", of("203.0.113.77"), 503},
		{"a client by itself", stranger, "POST", "/auth/login/login", nil, 429},
		{"a name that is no file", proxy, "POST", "/auth/other/login", nil, 404},
		{"no name", proxy, "POST", "/auth/", nil, 404},
		{"a query chooses nothing", proxy, "POST", "/auth/login/login?name=other", of(client), 429},
		{"a path that climbs", proxy, "POST", "/auth/login/../other/login", of(client), 200},
		{"two slashes", proxy, "POST", "/auth/login//login", of(client), 429},
		{"dots", proxy, "POST", "/auth/login/x/%2e%2e/./login", of(client), 429},
		{"a fragment", proxy, "GET", "/auth/login", said("//login#x"), 429},
		{"a fragment that is no text", proxy, "GET", "/auth/login", said("/login#%zz"), 429},
		{"a fragment in the request line", proxy, "POST", "/auth/login/login#x", of(client), 429},
		{"a path with a # of its own", proxy, "GET", "/auth/login", said("/login%23x"), 200},
		{"a URL", proxy, "GET", "/auth/login", said("http://h:1/login?%zz"), 429},
		{"no escape", proxy, "GET", "/auth/login", said("/login%"), 400},
		{"no path", proxy, "GET", "/auth/login", said("login"), 400},
		{"an empty path", proxy, "GET", "/auth/login", said(""), 400},
		{"a scheme without a host", proxy, "GET", "/auth/login", said("h:login"), 400},
		{"a port that is none", proxy, "GET", "/auth/login", said("http://h:x/login"), 400},
		{"another path in nginx's header", proxy, "GET", "/auth/login",
			of(client, "X-Forwarded-Uri", "/other", "X-Original-Uri", "/login"), 400},
		{"the same path in it", proxy, "POST", "/auth/login",
			of(client, "X-Forwarded-Uri", "/login", "X-Original-Url", "https://h/login"), 429},
		{"two lines", proxy, "POST", "/auth/login", of(client, "X-Forwarded-Uri", "/other\n/login"), 400},
		{"another method", proxy, "POST", "/auth/login/login",
			of(client, "X-Forwarded-Method", "GET", "X-Original-Method", "POST"), 400},
		{"no method", proxy, "POST", "/auth/login/login", of(client, "X-Forwarded-Method", "PO ST"), 400},
		{"two hosts", proxy, "POST", "/auth/login/login", of(client, "X-Forwarded-Host", "a.example, b.example"), 400},
		{"no host", proxy, "POST", "/auth/login/login", of(client, "X-Original-Host", "a.example:x"), 400},
		{"no address", proxy, "POST", "/auth/login/login", of("203.0.113.9, x"), 400},
		{"an empty header of a stranger", stranger, "POST", "/auth/login/login", of(""), 503},
		{"what Traefik is documented to send", proxy, "GET", "/auth/login", of(client, "X-Forwarded-Method", "POST",
			"X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.example", "X-Forwarded-Uri", "/login?x=1"), 429},
		{"an escaped letter", proxy, "GET", "/auth/login", said("/%6cogin"), 429},
		{"a path that is another one", proxy, "GET", "/auth/login", said("/login/"), 200},
	} {
		r := httptest.NewRequest(step.method, step.url, nil)
		r.RemoteAddr = step.peer
		for name, value := range step.headers {
			r.Header[http.CanonicalHeaderKey(name)] = strings.Split(value, "\n")
		}
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		if w.Code != step.want || (w.Header().Get("Retry-After") != "") != (step.want == 403 || step.want == 429) {
			t.Errorf("%s: %d %v, want %d", step.name, w.Code, w.Header(), step.want)
		}
	}
	text := scrape(t, s.metrics)
	if !strings.Contains(text, `{domain="auth/login",limit="login",outcome="over_limit"} 15`) {
		t.Error(text)
	}
	for _, want := range []string{`refusals_total{reason="no_file"} 2`, `{reason="untrusted_proxy"} `, `{reason="unreadable"} `,
		`sluiced_call_duration_seconds_count{door="auth"} `} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// The expression of docs/serve.md covers what applications take for /login, those of Java's servers too.
func TestSpellingsOfPaths(t *testing.T) {
	page, err := os.ReadFile("../../docs/serve.md")
	must(t, err)
	when := regexp.MustCompile(`when: request\.path\.matches.*`).Find(page)
	s, _ := newService(t, map[string]string{
		"login.yaml": "proxies: [192.0.2.1]\nlimits:\n  login:\n    " + string(when) + "\n    by: request.ip\n    rates: 1/1h"})
	for _, step := range []struct {
		want  int
		paths string
	}{
		{200, "/login"}, // the only one that is granted
		{429, "/login /login/ /LOGIN /login;jsessionid=1 /login/;x /;x/login /x/..;/login /x/../login /login/.;x /login;x/a/.. " +
			"/login%3Bx /login%3bjsessionid=1?q=1"},
		{200, "/ /logins /admin/login /my;x=1"},
	} {
		for asked := range strings.FieldsSeq(step.paths) {
			r := httptest.NewRequest(http.MethodGet, "/auth/login", nil)
			r.Header.Set("X-Forwarded-Uri", asked)
			w := httptest.NewRecorder()
			s.serveAuth(w, r)
			if w.Code != step.want {
				t.Errorf("%s: %d, want %d", asked, w.Code, step.want)
			}
		}
	}
}

// A call that Redis does not decide is counted once, by its limit.
func TestUndecidedAuth(t *testing.T) {
	s, kill := newService(t, map[string]string{"login.yaml": "limits:\n  login: {by: request.ip, rates: 9/1m}"})
	kill()
	w := httptest.NewRecorder()
	s.serveAuth(w, httptest.NewRequest(http.MethodGet, "/auth/login", nil))
	text := scrape(t, s.metrics)
	if w.Code != http.StatusServiceUnavailable || strings.Count(text, `,outcome="error"}`) != 1 ||
		!strings.Contains(text, `limit="login",outcome="error"} 1`) {
		t.Errorf("%d, %s", w.Code, text)
	}
}

// Proxies may name a body and not send it: the answer does not wait for it.
func TestAuthWithoutItsBody(t *testing.T) {
	s, _ := newService(t, map[string]string{"login.yaml": "limits:\n  login: {by: request.ip, rates: 9/1m}"})
	server := httptest.NewServer(s.handler())
	defer server.Close()
	for _, length := range []string{"Content-Length: 77", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
		_, err = fmt.Fprintf(conn, "GET /auth/login HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", length)
		must(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: %+v, %v", length, response, err)
		}
		must(t, conn.Close())
	}
}

// The path that limits see does not depend on what stands behind a # or a ?.
func FuzzTarget(f *testing.F) {
	for _, rest := range []string{"#%zz", "?%zz", "?a#b", "#?a", "?a=/../b", "#\x00", "?\x7f"} {
		f.Add("/login", rest)
	}
	f.Fuzz(func(t *testing.T, asked, rest string) {
		want, err := readTarget(asked)
		if rest == "" || rest[0] != '#' && rest[0] != '?' || strings.ContainsAny(asked, "#?") {
			return // it says nothing about them
		}
		if got, errWith := readTarget(asked + rest); got.path != want.path || (err == nil) != (errWith == nil) {
			t.Errorf("%q: %q, %v; with %q behind it %q, %v", asked, want.path, err, rest, got.path, errWith)
		}
	})
}

// A call beside too many others is refused at once, with the cure, and charged nothing.
func TestBusy(t *testing.T) {
	s, _ := newService(t, map[string]string{
		"login.yaml": "limits:\n  login: {by: request.ip, rates: 1/1m}",
		"file.yaml":  fmt.Sprintf(oneRule, 1),
	})
	places := cap(s.calls)
	for range places {
		s.calls <- struct{}{}
	}
	login := func() int {
		w := httptest.NewRecorder()
		s.serveAuth(w, httptest.NewRequest(http.MethodGet, "/auth/login/login", nil))
		return w.Code
	}
	if _, err := s.ShouldRateLimit(context.Background(), request(t, "a=1")); grpcstatus.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "raise --max-calls") || login() != http.StatusServiceUnavailable {
		t.Errorf("beside %d calls: %v, %d", places, err, login())
	}
	for range places {
		<-s.calls
	}
	if r, err := s.ShouldRateLimit(context.Background(), request(t, "a=1")); err != nil || shown(r) != "OK 1/MINUTE 0" ||
		login() != http.StatusOK {
		t.Errorf("alone: %v, %v", r, err)
	}
	if text := scrape(t, s.metrics); !strings.Contains(text, `sluiced_refusals_total{reason="busy"} 2`) {
		t.Error(text)
	}
}

// deadlined is an answer that may be written until a time.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

// A policy may hold a request for longer than forward auth and the writing of an answer take otherwise.
func TestAuthDelay(t *testing.T) {
	s, _ := newService(t, map[string]string{"slow.yaml": "proxies: [192.0.2.1]\nlimits:\n" +
		"  crawl: {by: request.ip, rates: 1/200ms, delay: 10s}\n"}) // by a clock that stands still
	s.authTimeout = 100 * time.Millisecond
	for _, want := range []int{200, 200} {
		r, w := httptest.NewRequest(http.MethodGet, "/auth/slow/a", nil), &deadlined{httptest.NewRecorder(), time.Time{}}
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		last := time.Now().Add(10*time.Second + s.authTimeout)
		if s.serveAuth(w, r); w.Code != want || w.until.Before(last) {
			t.Errorf("%d, want %d: %s; to be written until %v, want %v", w.Code, want, w.Body, w.until, last)
		}
	}
}
