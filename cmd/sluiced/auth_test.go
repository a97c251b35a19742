package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
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
		bounded(http.NotFoundHandler(), s.limits.auth).ServeHTTP(w, r)
		if w.Code != step.want || (w.Header().Get("Retry-After") != "") != (step.want == 403) {
			t.Errorf("%s: %d %v, want %d", step.name, w.Code, w.Header(), step.want)
		}
	}
}
