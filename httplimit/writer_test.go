package httplimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// counting is a middleware that wraps the writer, and one that does not have to.
func counting(t *testing.T) (wraps, plain func(http.Handler) http.Handler) {
	_, limits := fake(t)
	limiter := limits.ListLog("api", loader.PerMinute(1000))
	wraps = check(t, httplimit.New(limiter, httplimit.KeyOf("all"), failures)).Handler
	plain = check(t, httplimit.New(limiter, httplimit.KeyOf("all"))).Handler
	return wraps, plain
}

// faces are the optional interfaces that a writer has.
func faces(w http.ResponseWriter) (names []string) {
	add := func(name string, has bool) {
		if has {
			names = append(names, name)
		}
	}
	_, has := w.(http.Flusher)
	add("Flusher", has)
	_, has = w.(interface{ FlushError() error })
	add("FlushError", has)
	_, has = w.(http.Hijacker)
	add("Hijacker", has)
	_, has = w.(io.ReaderFrom)
	add("ReaderFrom", has)
	_, has = w.(http.Pusher)
	add("Pusher", has)
	_, has = w.(io.StringWriter)
	add("StringWriter", has)
	return names
}

// A wrapped writer has exactly the optional interfaces of the server's: of HTTP/1 and of HTTP/2.
func TestWriterFaces(t *testing.T) {
	wraps, plain := counting(t)
	for name, proto := range map[string]int{"HTTP/1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			var got, want []string
			var same bool
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != proto {
					t.Errorf("%s, want HTTP/%d", r.Proto, proto)
				}
				want = faces(w)
				wraps(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = faces(w) })).ServeHTTP(w, r)
				plain(http.HandlerFunc(func(inner http.ResponseWriter, _ *http.Request) { same = inner == w })).ServeHTTP(w, r)
			})
			server := httptest.NewUnstartedServer(h)
			server.EnableHTTP2 = proto == 2
			server.StartTLS()
			defer server.Close()
			_, err := server.Client().Get(server.URL)
			must(t, err)
			if strings.Join(got, " ") != strings.Join(want, " ") || len(want) < 4 {
				t.Errorf("the wrapped writer is %v, want %v", got, want)
			}
			if !same {
				t.Error("a writer that need not be wrapped is another one")
			}
		})
	}
}

// A response is flushed while the handler runs: by http.Flusher and by http.ResponseController.
func TestFlush(t *testing.T) {
	for name, flush := range map[string]func(http.ResponseWriter) error{
		"Flusher":            func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"ResponseController": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		for around, middleware := range map[string]func(http.Handler) http.Handler{
			"direct": func(h http.Handler) http.Handler { return h }, "unwrapped": onlyUnwrap,
		} {
			t.Run(name+" "+around, func(t *testing.T) {
				wraps, _ := counting(t)
				received := make(chan bool)
				server := httptest.NewServer(middleware(wraps(http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						_, _ = w.Write([]byte("first\n"))
						if err := flush(w); err != nil {
							t.Error(err)
						}
						select {
						case <-received:
						case <-r.Context().Done():
						}
					}))))
				defer server.Close()
				response, err := server.Client().Get(server.URL)
				must(t, err)
				line, err := bufio.NewReader(response.Body).ReadString('\n')
				if close(received); line != "first\n" || err != nil {
					t.Errorf("received %q, %v", line, err)
				}
			})
		}
	}
}

// Deadlines of the connection go through the wrapped writer.
func TestDeadlines(t *testing.T) {
	wraps, _ := counting(t)
	server := httptest.NewServer(wraps(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetWriteDeadline(time.Now().Add(time.Minute)), control.EnableFullDuplex(),
			control.SetReadDeadline(time.Now().Add(-time.Second))); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, errors.Is(err, http.ErrHandlerTimeout) || isTimeout(err))
	})))
	defer server.Close()
	body, _ := io.Pipe() // it never has anything to read
	response, err := server.Client().Post(server.URL, "text/plain", body)
	must(t, err)
	defer response.Body.Close()
	if got, _ := io.ReadAll(response.Body); string(got) != "true" {
		t.Errorf("the read did not time out: %s", got)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// everything is a writer with all optional interfaces, which says which of them were used.
type everything struct {
	*httptest.ResponseRecorder
	used []string
}

func (e *everything) use(name string) { e.used = append(e.used, name) }

func (e *everything) ReadFrom(r io.Reader) (int64, error) {
	e.use("ReadFrom")
	return io.Copy(e.ResponseRecorder, r)
}

func (e *everything) Push(target string, _ *http.PushOptions) error {
	e.use("Push " + target)
	return nil
}

func (e *everything) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	e.use("Hijack")
	return nil, nil, errors.New("not now")
}

