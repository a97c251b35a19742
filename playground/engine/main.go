//go:build js && wasm

// Command engine is package play for a browser: it sets the global sluice, whose functions a Worker calls.
package main

import (
	"syscall/js"
	"time"

	"github.com/sluice-redis/sluice/playground/internal/play"
)

func main() {
	e := &engine{}
	functions := map[string]any{}
	for name, f := range map[string]func([]js.Value) any{
		"open": e.open, "step": e.step, "audit": e.audit, "stored": e.stored, "detail": e.detail,
	} {
		functions[name] = js.FuncOf(func(_ js.Value, args []js.Value) any { return f(args) })
	}
	js.Global().Set("sluice", functions)
	select {}
}

// engine has the run under way, if there is one.
type engine struct {
	run    *play.Run
	buffer []byte
}

// open(link) returns what the link describes, or {error, parameter}.
func (e *engine) open(args []js.Value) any {
	if e.run != nil {
		e.run.Close()
		e.run = nil
	}
	run, err := play.Open(args[0].String())
	if err != nil {
		return play.JSON(play.FailureOf(err))
	}
	e.run = run
	return play.JSON(run.Opened())
}

// step(into, ms) writes records into a Uint8Array for about so many milliseconds, and returns how many.
func (e *engine) step(args []js.Value) any {
	if e.run == nil {
		return 0
	}
	into := args[0]
	if size := into.Length(); len(e.buffer) != size {
		e.buffer = make([]byte, size)
	}
	n := e.run.Step(e.buffer, within(args[1]))
	js.CopyBytesToJS(into, e.buffer[:n*play.RecordSize])
	return n
}

// within returns what says whether so many milliseconds are not over.
func within(ms js.Value) func() bool {
	end := time.Now().Add(time.Duration(ms.Float() * float64(time.Millisecond)))
	return func() bool { return time.Now().Before(end) }
}

func (e *engine) audit([]js.Value) any {
	return e.result(func() (any, error) { return e.run.Audit(), nil })
}

// stored(lane) returns what is under the keys of the lane's last call.
func (e *engine) stored(args []js.Value) any {
	return e.result(func() (any, error) { return e.run.Stored(args[0].Int()) })
}

// detail(lane, index, ms) returns all about one call of a lane, or "" if it is not ready after about so many
// milliseconds: then ask again.
func (e *engine) detail(args []js.Value) any {
	ready := true
	text := e.result(func() (detail any, err error) {
		detail, ready, err = e.run.Detail(args[0].Int(), args[1].Int(), within(args[2]))
		return detail, err
	})
	if !ready {
		return ""
	}
	return text
}

func (e *engine) result(of func() (any, error)) any {
	if e.run == nil {
		return play.JSON(play.Failure{Error: "there is no run: open a link first"})
	}
	v, err := of()
	if err != nil {
		return play.JSON(play.FailureOf(err))
	}
	return play.JSON(v)
}
