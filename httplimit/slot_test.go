package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// freeSlots is how many slots of a subject are free.
func freeSlots(t *testing.T, c loader.Concurrency, subject string) int64 {
	t.Helper()
	d, err := c.Peek(t.Context(), subject)
	must(t, err)
	return d.Remaining
}

// A slot is held while the handler runs, and free when the response has ended.
func TestSlots(t *testing.T) {
	_, limits := fake(t)
	render := limits.Concurrency("render", 2, time.Minute)
	var inner http.Handler
	depth := 0
	h := check(t, httplimit.AllOf(limits, nil, httplimit.Slots(render, httplimit.KeyByIP()))).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if depth++; depth > 2 {
				t.Error("three at once")
			}
			answer := get(inner, ada)
			depth--
			w.WriteHeader(answer.Code)
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
		}))
	inner = h
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit-Policy", `"render";q=2;qu="concurrent-requests"`)
	wantHeader(t, answer, "RateLimit", `"render";r=0`)
	wantHeader(t, answer, "Retry-After", "1")
	if answer.Code != 429 { // that of the third, which the second passed on to the first
		t.Errorf("%d, want 429", answer.Code)
	}
	if free := freeSlots(t, render, "192.0.2.7"); free != 2 {
		t.Errorf("%d slots are free afterwards, want 2", free)
	}
}

// An estimate is reserved while the handler runs, and what it says with Settle is charged.
func TestBudgets(t *testing.T) {
	_, limits := fake(t)
	tokens := limits.Budget("tokens", []loader.Limit{loader.PerHour(10)})
	want := func(remaining int64) {
		t.Helper()
		if d, err := tokens.Peek(t.Context(), "192.0.2.7"); err != nil || d.Remaining != remaining {
			t.Errorf("%d remain, %v, want %d", d.Remaining, err, remaining)
		}
	}
	h := check(t, httplimit.AllOf(limits, nil, httplimit.Budgets(tokens, httplimit.KeyByIP(),
		func(*http.Request) int64 { return 6 }))).Handler(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			want(4)
			httplimit.Settle(r.Context(), 9)
		}))
	for _, code := range []int{200, 429} {
		if answer := get(h, ada); answer.Code != code {
			t.Errorf("%d, want %d", answer.Code, code)
		}
		want(1)
	}
}

// What the handler has made of its own request is handed back through two of them: net/http removes the files of a form
// that it finds there, and outer middleware sees the pattern.
func TestSlotsHandBackTheForm(t *testing.T) {
	_, limits := fake(t)
	byIP, mux := httplimit.KeyByIP(), http.NewServeMux()
	mux.HandleFunc("POST /files", func(_ http.ResponseWriter, r *http.Request) { r.MultipartForm = &multipart.Form{} })
	h := check(t, httplimit.AllOf(limits, nil, httplimit.Slots(limits.Concurrency("a", 1, time.Minute), byIP),
		httplimit.Slots(limits.Concurrency("b", 1, time.Minute), byIP))).Handler(mux)
	r := httptest.NewRequest(http.MethodPost, "/files", nil)
	if serve(h, r); r.MultipartForm == nil || r.Pattern != "POST /files" {
		t.Errorf("form %v, pattern %q", r.MultipartForm, r.Pattern)
	}
}

// A slot is released if the handler panics, or the observer does.
func TestPanicReleasesSlot(t *testing.T) {
	_, limits := fake(t)
	render := limits.Concurrency("render", 1, time.Minute)
	fails := func(http.ResponseWriter, *http.Request) { panic("broken") }
	slots := httplimit.Slots(render, httplimit.KeyOf("all"))
	for name, h := range map[string]http.Handler{
		"handler": check(t, httplimit.AllOf(limits, nil, slots)).Handler(http.HandlerFunc(fails)),
		"observer": check(t, httplimit.AllOf(limits, nil, slots,
			httplimit.Observe(func(*http.Request, httplimit.Result) { panic("broken") }))).Handler(ok),
	} {
		func() {
			defer func() {
				if recover() != "broken" {
					t.Errorf("%s: the panic did not come through", name)
				}
			}()
			get(h, ada)
		}()
		if free := freeSlots(t, render, "all"); free != 1 {
			t.Errorf("%s: %d slots are free afterwards, want 1", name, free)
		}
	}
}

// The request's context ends when its slot is lost.
func TestSlotLost(t *testing.T) {
	m, limits := fake(t)
	render := limits.Concurrency("render", 1, time.Second)
	ended := false
	h := check(t, httplimit.AllOf(limits, nil, httplimit.Slots(render, httplimit.KeyOf("all")))).Handler(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			m.FlushAll()
			<-r.Context().Done()
			ended = true
		}))
	get(h, ada)
	if !ended {
		t.Error("the handler was not called")
	}
}

// takeOver is a handler that hijacks its connection and passes it on.
func takeOver(t *testing.T, conns chan<- net.Conn) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			close(conns)
			return
		}
		_, _ = buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = buffer.Flush()
		conns <- conn
	})
}

