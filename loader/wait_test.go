package loader_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// inBubble runs a test in which no goroutine really sleeps: the clock of the bubble goes on when all of it
// does, and the server's clock follows it.
func inBubble(t *testing.T, test func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader),
	opts ...loader.Option) {
	m := miniredis.RunT(t)
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(options(m.Addr()))
		defer func() { _ = rdb.Close() }()
		// To the middle of a slice.
		time.Sleep(1234567 * time.Microsecond)
		rdb.AddHook(hook{before: func(redis.Cmder) { m.SetTime(time.Now()) }})
		test(t, m, loader.New(rdb, opts...))
	})
}

// took fails the test unless do takes exactly so long, by the clock of the bubble.
func took(t *testing.T, want time.Duration, do func() error) {
	t.Helper()
	started := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	if got := time.Since(started); got != want {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func TestWaitSleepsOnce(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
			limiter := makers[i].make(limits, loader.Limit{Permits: 2, Window: 10 * time.Second})
			wait := func() error { return limiter.WaitN(background, "s", 2) }
			took(t, 0, wait)
			window := 10 * time.Second
			if makers[i].name == "SliceRing" { // to the end of the slice that the window begins in
				window += time.Second - 234567*time.Microsecond
			}
			took(t, window, wait)
			if makers[i].name != "SliceRing" {
				took(t, window, wait)
			}
		})
	})
}

// TestWaitBooksInOrder has two processes wait in turn, each call sent when the one before it is answered: permits are
// booked in that order. Who acts first is not compared, because timers that are due closely may swap.
func TestWaitBooksInOrder(t *testing.T) {
	server := redistest.Start(t)
	eachLimiter(t, func(t *testing.T, i int) {
		answered := make(chan int64, 1) // the times that are booked
		var processes []loader.Limiter
		for range 2 {
			rdb := server.Client(t)
			limits := loader.New(rdb)
			must(t, limits.Preload(background))
			rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
				err := send()
				if cmd, ok := cmds[0].(interface{ Val() []int64 }); ok {
					answered <- cmd.Val()[4] + cmd.Val()[2] // now and wait
				}
				return err
			}))
			processes = append(processes, makers[i].make(limits, loader.Limit{Permits: 20, Window: 50 * time.Millisecond}))
		}
		if _, books := processes[0].(loader.Reserver); !books {
			return
		}
		var waiters sync.WaitGroup
		defer waiters.Wait()
		last := int64(0)
		for n := range 200 {
			waiters.Go(func() {
				if err := processes[n%2].Wait(background, "s"); err != nil {
					t.Error(err)
				}
			})
			booked := <-answered
			if booked < last {
				t.Fatalf("waiter %d was booked %d us before the one that asked before it", n, last-booked)
			}
			last = booked
		}
	})
}

func TestWaitLongerThanCanBeBooked(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
			limiter, books := makers[i].make(limits, loader.PerHour(1)).(loader.Reserver)
			if !books {
				return
			}
			took(t, 0, func() error { return limiter.Wait(background, "s") })
			took(t, time.Hour, func() error { return limiter.Wait(background, "s") })

			ctx := within(t, 2*time.Hour)
			time.AfterFunc(59*time.Minute+30*time.Second, func() {
				if d, err := limiter.Peek(ctx, "s"); err != nil || d.Wait != time.Hour+30*time.Second {
					t.Errorf("30 s before: %+v, %v; want it to be booked", d, err)
				}
			})
			took(t, time.Hour, func() error { return limiter.Wait(ctx, "s") })
		})
	})
}

func TestWaitFailsAtOnce(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
			limiter := makers[i].make(limits, loader.PerHour(1))
			bounded := makers[i].make(limits, loader.PerHour(1), loader.MaxWait(10*time.Minute))
			wantGrant(t, limiter, "s", 1)
			state := m.Dump()

			ctx := within(t, 30*time.Minute)
			deadline, _ := ctx.Deadline()
			started := time.Now()
			e := as[*loader.WaitError](t, limiter.Wait(ctx, "s"))
			if e.Permits != 1 || e.Wait < time.Hour || !e.Deadline.Equal(deadline) || e.MaxWait != 0 {
				t.Errorf("%+v", e)
			}
			e = as[*loader.WaitError](t, bounded.Wait(background, "s"))
			if e.Wait < time.Hour || !e.Deadline.IsZero() || e.MaxWait != 10*time.Minute {
				t.Errorf("%+v", e)
			}
			e = as[*loader.WaitError](t, bounded.Wait(ctx, "s"))
			if !e.Deadline.IsZero() || e.MaxWait != 10*time.Minute {
				t.Errorf("the nearer bound: %+v", e)
			}
			if time.Since(started) != 0 || m.Dump() != state {
				t.Errorf("after %v the state is\n%s", time.Since(started), m.Dump())
			}
		})
	})
}

