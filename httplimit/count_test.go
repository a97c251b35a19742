package httplimit_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// failures counts what failed.
var failures = httplimit.CountIf(func(status int) bool { return status >= 400 })

// Failed logins count, others are given back; while the handler runs, each counts.
func TestCountIf(t *testing.T) {
	_, limits := fake(t)
	limiter := limits.ListLog("login", loader.PerMinute(3))
	answer := http.StatusOK
	h := check(t, httplimit.New(limiter, httplimit.KeyOf("ada"), failures)).Handler(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			d, err := limiter.Peek(t.Context(), "ada")
			if err != nil || d.Remaining == 3 {
				t.Errorf("in the handler %d are left, %v", d.Remaining, err)
			}
			w.WriteHeader(answer)
		}))
	wantStatus(t, h, ada, 200, 200, 200, 200, 200)
	wantRemaining(t, limiter, "ada", 3)
	answer = http.StatusUnauthorized
	wantStatus(t, h, ada, 401, 401, 401, 429)
}

// The status is the first that is final; a handler that writes none answers 200.
func TestCountIfStatus(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    int
	}{
		"nothing":     {func(http.ResponseWriter, *http.Request) {}, 200},
		"only a body": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, 200},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(404)
		}, 404},
		"switching protocols": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			w.WriteHeader(500)
		}, 101},
		"two": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(500) }, 201},
		"an error after a body": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("x"))
			w.WriteHeader(400)
		}, 200},
		"an error after a text": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.WriteHeader(400)
		}, 200},
		"an error after Flush": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(400)
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			_, limits := fake(t)
			var seen []int
			m := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(),
				httplimit.CountIf(func(status int) bool { seen = append(seen, status); return true })))
			get(m.Handler(test.handler), ada)
			if len(seen) != 1 || seen[0] != test.want {
				t.Errorf("CountIf saw %d, want %d once", seen, test.want)
			}
		})
	}
}

// On a server, also what is copied to the response, and a flush, send the status.
func TestServerStatusIsSent(t *testing.T) {
	for name, send := range map[string]func(w http.ResponseWriter) error{
		"ReadFrom": func(w http.ResponseWriter) error {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(strings.Repeat("x", 1<<20)))
			return err
		},
		"Flush":      func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"FlushError": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			_, limits := fake(t)
			limiter := limits.ListLog("api", loader.PerMinute(1))
			m := check(t, httplimit.New(limiter, httplimit.KeyOf("all"), failures))
			server := httptest.NewServer(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if err := send(w); err != nil {
					t.Error(err)
				}
				w.WriteHeader(500) // too late
			})))
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the second status
			defer server.Close()
			response, err := http.Get(server.URL)
			if err != nil || response.StatusCode != 200 {
				t.Fatal(response, err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			server.Close() // waits for the handler
			wantRemaining(t, limiter, "all", 1)
		})
	}
}

// A handler that panics keeps its charge, and the panic goes on.
func TestPanicCounts(t *testing.T) {
	_, limits := fake(t)
	limiter := limits.ListLog("api", loader.PerMinute(2))
	m := check(t, httplimit.New(limiter, httplimit.KeyOf("all"), failures))
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the panic did not come through")
			}
		}()
		get(h, ada)
	}()
	wantRemaining(t, limiter, "all", 1)
}
