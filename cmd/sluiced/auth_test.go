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

// Forward auth finds the client's request in the headers of a trusted peer, and otherwise in the request line.
func TestAuth(t *testing.T) {
	s, _ := newService(t, map[string]string{"login.yaml": "proxies: [192.0.2.1]\nlimits:\n" +
		"  login: {when: 'request.path == \"/login\" && request.method == \"POST\"', by: request.ip, rates: 1/1m}"},
		func(l *limits) { l.statuses = map[string]int{"login": http.StatusForbidden} })
	for _, step := range []struct {
		name, peer, method, url string
		headers                 map[string]string
		want                    int
	}{
		{"a path without a limit", "192.0.2.1:1", "GET", "/auth/login/other", nil, 200},
		{"the first", "192.0.2.1:1", "POST", "/auth/login/login", map[string]string{"X-Forwarded-For": "203.0.113.9"}, 200},
		{"the second", "192.0.2.1:1", "POST", "/auth/login/login", map[string]string{"X-Forwarded-For": "203.0.113.9"}, 403},
		{"by nginx's headers", "192.0.2.1:1", "GET", "/auth/login", map[string]string{"X-Forwarded-For": "203.0.113.9",
			"X-Original-Method": "POST", "X-Original-URI": "/login?x=1"}, 403},
		{"another client", "192.0.2.1:1", "GET", "/auth/login", map[string]string{"X-Forwarded-For": "203.0.113.10",
			"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/login"}, 200},
		{"headers of a stranger say nothing", "203.0.113.9:1", "GET", "/auth/login", map[string]string{
			"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/login"}, 200},
		{"nor does his address", "203.0.113.9:1", "POST", "/auth/login/login",
			map[string]string{"X-Forwarded-For": "203.0.113.77"}, 403},
		{"a name that is no file", "192.0.2.1:1", "POST", "/auth/other/login", nil, 404},
		{"a query chooses nothing", "192.0.2.1:1", "POST", "/auth/login/login?name=other", map[string]string{
			"X-Forwarded-For": "203.0.113.9"}, 403},
		{"a path that climbs", "192.0.2.1:1", "POST", "/auth/login/../other/login", map[string]string{
			"X-Forwarded-For": "203.0.113.9"}, 200},
	} {
		r := httptest.NewRequest(step.method, step.url, nil)
		r.RemoteAddr = step.peer
		for name, value := range step.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		bounded(http.NotFoundHandler(), s.serveAuth).ServeHTTP(w, r)
		if w.Code != step.want || (w.Header().Get("Retry-After") != "") != (step.want == 403) {
			t.Errorf("%s: %d %v, want %d", step.name, w.Code, w.Header(), step.want)
		}
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
