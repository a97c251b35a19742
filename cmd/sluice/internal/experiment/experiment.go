// Package experiment re-enacts the experiment of a payment API that takes 5 calls a second: many
// workers share that limit in several ways at once, and a recorder that knows nothing of limits notes
// every act.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Limit is how many acts the payment API takes in any interval of length Window.
	Limit = 5
	// Window is the length of the interval that the limit is about, wherever it starts.
	Window = time.Second

	// A payment keeps its worker busy for a time between these two.
	shortestPayment = 300 * time.Millisecond
	longestPayment  = 500 * time.Millisecond
	// joining is the time over which the workers come in, one by one.
	joining = 2 * time.Second
	// overtime is how much longer than its duration an experiment may take before it is given up.
	overtime = 10 * time.Second
)

// Config is one experiment.
type Config struct {
	Connect  func() redis.UniversalClient // a client of its own for every way, so that its calls can be counted
	Subject  string                       // part of every key: runs with different subjects do not meet
	Workers  int                          // for each way
	Duration time.Duration                // whole seconds
	Margin   time.Duration                // by which our scripts' windows are longer than Window
}

// Experiment is a number of ways that are tried side by side, each on a key of its own.
type Experiment struct {
	config  Config
	trials  []*trial
	clients []redis.UniversalClient
	stalls  stallWatch
}

// New connects to the server and prepares every way. Close releases what the experiment holds.
func New(ctx context.Context, config Config) (*Experiment, error) {
	e := &Experiment{config: config}
	for _, build := range ways() {
		t, err := e.newTrial(ctx, build)
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.trials = append(e.trials, t)
	}
	return e, nil
}

func (e *Experiment) newTrial(ctx context.Context, build buildWay) (*trial, error) {
	rdb := e.config.Connect()
	e.clients = append(e.clients, rdb)
	way, err := build(ctx, rdb, e.config)
	if err != nil {
		return nil, err
	}
	calls := &callCounter{}
	rdb.AddHook(calls)
	return &trial{Way: way, duration: e.config.Duration, calls: calls}, nil
}

// Ways are the ways that are tried, in the order of the results.
func (e *Experiment) Ways() []Way {
	var all []Way
	for _, t := range e.trials {
		all = append(all, t.Way)
	}
	return all
}

// Close closes the connections.
func (e *Experiment) Close() error {
	var errs []error
	for _, rdb := range e.clients {
		errs = append(errs, rdb.Close())
	}
	return errors.Join(errs...)
}

// Run lets the workers work until every way has had its duration, or until one fails or ctx ends, and
// calls watch with what there is so far every now and then. It starts in the middle of a second of the
// server's clock, because the seconds of the payment API are not the server's either.
func (e *Experiment) Run(ctx context.Context, every time.Duration, watch func([]Result)) ([]Result, error) {
	if err := e.awaitMiddleOfSecond(ctx); err != nil {
		return nil, err
	}
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	running, stop := context.WithTimeout(running, e.config.Duration+overtime)
	defer stop()

	go e.stalls.run(running)
	done := e.startWorkers(running, fail)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			watch(e.results())
		case <-done:
			if err := context.Cause(running); err != nil {
				return nil, err
			}
			return e.results(), nil
		}
	}
}

// startWorkers starts the workers of all ways; the channel is closed when all have ended.
func (e *Experiment) startWorkers(ctx context.Context, fail context.CancelCauseFunc) <-chan struct{} {
	var workers sync.WaitGroup
	for _, t := range e.trials {
		for i := range e.config.Workers {
			join := joining * time.Duration(i) / time.Duration(e.config.Workers)
			workers.Go(func() {
				if err := t.work(ctx, join); err != nil {
					fail(fmt.Errorf("%s: %w", t.Name, err))
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	return done
}

func (e *Experiment) awaitMiddleOfSecond(ctx context.Context) error {
	now, err := e.clients[0].Time(ctx).Result()
	if err != nil {
		return err
	}
	middle := now.Truncate(time.Second).Add(time.Second / 2)
	if middle.Before(now) {
		middle = middle.Add(time.Second)
	}
	if !sleep(ctx, middle.Sub(now)) {
		return context.Cause(ctx)
	}
	return nil
}

func (e *Experiment) results() []Result {
	var all []Result
	for _, t := range e.trials {
		r := t.result()
		r.Stalled = e.stalls.sum()
		all = append(all, r)
	}
	return all
}
