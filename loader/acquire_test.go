package loader_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// queued are the goroutines of a test that call Acquire one after the other.
type queued struct {
	t        *testing.T
	all      sync.WaitGroup
	mu       sync.Mutex
	acquired []acquired
}

// acquired is one Acquire that got a slot.
type acquired struct {
	who  int
	took time.Duration
}

// acquire has a goroutine acquire a slot, hold it for a time and release it.
func (q *queued) acquire(c loader.Concurrency, who int, hold time.Duration) {
	q.all.Go(func() {
		began := time.Now()
		slot, err := c.Acquire(background, "acme")
		if err != nil {
			q.t.Error(err)
			return
		}
		q.mu.Lock()
		q.acquired = append(q.acquired, acquired{who, time.Since(began)})
		q.mu.Unlock()
		time.Sleep(hold)
		if err := slot.Release(); err != nil {
			q.t.Error(err)
		}
	})
	time.Sleep(time.Microsecond) // the next one asks later
}

// TestAcquireInOrder has 30 goroutines acquire two slots, for a millisecond each: they get them in the order of asking,
// as soon as one is released. A lost wake-up would take 125 ms or more.
func TestAcquireInOrder(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 2, 30*time.Second)
		q := queued{t: t}
		for i := range 30 {
			q.acquire(render, i, time.Millisecond)
		}
		q.all.Wait()
		for i, a := range q.acquired {
			if a.who != i || a.took > time.Duration(i/2)*time.Millisecond {
				t.Errorf("%d was served as %d, after %v", a.who, i, a.took)
			}
		}
		if n := s.asked.Load(); n > 100 {
			t.Errorf("%d calls for 30 slots", n)
		}
	})
}

// TestAcquireLosesNoWakeUp has goroutines come, hold and leave at random, some with contexts that end soon. While
// someone waits, no slot is free for longer than one that is left to other processes. A lost wake-up would take 60 ms
// or more.
func TestAcquireLosesNoWakeUp(t *testing.T) {
	for seed := range uint64(2) {
		withSlots(t, func(t *testing.T, s *slotServer) {
			const slots, callers = 3, 300
			random := rand.New(rand.NewPCG(seed, 1))
			render := s.limits.Concurrency("render", slots, time.Minute)
			var all sync.WaitGroup
			var mu sync.Mutex
			var held, waiting int
			var idle, longest, since time.Duration // while a slot is free and someone waits
			began := time.Now()
			note := func(heldBy, waitingBy int) {
				mu.Lock()
				defer mu.Unlock()
				now := time.Since(began)
				if idle += now - since; held == slots || waiting == 0 {
					idle = 0
				}
				since, longest = now, max(longest, idle)
				held, waiting = held+heldBy, waiting+waitingBy
			}
			for range callers {
				patience, hold := time.Duration(random.IntN(100)), time.Duration(random.IntN(10))
				all.Go(func() {
					ctx, cancel := context.WithTimeout(background, patience*time.Millisecond+time.Microsecond)
					defer cancel()
					note(0, 1)
					slot, err := render.Acquire(ctx, "acme")
					if err != nil {
						note(0, -1)
						return
					}
					note(1, -1)
					time.Sleep(hold * time.Millisecond)
					must(t, slot.Release())
					note(-1, 0)
				})
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			}
			all.Wait()
			if longest > 20*time.Millisecond {
				t.Errorf("seed %d: a slot was free for %v while someone waited", seed, longest)
			}
		})
	}
}

// TestAcquireAsksAgain has another process hold the slot. The first in the queue asks more and more often;
// the others do not ask.
func TestAcquireAsksAgain(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		elsewhere := take(t, s.honest.Concurrency("render", 1, time.Minute))
		render := s.limits.Concurrency("render", 1, time.Minute)
		q := queued{t: t}
		for i := range 20 {
			q.acquire(render, i, 0)
		}
		for _, want := range []struct {
			until       time.Duration
			least, most int64 // calls until then
		}{{time.Second, 10, 50}, {10 * time.Second, 400, 1000}, {20 * time.Second, 1000, 2000}} {
			s.asked.Store(0)
			time.Sleep(want.until)
			if n := s.asked.Load(); n < want.least || n > want.most {
				t.Errorf("%d calls in the next %v, want %d to %d", n, want.until, want.least, want.most)
			}
		}
		released := time.Now()
		must(t, elsewhere.Release())
		q.all.Wait()
		if took := time.Since(released); took > 20*time.Millisecond {
			t.Errorf("it took %v to find that the slot is free", took)
		}
	})
}

// TestAcquireAtTheLeaseEnd has a holder die: its slot is acquired when its lease ends, to the millisecond.
func TestAcquireAtTheLeaseEnd(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		const ttl = 100 * time.Millisecond
		take(t, s.limits.Concurrency("render", 1, ttl))
		s.fail(slotFaults["refused"])
		took(t, ttl, func() error {
			slot, err := s.honest.Concurrency("render", 1, time.Minute).Acquire(background, "acme")
			must(t, err)
			return slot.Release()
		})
	})
}

