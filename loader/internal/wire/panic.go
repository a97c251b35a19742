package wire

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/sluice-redis/sluice/internal/rarelog"
)

// Raised is how the caller's code (a hook, an observer, a handler) ended in one of our goroutines without returning: by
// a panic, or by runtime.Goexit, which a failed test calls. It is raised again in the caller's goroutine.
type Raised struct {
	Value any    // of the panic; nil: it was runtime.Goexit
	Stack []byte // of the panic
}

// Caught is for deferred functions. It returns how a function ended that did not return; value is the result of
// recover.
func Caught(returned bool, value any) *Raised {
	switch {
	case returned:
		return nil
	case value == nil:
		return &Raised{}
	}
	return &Raised{Value: value, Stack: debug.Stack()}
}

// IsGoexit reports whether the function ended by runtime.Goexit.
func (r *Raised) IsGoexit() bool { return r != nil && r.Value == nil }

// Reraise panics, or calls runtime.Goexit, in this goroutine. It does nothing if r is nil.
func (r *Raised) Reraise() {
	switch {
	case r == nil:
		return
	case r.IsGoexit():
		runtime.Goexit()
	}
	panic(r.Value)
}

// Log logs a panic that cannot be raised in the caller's goroutine, because the caller has left. If the handler panics
// too, that panic is dropped.
func (r *Raised) Log(log *rarelog.Log) {
	if r == nil || r.IsGoexit() {
		return
	}
	defer func() { _ = recover() }()
	log.Log(context.Background(), slog.LevelError, "panic given up", "",
		slog.Any("panic", r.Value), slog.String("stack", string(r.Stack)))
}