// dial sends a request to a test server and returns the connection and the status.
func dial(t *testing.T, server *httptest.Server) (net.Conn, int) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	return conn, response.StatusCode
}

// onlyUnwrap is a middleware whose writer has Unwrap and none of the optional interfaces.
func onlyUnwrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(unwrapping{w}, r) })
}

type unwrapping struct{ http.ResponseWriter }

func (u unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// A handler that takes the connection over keeps its charge, and its slot until the connection is closed: also where
// another middleware stands before, whose writer is hijacked through Unwrap.
func TestHijack(t *testing.T) {
	for name, around := range map[string]func(http.Handler) http.Handler{
		"direct": func(h http.Handler) http.Handler { return h }, "unwrapped": onlyUnwrap,
		"unwrapped twice": func(h http.Handler) http.Handler { return onlyUnwrap(onlyUnwrap(h)) },
	} {
		t.Run(name, func(t *testing.T) {
			_, limits := fake(t)
			api, sockets := limits.ListLog("api", loader.PerMinute(5)), limits.Concurrency("sockets", 2, time.Minute)
			conns := make(chan net.Conn, 1)
			all := httplimit.KeyOf("all")
			m := check(t, httplimit.New(api, all, httplimit.CountIf(func(int) bool { return false }),
				httplimit.Slots(sockets, all)))
			ended := make(chan bool, 1)
			handler := m.Handler(takeOver(t, conns))
			server := httptest.NewServer(around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handler.ServeHTTP(w, r)
				ended <- true
			})))
			defer server.Close()
			client, status := dial(t, server)
			conn := <-conns
			<-ended
			if free := freeSlots(t, sockets, "all"); conn == nil || status != 101 || free != 1 {
				t.Fatalf("%d, and %d slots are free while the connection is open", status, free)
			}
			wantRemaining(t, api, "all", 4)
			echo(t, conn, client)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			_ = conn.Close() // once more is harmless
			if free := freeSlots(t, sockets, "all"); free != 2 {
				t.Errorf("%d slots are free after Close", free)
			}
		})
	}
}

// The slot of a hijacked connection is renewed, although the request's context has ended.
func TestServerHijackedSlotIsRenewed(t *testing.T) {
	redis, limits := real(t)
	sockets := limits.Concurrency("sockets", 1, 1500*time.Millisecond)
	conns := make(chan net.Conn, 1)
	server := httptest.NewServer(check(t, httplimit.AllOf(limits, nil,
		httplimit.Slots(sockets, httplimit.KeyOf("all")))).Handler(takeOver(t, conns)))
	defer server.Close()
	dial(t, server)
	conn := <-conns
	key, err := loader.Key("sluice", "sockets", "all", "cc1")
	if err != nil || conn == nil {
		t.Fatal(err)
	}
	rdb := redis.Client(t)
	leaseEnds := func() float64 {
		leases := rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		if len(leases) != 1 {
			t.Fatalf("%d leases, want 1", len(leases))
		}
		return leases[0].Score
	}
	for range 5 { // longer than the ttl
		before := leaseEnds()
		redistest.Await(t, "the lease is renewed", func() bool { return leaseEnds() > before })
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if free := freeSlots(t, sockets, "all"); free != 1 {
		t.Errorf("%d slots are free after Close", free)
	}
}

// The slot of a hijacked connection ends however the handler and the connection end.
func TestHijackEnds(t *testing.T) {
	_, limits := fake(t)
	sockets, all := limits.Concurrency("sockets", 1, time.Minute), httplimit.KeyOf("all")
	var end func(net.Conn)
	m := check(t, httplimit.AllOf(limits, nil, httplimit.Slots(sockets, all)))
	handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		end(conn)
	}))
	var held atomic.Pointer[net.Conn] // not garbage, as long as it is here
	for name, ends := range map[string]func(net.Conn){
		"return and Close": func(conn net.Conn) { go conn.Close() },
		"panic":            func(conn net.Conn) { held.Store(&conn); panic(http.ErrAbortHandler) },
		"Goexit":           func(conn net.Conn) { held.Store(&conn); runtime.Goexit() },
		"forgotten":        func(net.Conn) {},
	} {
		end = ends
		server := httptest.NewServer(handler)
		dial(t, server)
		redistest.Await(t, name+": the slot is free", func() bool {
			runtime.GC()
			return freeSlots(t, sockets, "all") == 1
		})
		server.Close()
	}
}

// echo copies from the client to itself through a hijacked connection, by the ways that a proxy takes.
func echo(t *testing.T, conn, client net.Conn) {
	t.Helper()
	_, err := client.Write([]byte("hello"))
	must(t, err)
	if _, err := io.CopyN(conn, conn, 5); err != nil {
		t.Error(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(client); string(got) != "hello" {
		t.Errorf("received %q, %v", got, err)
	}
	_, from := conn.(io.ReaderFrom)
	_, to := conn.(io.WriterTo)
	if !from || !to {
		t.Errorf("ReadFrom %v, WriteTo %v", from, to)
	}
}
