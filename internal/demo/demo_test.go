package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// A short demo. What was booked is the scripts' doing; how much of the capacity was used, and how late the workers
// were, is up to the machine, so it may say that this promise was broken and no other. The fixed window must break and
// polling be judged, unless no worker could ask: then it says so.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var err error
	for range 3 { // where the machine stands still for a second, a call is given up, and with it the demo
		out.Reset()
		err = Run(t.Context(), Config{Out: &out, Duration: 3 * time.Second, Workers: 8, Margin: DefaultMargin})
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, loader.ErrOutcomeUnknown) {
			break
		}
	}
	text := out.String()
	wants := []string{"Server: an embedded miniredis\n", "list_log  ", "capacity: of 15 acts", "Our windows are 1.02s"}
	if !strings.Contains(text, "This machine stopped") {
		wants = append(wants, "  ✗ broken\n", "  ✗ wasteful\n")
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the output", want)
		}
	}
	for _, never := range []string{"acts for one second, above", "calls for", "\x1b"} {
		if strings.Contains(text, never) {
			t.Errorf("%q is in the output", never)
		}
	}
	if err != nil && err != ErrBroken {
		t.Error(err)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestRunEnds has a server that fails while the demo runs, or a context that ends.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	for want, end := range map[string]func(context.CancelFunc){
		"context canceled": func(cancel context.CancelFunc) { cancel() },
		"out of order":     func(context.CancelFunc) { mini.SetError("ERR out of order") },
	} {
		e := &experiment{config: Config{Workers: 5, Duration: time.Minute,
			Connect: func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: mini.Addr()}) }}}
		ctx, cancel := context.WithCancel(t.Context())
		if err := e.prepare(ctx, want); err != nil {
			t.Fatal(err)
		}
		_, err := e.run(ctx, func([]result) { end(cancel) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		mini.SetError("")
		cancel()
		e.close()
	}
}

// TestReport draws, on a terminal that was drawn on before, a log and a window that lets ten through.
func TestReport(t *testing.T) {
	log := result{way: way{name: "list_log", kind: books}, duration: 12 * time.Second,
		booked: bursts(12, 5), real: bursts(12, 5), granted: 61, calls: 61}
	fixed := result{way: way{name: "fixed window", kind: faulty}, duration: 12 * time.Second,
		booked: append(bursts(12, 5), ms(11500, 11501, 11502, 11503, 11504)...), real: bursts(12, 5)}
	var out bytes.Buffer
	p := &printer{Config: Config{Out: &out, Terminal: true}}
	p.progress([]result{log, fixed})
	p.end()
	out.Reset()
	p.Terminal = false
	if err := p.report([]result{log, fixed}); err != nil {
		t.Error(err)
	}
	const full = "▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆"
	for _, want := range []string{
		"              0s   1s   2s   3s   4s   5s   6s   7s   8s   9s   10s  11s\n",
		"list_log      " + full + "▆▆▆\n", "fixed window  " + full + "XXX\n",
		"list_log           5     5   100.0 %     61      1.00         0.0 s  ✓ kept\n",
		"fixed window      10     5   108.3 %      0      0.00         0.0 s  ✗ broken\n",
		"✓ our scripts kept every promise\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	log.calls++
	if err := p.report([]result{log, fixed}); err != ErrBroken || !strings.Contains(out.String(), "✗ list_log made 62") {
		t.Errorf("%v, want that a promise was broken", err)
	}
}
