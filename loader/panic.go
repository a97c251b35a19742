package loader

import (
	"runtime"
	"runtime/debug"
)

// raised is how code of the caller's (a hook, an observer, a handler) ended in a goroutine of ours where it did not
// return: by a panic, or by runtime.Goexit, as a failed test does. It is raised again in the caller's goroutine.
type raised struct {
	value any    // of the panic; nil: runtime.Goexit
	stack []byte // of the panic
}

// caught is for deferred functions: what was raised by a function that did not return, value being what recover says.
func caught(returned bool, value any) *raised {
	switch {
	case returned:
		return nil
	case value == nil:
		return &raised{}
	}
	return &raised{value: value, stack: debug.Stack()}
}

// isGoexit reports whether it is runtime.Goexit.
func (r *raised) isGoexit() bool { return r != nil && r.value == nil }

// reraise raises it in this goroutine.
func (r *raised) reraise() {
	switch {
	case r == nil:
		return
	case r.isGoexit():
		runtime.Goexit()
	}
	panic(r.value)
}
