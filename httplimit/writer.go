package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// response is what is seen of a handler's response.
type response struct {
	status   int  // 200 until the handler writes another one
	written  bool // the status is sent, or a part of the body
	hijacked bool
	onHijack func(net.Conn) net.Conn // nil: the connection stays as it is
}

// wrap returns a writer that is seen, with the same interfaces as w.
func (s *response) wrap(w http.ResponseWriter) http.ResponseWriter {
	if _, ok := w.(http.Hijacker); !ok && hijackableInside(w) {
		w = hijackable{w}
	}
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: s.writeHeader, Hijack: s.hijack,
		Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) { s.written = true; return write(b) }
		},
		WriteString: func(write httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(text string) (int, error) { s.written = true; return write(text) }
		},
		ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(from io.Reader) (int64, error) { s.written = true; return read(from) }
		},
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { s.written = true; flush() }
		},
		FlushError: func(flush httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { s.written = true; return flush() }
		},
	})
}

// writeHeader keeps the first status that is not an informational one. Once a part of the body is written the status is
// sent, and net/http ignores a later one.
func (s *response) writeHeader(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
	return func(status int) {
		write(status) // it panics if there is no such status
		if !s.written && (status >= 200 || status == http.StatusSwitchingProtocols) {
			s.status, s.written = status, true
		}
	}
}

func (s *response) hijack(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
	return func() (net.Conn, *bufio.ReadWriter, error) {
		conn, buffer, err := hijack()
		if err != nil {
			return conn, buffer, err
		}
		s.hijacked = true
		if s.onHijack != nil {
			conn = s.onHijack(conn)
		}
		return conn, buffer, nil
	}
}

// hijackableInside reports whether http.ResponseController can hijack the connection of a writer that it unwraps.
func hijackableInside(w http.ResponseWriter) bool {
	for {
		inside, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = inside.Unwrap()
		if _, ok := w.(http.Hijacker); ok {
			return true
		}
	}
}

// hijackable is a writer that http.ResponseController would unwrap to hijack the connection. It offers Hijack itself,
// so that it is seen, and all that the writer may offer. What the writer does not have is done by Write, or says so.
type hijackable struct{ http.ResponseWriter }

func (h hijackable) control() *http.ResponseController {
	return http.NewResponseController(h.ResponseWriter)
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.control().Hijack() }
func (h hijackable) Flush()                                       { _ = h.FlushError() }
func (h hijackable) FlushError() error                            { return h.control().Flush() }
func (h hijackable) Unwrap() http.ResponseWriter                  { return h.ResponseWriter }
func (h hijackable) ReadFrom(r io.Reader) (int64, error)          { return io.Copy(h.ResponseWriter, r) }
func (h hijackable) WriteString(text string) (int, error) {
	return io.WriteString(h.ResponseWriter, text)
}

func (h hijackable) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := h.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}