// TestWaitIsCancelled ends the context while Wait sleeps: the logs give back what they booked, GCRA and TokenBucket
// cannot.
func TestWaitIsCancelled(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
			limiter := makers[i].make(limits, loader.Limit{Permits: 1, Window: 10 * time.Second})
			wantGrant(t, limiter, "s", 1)
			for range 2 {
				ctx, cancel := context.WithCancel(background)
				started := time.Now()
				time.AfterFunc(3*time.Second, cancel)
				err := limiter.Wait(ctx, "s")
				if !errors.Is(err, context.Canceled) || time.Since(started) != 3*time.Second {
					t.Fatalf("after %v: %v", time.Since(started), err)
				}
				must(t, limits.Flush(background))
			}
			d, err := limiter.Peek(background, "s")
			must(t, err)
			lost := map[string]bool{"GCRA": true, "TokenBucket": true}
			if behind := d.Wait > 10*time.Second; behind != lost[makers[i].name] {
				t.Errorf("a look has to wait %v", d.Wait)
			}
		})
	})
}

// TestWaitAbandoned has the replies to a Wait lost: what a ZSetLog may have booked is given back, unless the caller
// passed the id and may ask again.
func TestWaitAbandoned(t *testing.T) {
	p, rdb, _ := lossy(t)
	log := loader.New(rdb).ZSetLog("x", loader.PerHour(5))
	lose := slices.Repeat([]fault{{dropReply: true}}, 4)
	left := func(subject string) int64 {
		d, err := log.Peek(background, subject)
		must(t, err)
		return d.Remaining
	}

	p.next(lose...)
	e := as[*loader.OutcomeUnknownError](t, log.WaitN(background, "lost", 2))
	if e.ID == "" {
		t.Error("no id is told, by which the caller could cancel")
	}
	await(t, func() bool { return left("lost") == 5 })

	ctx := within(t, soon)
	p.next(fault{silence: true})
	if err := log.Wait(ctx, "late"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	await(t, func() bool { return left("late") == 5 })

	p.next(lose...)
	e = as[*loader.OutcomeUnknownError](t, log.WithID("order").WaitN(background, "mine", 2))
	must(t, log.WithID(e.ID).WaitN(background, "mine", 2))
	if n := left("mine"); n != 3 {
		t.Errorf("%d are left, want 3: the request came again", n)
	}
}

// TestWaitWithIDGoesOn waits for the same request again, after it was cancelled: it is still booked.
func TestWaitWithIDGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
		log := limits.ZSetLog("x", loader.Limit{Permits: 1, Window: 10 * time.Second})
		wantGrant(t, log, "s", 1)
		r, err := log.WithID("order").Reserve(background, "s")
		must(t, err)
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(3*time.Second, cancel)
		if err := log.WithID("order").Wait(ctx, "s"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // it might be given back
		if d, err := log.Peek(background, "s"); err != nil || d.Wait < 10*time.Second {
			t.Errorf("%+v, %v; want it booked", d, err)
		}
		took(t, 6*time.Second-time.Millisecond, func() error { return log.WithID("order").Wait(background, "s") })
		if r.Delay() != 0 {
			t.Errorf("delay is %v", r.Delay())
		}
		must(t, r.Wait(background))
	})
}

func TestReservationWait(t *testing.T) {
	inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
		log := limits.ListLog("x", loader.Limit{Permits: 1, Window: 10 * time.Second})
		for i := range 3 {
			r, err := log.Reserve(background, "s")
			must(t, err)
			want := time.Duration(i) * 10 * time.Second
			if r.Delay() != want {
				t.Fatalf("delay is %v, want %v", r.Delay(), want)
			}
			if i < 2 {
				continue
			}
			time.Sleep(4 * time.Second)
			ctx, cancel := context.WithTimeout(background, time.Second)
			if err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			took(t, 15*time.Second, func() error { return r.Wait(background) })
		}
	})
}

// TestWaitIsNeverEarly compares the times that a real server granted with its clock after Wait.
func TestWaitIsNeverEarly(t *testing.T) {
	rdb := real(t)
	log := loader.New(rdb).ListLog("x", loader.Limit{Permits: 1, Window: 20 * time.Millisecond})
	for range 5 {
		must(t, log.Wait(background, "s"))
		last, err := rdb.LIndex(background, "sluice:x:{s}:ll1", -1).Result()
		if errors.Is(err, redis.Nil) {
			continue // it has expired, a window after the time of its newest permit
		}
		must(t, err)
		now, err := rdb.Time(background).Result()
		must(t, err)
		if due, _ := strconv.ParseInt(last, 10, 64); now.UnixMicro() < due {
			t.Fatalf("it is %d, the permit is for %d", now.UnixMicro(), due)
		}
	}
}

