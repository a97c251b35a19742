// Package demo compares limiters on a payment API that takes 5 calls a second. Many workers share that limit through
// several limiters at the same time: our scripts, and two faulty ones. Every act is recorded, in the same way for all.
// It is what make demo and sluice demo run, and compiles nothing that they do not need.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const (
	// limit is the maximum number of acts in any interval of length window.
	limit = 5
	// window is the interval of the limit. It may start at any time.
	window = time.Second

	// A payment keeps its worker busy for a time between these two limits.
	shortestPayment = 300 * time.Millisecond
	longestPayment  = 500 * time.Millisecond
	// joining is the time in which the workers start, one by one.
	joining = 2 * time.Second
	// overtime is how much longer than its duration a demo may take before it fails.
	overtime = 10 * time.Second
	// redraw is the time between two pictures on a terminal.
	redraw = 100 * time.Millisecond
)

// DefaultMargin is how much longer our windows are than those that the payment API counts. A worker may act late by
// that much without breaking its limit.
const DefaultMargin = 20 * time.Millisecond

// ErrBroken is returned if one of our scripts did not do what it promises. The report says what.
var ErrBroken = errors.New("a script broke its promise")

// Config is one demo. The zero value of a field has the meaning that its comment gives.
type Config struct {
	Out      io.Writer
	Terminal bool                         // Out can show colours, and redraw lines
	Server   string                       // its name; "" is a miniredis in this process
	Connect  func() redis.UniversalClient // called for each limiter, so that its calls can be counted; nil as Server is ""
	Workers  int                          // for each limiter; 0 means 20
	Duration time.Duration                // whole seconds, 2 or more; 0 means 12 s
	Margin   time.Duration
}

// Run runs the demo and prints a report. It returns an error if a limiter fails, ctx ends or a script broke its
// promise.
func Run(ctx context.Context, c Config) error {
	if c.Workers == 0 {
		c.Workers = 20
	}
	if c.Duration == 0 {
		c.Duration = 12 * time.Second
	}
	if c.Server == "" {
		mini, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("starting miniredis: %w", err)
		}
		defer mini.Close()
		c.Server = "an embedded miniredis"
		c.Connect = func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: mini.Addr(), DisableIdentity: true})
		}
	}
	e := &experiment{config: c}
	defer e.close()
	if err := e.prepare(ctx, "payments-"+rand.Text()); err != nil {
		return err
	}
	p := &printer{Config: c}
	p.introduce(e.trials)
	results, err := e.run(ctx, p.progress)
	p.end()
	if err != nil {
		return err
	}
	return p.report(results)
}

// experiment runs several limiters side by side, each on its own key.
type experiment struct {
	config  Config
	trials  []*trial
	clients []redis.UniversalClient
	stalls  stallWatch
}

// prepare connects to the server and prepares every limiter for a subject, which is a part of every key.
func (e *experiment) prepare(ctx context.Context, subject string) error {
	for _, build := range ways() {
		rdb := e.config.Connect()
		e.clients = append(e.clients, rdb)
		way, err := build(ctx, rdb, subject, e.config.Margin)
		if err != nil {
			return err
		}
		t := &trial{way: way, duration: e.config.Duration}
		rdb.AddHook(&t.calls) // from here on: loading scripts does not count
		e.trials = append(e.trials, t)
	}
	return nil
}

func (e *experiment) close() {
	for _, rdb := range e.clients {
		_ = rdb.Close()
	}
}

// run runs the workers for the configured duration, or until a limiter fails or ctx ends. From time to time it calls
// watch with the results so far. It starts in the middle of a second of the server's clock, because the payment API's
// seconds do not start with the server's either.
func (e *experiment) run(ctx context.Context, watch func([]result)) ([]result, error) {
	now, err := e.clients[0].Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	sleep(ctx, now.Add(window/2).Truncate(window).Add(window/2).Sub(now))
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	running, stop := context.WithTimeout(running, e.config.Duration+overtime)
	defer stop()

	go e.stalls.run(running)
	done := e.startWorkers(running, fail)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			watch(e.results())
		case <-done:
			return e.results(), context.Cause(running)
		}
	}
}

// startWorkers starts the workers of all limiters. The channel is closed when all have ended.
func (e *experiment) startWorkers(ctx context.Context, fail context.CancelCauseFunc) <-chan struct{} {
	var workers sync.WaitGroup
	for _, t := range e.trials {
		for i := range e.config.Workers {
			join := joining * time.Duration(i) / time.Duration(e.config.Workers)
			workers.Go(func() {
				if err := t.work(ctx, join); err != nil {
					fail(fmt.Errorf("%s: %w", t.name, err))
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	return done
}

func (e *experiment) results() []result {
	var all []result
	for _, t := range e.trials {
		r := t.result()
		r.stalled = e.stalls.sum()
		all = append(all, r)
	}
	return all
}

// IsTerminal reports whether a file can show colours and redraw lines.
func IsTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}
