// Package experiment compares limiters on a payment API that takes 5 calls a second. Many workers share that limit
// through several limiters at the same time. Every act is recorded, in the same way for all.
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
	// Limit is the maximum number of acts in any interval of length Window.
	Limit = 5
	// Window is the interval of the limit. It may start at any time.
	Window = time.Second

	// A payment keeps its worker busy for a time between these two limits.
	shortestPayment = 300 * time.Millisecond
	longestPayment  = 500 * time.Millisecond
	// joining is the time in which the workers start, one by one.
	joining = 2 * time.Second
	// overtime is how much longer than its duration an experiment may take before it fails.
	overtime = 10 * time.Second
)

// Config is one experiment.
type Config struct {
	Connect  func() redis.UniversalClient // called once for each limiter, so that its calls can be counted
	Subject  string                       // part of every key: runs with different subjects are independent
	Workers  int                          // for each limiter
	Duration time.Duration                // whole seconds
	Margin   time.Duration                // how much longer than Window our scripts' windows are
}

// Experiment runs several limiters side by side, each on its own key.
type Experiment struct {
	config  Config
	trials  []*trial
	clients []redis.UniversalClient
	stalls  stallWatch
}

// New connects to the server and prepares every limiter. The caller must call Close.
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

// Ways returns the limiters in the order of the results.
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

// Run runs the workers for the configured duration, or until a limiter fails or ctx ends. It calls watch with the
// results so far once in every interval. It starts in the middle of a second of the server's clock, because the
// payment API's seconds do not start with the server's either.
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

// startWorkers starts the workers of all limiters. The channel is closed when all have ended.
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