// ReadFrom and Push reach the writer itself. A Hijack that fails is none: the response counts by its status.
func TestWriterPassesOn(t *testing.T) {
	_, limits := fake(t)
	limiter := limits.ListLog("api", loader.PerMinute(5))
	m := check(t, httplimit.New(limiter, httplimit.KeyOf("all"), failures,
		httplimit.Slots(limits.Concurrency("c", 1, time.Minute), httplimit.KeyOf("all"))))
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.Copy(w, io.LimitReader(strings.NewReader("hello"), 5))
		if err = errors.Join(err, w.(http.Pusher).Push("/style.css", nil)); err != nil {
			t.Error(err)
		}
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("the error of Hijack is lost")
		}
	}))
	w := &everything{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := strings.Join(w.used, ", "); got != "ReadFrom, Push /style.css, Hijack" || w.Body.String() != "hello" {
		t.Errorf("used %s; body %q", got, w.Body)
	}
	wantRemaining(t, limiter, "all", 5)
}

// copying is a writer of another middleware that copies and pushes itself, and has Hijack only through Unwrap.
type copying struct {
	http.ResponseWriter
	used *everything
}

func (c copying) Unwrap() http.ResponseWriter                   { return c.used }
func (c copying) ReadFrom(r io.Reader) (int64, error)           { return c.used.ReadFrom(r) }
func (c copying) Push(target string, o *http.PushOptions) error { return c.used.Push(target, o) }
func (c copying) WriteString(text string) (int, error) {
	c.used.use("WriteString")
	return len(text), nil
}

// A writer that is hijacked only through Unwrap keeps its other interfaces. Without a Pusher nothing is pushed.
func TestWriterPassesOnInside(t *testing.T) {
	wraps, _ := counting(t)
	inner := &everything{ResponseRecorder: httptest.NewRecorder()}
	wraps(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, "hello")
		_, err2 := io.Copy(w, io.LimitReader(strings.NewReader("hello"), 5))
		if err = errors.Join(err, err2, w.(http.Pusher).Push("/style.css", nil)); err != nil {
			t.Error(err)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("the error of Hijack is lost")
		}
	})).ServeHTTP(copying{inner.ResponseRecorder, inner}, httptest.NewRequest(http.MethodGet, "/", nil))
	if got := strings.Join(inner.used, ", "); got != "WriteString, ReadFrom, Push /style.css, Hijack" {
		t.Errorf("used %s", got)
	}
	wraps(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := w.(http.Pusher).Push("/", nil); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Push without a Pusher: %v", err)
		}
	})).ServeHTTP(unwrapping{inner}, httptest.NewRequest(http.MethodGet, "/", nil))
}

// A body over the limit of http.MaxBytesHandler closes the connection, if that stands around the middleware.
func TestMaxBytesCloses(t *testing.T) {
	wraps, _ := counting(t)
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })
	server := httptest.NewServer(http.MaxBytesHandler(wraps(read), 5))
	defer server.Close()
	response, err := http.Post(server.URL, "text/plain", strings.NewReader("more than five"))
	must(t, err)
	if err := response.Body.Close(); err != nil || !response.Close {
		t.Errorf("the connection stays open, %v", err)
	}
}

// A writer that nobody can hijack has no Hijack when it is wrapped.
func TestNoHijack(t *testing.T) {
	wraps, _ := counting(t)
	for name, around := range map[string]func(http.Handler) http.Handler{
		"direct": func(h http.Handler) http.Handler { return h }, "unwrapped": onlyUnwrap,
	} {
		get(around(wraps(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _, err := http.NewResponseController(w).Hijack()
			if _, ok := w.(http.Hijacker); ok || !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%s: Hijacker %v, %v", name, ok, err)
			}
		}))), ada)
	}
}
