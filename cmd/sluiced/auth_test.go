package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		{"an escaped letter", proxy, "GET", "/auth/login", said("/%6cogin"), 429},
		{"a path that is another one", proxy, "GET", "/auth/login", said("/login/"), 200},
	} {
		r := httptest.NewRequest(step.method, step.url, nil)
		r.RemoteAddr = step.peer
		for name, value := range step.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		bounded(http.NotFoundHandler(), s.serveAuth).ServeHTTP(w, r)
		if w.Code != step.want || (w.Header().Get("Retry-After") != "") != (step.want == 403 || step.want == 429) {
			t.Errorf("%s: %d %v, want %d", step.name, w.Code, w.Header(), step.want)
		}
	}
	text := scrape(t, s.metrics)
	if !strings.Contains(text, `{domain="auth/login",limit="login",outcome="over_limit"} 10`) {
		t.Error(text)
	}
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
