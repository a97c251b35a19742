package httplimit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// second0 is the time at which the clocks of fakes start.
var second0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// fake is a miniredis whose clock stands still until it is set, and a loader on it.
func fake(tb testing.TB, opts ...loader.Option) (*miniredis.Miniredis, *loader.Loader) {
	m := miniredis.RunT(tb)
	m.ClockTTL(true)
	m.SetTime(second0)
	return m, loader.New(redistest.DialOnce(tb, m.Addr()), opts...)
}

// real is a loader on a new Redis server.
func real(tb testing.TB, opts ...loader.Option) (*redistest.Server, *loader.Loader) {
	server := redistest.Start(tb)
	return server, loader.New(server.Client(tb), opts...)
}

// ok is a handler that answers 200.
var ok = status(http.StatusOK)

// status is a handler that answers with a status.
func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// get is the answer to a request from an address.
func get(h http.Handler, remoteAddr string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remoteAddr
	return serve(h, r)
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ada and bob are the addresses of two clients.
const ada, bob = "192.0.2.7:1234", "192.0.2.8:1234"

// wantStatus wants a client's requests to be answered with these statuses.
func wantStatus(t *testing.T, h http.Handler, remoteAddr string, want ...int) {
	t.Helper()
	for i, status := range want {
		if got := get(h, remoteAddr).Code; got != status {
			t.Errorf("request %d of %s: %d, want %d", i, remoteAddr, got, status)
		}
	}
}

// wantHeader wants a header of a response; "" for none.
func wantHeader(t *testing.T, w *httptest.ResponseRecorder, name, want string) {
	t.Helper()
	if got := w.Header().Get(name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// wantRemaining wants so many permits of a subject to be left.
func wantRemaining(t *testing.T, limiter loader.Limiter, subject string, want int64) {
	t.Helper()
	d, err := limiter.Peek(t.Context(), subject)
	if err != nil || d.Remaining != want {
		t.Errorf("%q has %d permits left, %v; want %d", subject, d.Remaining, err, want)
	}
}

// check wants a middleware to be right.
func check(t *testing.T, m *httplimit.Middleware) *httplimit.Middleware {
	t.Helper()
	must(t, m.Check())
	return m
}

// problem is the body of a refusal.
type problem struct {
	Type, Title string
	Status      int
	Violated    []string `json:"violated-policies"`
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p problem) {
	t.Helper()
	wantHeader(t, w, "Content-Type", "application/problem+json")
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return p
}