// TestWaitErrorIsTheDeadline asks which bound was in the way: the context's deadline is context.DeadlineExceeded, the
// limiter's MaxWait and a limit of 0 are not.
func TestWaitErrorIsTheDeadline(t *testing.T) {
	for _, test := range []struct {
		name     string
		limit    loader.Limit
		deadline time.Duration // 0: none
		maxWait  time.Duration
		is       bool
	}{
		{"deadline", loader.PerMinute(1), 5 * time.Second, 0, true},
		{"MaxWait", loader.PerMinute(1), 0, time.Second, false},
		{"MaxWait before the deadline", loader.PerMinute(1), 10 * time.Second, time.Second, false},
		{"deadline before MaxWait", loader.PerMinute(1), 5 * time.Second, 30 * time.Second, true},
		{"a limit of 0", loader.Limit{}, 5 * time.Second, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachLimiter(t, func(t *testing.T, i int) {
				_, rdb := fake(t)
				limiter := makers[i].make(loader.New(rdb), test.limit, loader.MaxWait(test.maxWait))
				_, err := limiter.Allow(background, "s")
				must(t, err)
				ctx := background
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				err = limiter.Wait(ctx, "s")
				if e := as[*loader.WaitError](t, err); errors.Is(err, context.DeadlineExceeded) != test.is || e.Limiter != "test" {
					t.Errorf("%v: it is the deadline: %v", err, !test.is)
				}
			})
		})
	}
	_, rdb := fake(t)
	log := loader.New(rdb).ListLog("x", loader.PerHour(1), loader.MaxWait(time.Second))
	must(t, errOf(log.Allow(background, "s")))
	r, err := log.Reserve(background, "s")
	must(t, err)
	if err := r.Wait(background); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reservation that is not OK: %v", err)
	}
}

// TestWaitAsksAgain has a Wait meet what proves that nothing ran, for three seconds: it goes on asking, gently, and
// without a deadline it does not.
func TestWaitAsksAgain(t *testing.T) {
	for _, text := range []string{"LOADING it loads", "READONLY a replica", "CLUSTERDOWN", "MASTERDOWN",
		"BUSY with a script"} {
		for _, m := range makers {
			t.Run(text+" "+m.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					started := time.Now()
					rdb, asked := answering(func(context.Context) error {
						if time.Since(started) < 3*time.Second {
							return serverError(text)
						}
						return errDead
					})
					limits := loader.New(rdb, loader.Breaker(3, 100*time.Millisecond))
					limiter := m.make(limits, loader.PerHour(5))
					if err := limiter.Wait(background, "s"); err == nil || time.Since(started) > time.Second {
						t.Errorf("without a deadline, after %v: %v", time.Since(started), err)
					}
					asked.Store(0)
					ctx := within(t, time.Minute)
					err := limiter.Wait(ctx, "s")
					if n := asked.Load(); !errors.Is(err, errDead) || time.Since(started) < 3*time.Second || n > 100 {
						t.Errorf("after %v and %d calls: %v", time.Since(started), n, err)
					}
				})
			})
		}
	}
}

// TestWaitCancelledInAPause has the caller leave while a Breaker is open: the error says so, and why it was waiting.
func TestWaitCancelledInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, _ := answering(func(context.Context) error { return serverError("LOADING it loads") })
		limiter := loader.New(rdb, loader.Breaker(1, time.Minute)).ListLog("x", loader.PerHour(5))
		ctx, cancel := context.WithCancel(within(t, time.Minute))
		time.AfterFunc(10*time.Second, cancel)
		if err := limiter.Wait(ctx, "s"); !errors.Is(err, context.Canceled) || !errors.Is(err, loader.ErrBreakerOpen) {
			t.Errorf("%v, want it cancelled, and the breaker open", err)
		}
	})
}

// TestWaitUntilItsDeadline has Redis be down for good: the error comes when the time is up, and names the cause.
func TestWaitUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, _ := answering(func(context.Context) error { return serverError("LOADING it loads") })
		limits := loader.New(rdb)
		for name, limiter := range map[string]loader.Limiter{
			"deadline": limits.ListLog("x", loader.PerHour(5)),
			"MaxWait":  limits.ListLog("x", loader.PerHour(5), loader.MaxWait(10*time.Second)),
		} {
			ctx, cancel := background, func() {}
			if name == "deadline" {
				ctx, cancel = context.WithTimeout(background, 10*time.Second)
			}
			started := time.Now()
			err := limiter.Wait(ctx, "s")
			if took := time.Since(started); err == nil || took < 9*time.Second || took > 11*time.Second {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
			cancel()
		}
	})
}