// TestAcquireEnds has no slot come free.
func TestAcquireEnds(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		held := take(t, s.honest.Concurrency("render", 1, time.Minute))
		defer func() { must(t, held.Release()) }()
		bounded := s.limits.Concurrency("render", 1, time.Minute, loader.MaxWait(3*time.Second))
		canceled, cancel := context.WithCancel(background)
		time.AfterFunc(4*time.Second, cancel)
		for _, test := range []struct {
			c     loader.Concurrency
			ctx   context.Context
			after time.Duration
			is    error
			text  string
		}{
			{bounded, background, 3 * time.Second, nil, "loader: render: no slot came free within MaxWait 3s"},
			{bounded, within(t, 2*time.Second), 2 * time.Second, context.DeadlineExceeded, "context deadline exceeded"},
			{bounded, within(t, 5*time.Second), 3 * time.Second, nil, "loader: render: no slot came free within MaxWait 3s"},
			{bounded.With(2).With(1), canceled, 3 * time.Second, nil, "loader: render: no slot came free within MaxWait 3s"},
			{s.limits.Concurrency("render", 1, time.Minute), canceled, 4 * time.Second, context.Canceled, "context canceled"},
			{bounded.With(0), background, 0, nil, "loader: render: Acquire would never end: n is 0"},
			{s.limits.Concurrency("render", -1, time.Minute), background, 0, nil,
				"loader: render: n -1: want 0 to 10000"},
		} {
			go func() {
				began := time.Now()
				slot, err := test.c.Acquire(test.ctx, "acme")
				if slot != nil || time.Since(began) != test.after || errors.Is(err, context.DeadlineExceeded) !=
					(test.is == context.DeadlineExceeded) || test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("after %v: %v, %v", time.Since(began), slot, err)
				}
				wantError(t, err, test.text)
			}()
		}
		time.Sleep(time.Minute)
	})
}

// TestAcquireRidesOutAnOutage has Redis fail for five seconds while a slot is free. With a deadline or MaxWait all
// callers get it, and only the first one asks meanwhile. Without, each has its error at once.
func TestAcquireRidesOutAnOutage(t *testing.T) {
	for name, fault := range slotFaults {
		for _, bound := range []string{"none", "deadline", "MaxWait"} {
			if name == "refused" && bound != "none" {
				continue // errDead is no error of the network: a retry does not help
			}
			t.Run(name+", "+bound, func(t *testing.T) {
				withSlots(t, func(t *testing.T, s *slotServer) {
					const callers = 10
					ctx, opts := background, []loader.LimiterOption(nil)
					switch bound {
					case "deadline":
						ctx = within(t, 20*time.Second)
					case "MaxWait":
						opts = append(opts, loader.MaxWait(20*time.Second))
					}
					render := s.limits.Concurrency("render", 1, time.Minute, opts...)
					s.fail(fault)
					errs := make(chan error, callers)
					began := time.Now()
					for range callers {
						go func() {
							slot, err := render.Acquire(ctx, "acme")
							if err == nil {
								err = slot.Release()
							}
							errs <- err
						}()
					}
					time.Sleep(5 * time.Second)
					if bound == "none" {
						for range callers {
							if err := <-errs; err == nil {
								t.Error("there must be an error")
							}
						}
						return
					}
					if n := s.asked.Load(); n > 100 {
						t.Errorf("%d calls in 5 s", n)
					}
					s.fail(nil)
					for range callers {
						must(t, <-errs)
					}
					if took := time.Since(began); took > 7*time.Second {
						t.Errorf("after %v", took)
					}
					wantFree(t, render, 1)
				})
			})
		}
	}
}

// TestAcquireDegradedSideBySide has 200 callers and a server that is frozen: all have their degraded slots after two
// timeouts, the first caller's and everybody else's.
func TestAcquireDegradedSideBySide(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 100, time.Minute, loader.FailOpen())
		s.fail(slotFaults["silence"])
		began := time.Now()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				slot, err := render.Acquire(background, "acme")
				if err != nil || slot == nil {
					t.Errorf("%v, %v; want a degraded slot", slot, err)
				} else {
					must(t, slot.Release())
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the last after %v", took)
		}
	})
}

// TestAcquireUnderTwoLimits has one caller wait under a limit that is reached, and another one come later under a
// higher one: it does not wait for the first.
func TestAcquireUnderTwoLimits(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, time.Minute)
		held := take(t, render)
		q := queued{t: t}
		q.acquire(render, 1, 0)
		q.acquire(render.With(2), 2, 0)
		time.Sleep(time.Second)
		must(t, held.Release())
		q.all.Wait()
		if who := []int{q.acquired[0].who, q.acquired[1].who}; !slices.Equal(who, []int{2, 1}) {
			t.Errorf("served in the order %v", who)
		}
	})
}

// TestAcquireAfterReset has one goroutine wait while the slots are reset: it gets one at once.
func TestAcquireAfterReset(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, time.Minute)
		take(t, render)
		q := queued{t: t}
		q.acquire(render, 1, 0)
		must(t, render.Reset(background, "acme"))
		q.all.Wait()
		if took := q.acquired[0].took; took > time.Microsecond {
			t.Errorf("after %v", took)
		}
		time.Sleep(time.Minute) // the first slot is lost
	})
}
