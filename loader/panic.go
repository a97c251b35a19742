package loader

import (
	"runtime"
	"runtime/debug"
)

// raised is how the caller's code (a hook, an observer, a handler) ended in one of our goroutines without returning: by
// a panic, or by runtime.Goexit, which a failed test calls. It is raised again in the caller's goroutine.
type raised struct {
	value any    // of the panic; nil: it was runtime.Goexit
	stack []byte // of the panic
}

// caught is for deferred functions. It returns how a function ended that did not return; value is the result of
// recover.
func caught(returned bool, value any) *raised {
	switch {
	case returned:
		return nil
	case value == nil:
		return &raised{}
	}
	return &raised{value: value, stack: debug.Stack()}
}

// isGoexit reports whether the function ended by runtime.Goexit.
func (r *raised) isGoexit() bool { return r != nil && r.value == nil }

// reraise panics, or calls runtime.Goexit, in this goroutine. It does nothing if r is nil.
func (r *raised) reraise() {
	switch {
	case r == nil:
		return
	case r.isGoexit():
		runtime.Goexit()
	}
	panic(r.value)
}
