package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

const slotsKey = "sluice:render:{acme}:cc1"

// take takes a slot of acme, which must be free.
func take(t *testing.T, c loader.Concurrency) *loader.Slot {
	t.Helper()
	slot, d, err := c.TryAcquire(background, "acme")
	if err != nil || slot == nil || !d.Granted {
		t.Fatalf("%v, %+v, %v; want a slot", slot, d, err)
	}
	return slot
}

// wantFull wants acme to have no free slot.
func wantFull(t *testing.T, c loader.Concurrency) loader.Decision {
	t.Helper()
	slot, d, err := c.TryAcquire(background, "acme")
	if err != nil || slot != nil || d.Granted {
		t.Fatalf("%v, %+v, %v; want no slot", slot, d, err)
	}
	return d
}

// wantFree wants so many slots of acme to be free.
func wantFree(t *testing.T, c loader.Concurrency, n int64) {
	t.Helper()
	if d, err := c.Peek(background, "acme"); err != nil || d.Remaining != n {
		t.Fatalf("%+v, %v; want %d free", d, err, n)
	}
}

// isOver reports whether a slot's context has ended.
func isOver(slot *loader.Slot) bool { return slot.Context().Err() != nil }

// wantLost wants a slot to be lost.
func wantLost(t *testing.T, slot *loader.Slot) *loader.SlotLostError {
	t.Helper()
	if !isOver(slot) {
		t.Fatal("the slot is not lost")
	}
	e := as[*loader.SlotLostError](t, context.Cause(slot.Context()))
	if e.Limiter != "render" || e.Subject != "acme" {
		t.Errorf("%+v", e)
	}
	return e
}

func TestSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
		render := limits.Concurrency("render", 2, 30*time.Second)
		must(t, render.Check())
		first, second := take(t, render), take(t, render)
		got := wantFull(t, render)
		want := loader.Decision{Wait: 30 * time.Second, ResetAfter: 30 * time.Second, Now: time.Now(),
			Limit: loader.Limit{Permits: 2, Window: 30 * time.Second}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		third := take(t, render.With(3))
		wantFull(t, render.With(3))
		must(t, third.Release())
		wantFull(t, render)
		must(t, first.Release())
		if isOver(second) || !isOver(first) || context.Cause(first.Context()) != context.Canceled {
			t.Error("the slot that was released has ended, and no other one")
		}
		wantFull(t, render.With(1))
		wantFree(t, render, 1)
		must(t, second.Release())
		wantFree(t, render, 2)
		if keys := m.Keys(); len(keys) > 0 {
			t.Errorf("keys are left: %q", keys)
		}
	})
}

// slotServer is a server for slots, and a client of it whose calls can be late and can fail.
type slotServer struct {
	*miniredis.Miniredis
	limits *loader.Loader // by the client that can fail
	honest *loader.Loader
	delay  atomic.Int64 // nanoseconds, each way
	asked  atomic.Int64 // scripts by the client that can fail
	fault  atomic.Pointer[slotFault]
}

// slotFault is what happens to a call. ctx is that of its command.
type slotFault func(ctx context.Context, cmd redis.Cmder, send func() error) error

// withSlots runs a test in a bubble, as inBubble does.
func withSlots(t *testing.T, test func(t *testing.T, s *slotServer), opts ...loader.Option) {
	m := miniredis.RunT(t)
	synctest.Test(t, func(t *testing.T) {
		s := &slotServer{Miniredis: m}
		clock := hook{before: func(redis.Cmder) { m.SetTime(time.Now()) }}
		failing, honest := redis.NewClient(options(m.Addr())), redis.NewClient(options(m.Addr()))
		defer func() { _, _ = failing.Close(), honest.Close() }()
		failing.AddHook(around(s.call))
		failing.AddHook(clock)
		honest.AddHook(clock)
		s.honest = loader.New(honest)
		s.limits = loader.New(failing, append(opts, loader.WithoutSharing())...) // a reply in a pipeline has been read
		must(t, s.honest.Preload(background))
		test(t, s)
		s.fail(nil)
		must(t, s.limits.Flush(background))
		synctest.Wait() // for renewals that began as the test ended
	})
}

func (s *slotServer) call(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	if cmds[0].Name() != "evalsha" {
		return send()
	}
	s.asked.Add(1)
	time.Sleep(time.Duration(s.delay.Load()))
	defer func() { time.Sleep(time.Duration(s.delay.Load())) }()
	if fault := s.fault.Load(); fault != nil {
		err := (*fault)(ctx, cmds[0], send)
		cmds[0].SetErr(err)
		return err
	}
	return send()
}

// fail has all calls of the client fail from now on, with nil none.
func (s *slotServer) fail(how slotFault) {
	if how == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&how)
}

var slotFaults = map[string]slotFault{
	"refused":    func(context.Context, redis.Cmder, func() error) error { return errDead },
	"loading":    func(context.Context, redis.Cmder, func() error) error { return serverError("LOADING it loads") },
	"silence":    func(ctx context.Context, _ redis.Cmder, _ func() error) error { <-ctx.Done(); return ctx.Err() },
	"lost reply": func(_ context.Context, _ redis.Cmder, send func() error) error { _ = send(); return io.EOF },
	"late reply": func(ctx context.Context, _ redis.Cmder, send func() error) error {
		_ = send()
		<-ctx.Done()
		return ctx.Err()
	},
}

// TestSlotRenewsItself holds a slot for ten times its ttl. It asks three times in each.
func TestSlotRenewsItself(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		const ttl = 30 * time.Second
		render := s.limits.Concurrency("render", 1, ttl)
		slot := take(t, render)
		time.Sleep(10*ttl + time.Millisecond)
		if n := s.asked.Load(); n != 1+30 || isOver(slot) {
			t.Errorf("%d calls, over: %v; want one and 30 renewals", n, isOver(slot))
		}
		if d := wantFull(t, s.honest.Concurrency("render", 1, ttl)); d.Wait < ttl-time.Second {
			t.Errorf("the lease ends in %v", d.Wait)
		}
		must(t, slot.Release())
		s.asked.Store(0)
		time.Sleep(10 * ttl)
		if n := s.asked.Load(); n != 0 {
			t.Errorf("%d calls after the release", n)
		}
	})
}

// TestSlotIsLostInTime has the renewals of a slot fail from some time on, in every way, on a fast and on a slow
// network. Another caller asks for the slot all the time: when it gets it, the context has ended, and not much earlier.
func TestSlotIsLostInTime(t *testing.T) {
	for name, fault := range slotFaults {
		for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
			for _, after := range []time.Duration{time.Second, 4 * time.Second, time.Minute} {
				t.Run(fmt.Sprintf("%s, %v each way, after %v", name, delay, after), func(t *testing.T) {
					withSlots(t, func(t *testing.T, s *slotServer) {
						s.delay.Store(int64(delay))
						loseSlot(t, s, fault, after)
					})
				})
			}
		}
	}
}

// loseSlot takes a slot, has its renewals fail after some time, and waits until another caller gets it.
func loseSlot(t *testing.T, s *slotServer, fault slotFault, after time.Duration) {
	const ttl = 10 * time.Second
	slot := take(t, s.limits.Concurrency("render", 1, ttl))
	ended := make(chan time.Time, 1)
	context.AfterFunc(slot.Context(), func() { ended <- time.Now() })
	time.Sleep(after)
	s.fail(fault)
	failed := time.Now()
	other := s.honest.Concurrency("render", 1, ttl)
	var got *loader.Slot
	for got == nil {
		var d loader.Decision
		var err error
		got, d, err = other.TryAcquire(background, "acme")
		must(t, err)
		if got == nil {
			time.Sleep(min(d.Wait, 200*time.Millisecond))
		}
	}
	e := wantLost(t, slot)
	held, delay := (<-ended).Sub(failed), time.Duration(s.delay.Load())
	if e.Limiter != "render" || e.Err == nil || held < ttl*6/10-2*delay {
		t.Errorf("after %v: %v", held, e)
	}
	if err := slot.Release(); !errors.Is(err, e) {
		t.Errorf("Release: %v", err)
	}
	s.fail(nil)
	time.Sleep(2 * ttl) // a late release frees no slot of another
	if isOver(got) {
		t.Errorf("the other slot: %v", context.Cause(got.Context()))
	}
	wantFull(t, other)
	must(t, got.Release())
	if left := s.Keys(); len(left) > 0 {
		t.Errorf("keys are left: %q", left)
	}
}

// TestSlotSurvivesAnOutage has renewals fail for half of a ttl.
func TestSlotSurvivesAnOutage(t *testing.T) {
	for name, fault := range slotFaults {
		t.Run(name, func(t *testing.T) {
			withSlots(t, func(t *testing.T, s *slotServer) {
				render := s.limits.Concurrency("render", 1, 10*time.Second)
				slot := take(t, render)
				for range 5 {
					s.fail(fault)
					time.Sleep(5 * time.Second)
					s.fail(nil)
					time.Sleep(5 * time.Second)
				}
				if isOver(slot) {
					t.Errorf("lost: %v", context.Cause(slot.Context()))
				}
				must(t, slot.Release())
				wantFree(t, render, 1)
			})
		})
	}
}

// TestSlotOfAShortTTL has one renewal get no reply, of a slot whose ttl is shorter than a call may take: there is time
// for another one.
func TestSlotOfAShortTTL(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		slot := take(t, s.limits.Concurrency("render", 1, 900*time.Millisecond))
		s.fail(slotFaults["silence"])
		time.Sleep(310 * time.Millisecond) // a renewal is on its way
		s.fail(nil)
		time.Sleep(time.Minute)
		if isOver(slot) {
			t.Error(context.Cause(slot.Context()))
		}
		must(t, slot.Release())
	})
}

// TestSlotIsLostAtOnce removes a slot's lease: the next renewal ends the context, and takes nothing.
func TestSlotIsLostAtOnce(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, 30*time.Second)
		slot := take(t, render)
		time.Sleep(9 * time.Second)
		must(t, render.Reset(background, "acme"))
		if isOver(slot) {
			t.Error("it cannot know yet")
		}
		time.Sleep(time.Second + time.Millisecond)
		e := wantLost(t, slot)
		if e.Error() != "loader: render: slot lost: the server has no lease of it" || e.Subject != "acme" {
			t.Errorf("%+v", e)
		}
		if late := as[*loader.SlotLostError](t, slot.Release()); late != e {
			t.Error(late)
		}
		time.Sleep(time.Minute)
		wantFree(t, render, 1)
		if n := s.asked.Load(); n != 3 {
			t.Errorf("%d calls, want a take, a renewal and a look", n)
		}
	})
}

// TestSlotRenewalOnTheWay releases a slot while a renewal is on its way: the renewal takes nothing.
func TestSlotRenewalOnTheWay(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, 30*time.Second)
		slot := take(t, render)
		s.delay.Store(int64(2 * time.Second)) // longer than any timeout: the command is abandoned
		time.Sleep(11 * time.Second)
		s.delay.Store(0)
		must(t, slot.Release())
		time.Sleep(10 * time.Second)
		wantFree(t, s.honest.Concurrency("render", 1, 30*time.Second), 1)
	})
}

// TestSlotRelease releases a slot in every state, more than once, and by many at once.
func TestSlotRelease(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 2, 30*time.Second)
		ctx, cancel := context.WithCancel(background)
		slot, _, err := render.TryAcquire(ctx, "acme")
		must(t, err)
		cancel()
		time.Sleep(65 * time.Second) // it is renewed every 10 s
		wantFree(t, render, 1)       // until it is released, because work may go on
		s.asked.Store(0)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { must(t, slot.Release()) })
		}
		all.Wait()
		if n := s.asked.Load(); n != 1 {
			t.Errorf("%d calls for a release", n)
		}
		take(t, render)
		second := take(t, render)
		must(t, slot.Release())
		wantFull(t, render)
		must(t, second.Release())
		must(t, render.Reset(background, "acme"))
		time.Sleep(time.Minute)
	})
}

// TestSlotReleaseFails has Redis fail when a slot is released: it is released as soon as Redis answers again, and no
// later than its lease ends.
func TestSlotReleaseFails(t *testing.T) {
	for name, fault := range slotFaults {
		t.Run(name, func(t *testing.T) {
			withSlots(t, func(t *testing.T, s *slotServer) {
				render := s.limits.Concurrency("render", 1, 30*time.Second)
				slot := take(t, render)
				s.fail(fault)
				began := time.Now()
				if err := slot.Release(); err == nil || time.Since(began) > time.Second || !isOver(slot) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				time.Sleep(5 * time.Second)
				s.fail(nil)
				time.Sleep(2 * time.Second)
				wantFree(t, render, 1)
				s.asked.Store(0)
				time.Sleep(time.Minute)
				if n := s.asked.Load(); n > 0 {
					t.Errorf("%d calls after the release", n)
				}

				slot = take(t, render)
				s.fail(fault)
				if err := slot.Release(); err == nil {
					t.Error("it cannot have been released")
				}
				time.Sleep(time.Minute)
				s.asked.Store(0)
				time.Sleep(time.Minute)
				if n := s.asked.Load(); n > 0 {
					t.Errorf("%d calls when the lease has long ended", n)
				}
			})
		})
	}
}

// TestSlotOfALostReply has the reply to a call lost, and come after the caller has left: the slot that it may have
// taken is free soon after Redis answers again.
func TestSlotOfALostReply(t *testing.T) {
	for name, fault := range slotFaults {
		for _, ask := range []string{"TryAcquire", "Acquire"} {
			t.Run(name+", "+ask, func(t *testing.T) {
				withSlots(t, func(t *testing.T, s *slotServer) {
					render := s.limits.Concurrency("render", 1, time.Hour)
					ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
					defer cancel()
					s.fail(fault)
					var slot *loader.Slot
					var err error
					if ask == "Acquire" {
						slot, err = render.Acquire(ctx, "acme")
					} else {
						slot, _, err = render.TryAcquire(ctx, "acme")
					}
					if slot != nil || err == nil {
						t.Fatalf("%v, %v; want an error", slot, err)
					}
					s.fail(nil)
					time.Sleep(5 * time.Second)
					wantFree(t, render, 1)
				})
			})
		}
	}
}

// TestSlotAfterItsContext has the context end while the reply comes: no slot is returned, and none stays taken.
func TestSlotAfterItsContext(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 30, time.Hour)
		for range 30 { // the call may notice the end, or not
			ctx, cancel := context.WithCancel(background)
			s.fail(func(_ context.Context, _ redis.Cmder, send func() error) error {
				defer cancel()
				return send()
			})
			if slot, _, err := render.TryAcquire(ctx, "acme"); slot != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("%v, %v", slot, err)
			}
		}
		s.fail(nil)
		must(t, s.limits.Flush(background))
		wantFree(t, render, 30)
	})
}

// TestSlotTakenLate has the server run a call after the connection was lost and the first release was answered.
func TestSlotTakenLate(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, time.Hour)
		other := redis.NewClient(options(s.Addr()))
		defer func() { _ = other.Close() }()
		var late sync.WaitGroup
		s.fail(func(_ context.Context, cmd redis.Cmder, _ func() error) error {
			words := []any{}
			for _, word := range write(cmd) {
				words = append(words, word)
			}
			late.Add(1)
			time.AfterFunc(400*time.Millisecond, func() {
				defer late.Done()
				_ = other.Do(background, words...)
			})
			return io.EOF
		})
		_, _, err := render.TryAcquire(background, "acme")
		as[*loader.OutcomeUnknownError](t, err)
		s.fail(nil)
		must(t, s.limits.Flush(background))
		late.Wait()
		wantFree(t, render, 1)
	})
}

// TestSlotReleaseDoesNotOvertake has a context end while the call is on the way to a real server: the slot is released
// when it has been taken, not before.
func TestSlotReleaseDoesNotOvertake(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		limits, direct, slow := slowly(t, opts...)
		slow.delay.Store(int64(1500 * time.Millisecond)) // longer than releases are tried
		_, _, err := limits.Concurrency("render", 1, time.Hour).TryAcquire(within(t, 50*time.Millisecond), "acme")
		as[*loader.OutcomeUnknownError](t, err)
		slow.delay.Store(0)
		await(t, func() bool { return slow.sending.Load() == 0 })
		must(t, limits.Flush(background))
		d, err := direct.Concurrency("render", 1, time.Hour).Peek(background, "acme")
		if must(t, err); d.Remaining != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// TestSlotTooLate has the reply come after the lease has ended.
func TestSlotTooLate(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, 100*time.Millisecond)
		s.delay.Store(int64(60 * time.Millisecond))
		slot, d, err := render.TryAcquire(background, "acme")
		if e := as[*loader.SlotLostError](t, err); slot != nil || d.Granted || e.Subject != "acme" {
			t.Errorf("%v, %+v", slot, d)
		}
		time.Sleep(time.Second)
	})
}

// TestSlotFailOpen has Redis fail before a slot is taken, and while one is held for longer than its ttl: the slots are
// kept. What was taken all the same, or is left when Redis is back, is released.
func TestSlotFailOpen(t *testing.T) {
	for name, fault := range slotFaults {
		t.Run(name, func(t *testing.T) {
			withSlots(t, func(t *testing.T, s *slotServer) {
				render := s.limits.Concurrency("render", 3, time.Hour, loader.FailOpen())
				held := take(t, render)
				time.Sleep(50 * time.Minute)
				s.fail(fault)
				degraded, d, err := render.TryAcquire(background, "acme")
				if err != nil || !d.Degraded || d.Cause == nil || degraded == nil {
					t.Fatalf("%v, %+v, %v", degraded, d, err)
				}
				waited, err := render.Acquire(background, "acme")
				must(t, err)
				s.fail(nil)
				time.Sleep(5 * time.Second)
				wantFree(t, render, 2) // what they may have taken is released
				s.fail(fault)
				time.Sleep(3 * time.Hour)
				if isOver(held) || isOver(degraded) || isOver(waited) {
					t.Error("a slot is lost")
				}
				must(t, degraded.Release())
				must(t, waited.Release())
				if !isOver(degraded) {
					t.Error("its context goes on")
				}
				s.fail(nil)
				time.Sleep(5 * time.Second)
				wantFree(t, render, 3)
				must(t, held.Release())

				held = take(t, render)
				must(t, render.Reset(background, "acme"))
				time.Sleep(21 * time.Minute)
				wantLost(t, held) // Redis says so
			})
		})
	}
}

// TestSlotsAreRefused makes a Concurrency wrong: every call says so, and nothing is sent.
func TestSlotsAreRefused(t *testing.T) {
	limits := loader.New(neverAsked(t))
	const ttl = time.Minute
	for want, c := range map[string]loader.Concurrency{
		"loader: render: n -1: want 0 to 10000":                   limits.Concurrency("render", -1, ttl),
		"loader: render: n 10001: want 0 to 10000":                limits.Concurrency("render", 10001, ttl),
		"loader: render: n 20000: want 0 to 10000":                limits.Concurrency("render", 1, ttl).With(20000),
		"loader: render: ttl 0s: want 1ms to 366 days":            limits.Concurrency("render", 1, 0),
		"loader: render: ttl 8808h0m0s: want 1ms to 366 days":     limits.Concurrency("render", 1, 367*24*time.Hour),
		"loader: render: ttl 1.0000005s: want whole microseconds": limits.Concurrency("render", 1, time.Second+500),
		"loader: render: RememberDenials is not an option of Concurrency": limits.Concurrency("render", 1, ttl,
			loader.RememberDenials(1)),
		"loader: render: FailLocal is not an option of Concurrency": limits.Concurrency("render", 1, ttl,
			loader.FailLocal(1)),
		"loader: bad limiter: want one that a method of Loader made": {},
	} {
		_, d, tried := c.TryAcquire(background, "acme")
		acquired, errAcquire := c.Acquire(background, "acme")
		if acquired != nil || d.Granted {
			t.Errorf("%v, %+v", acquired, d)
		}
		errs := []error{c.Check(), tried, errAcquire, errOf(c.Peek(background, "acme")), c.Reset(background, "acme")}
		for _, err := range errs {
			wantError(t, err, want)
			as[*loader.ArgumentError](t, err)
		}
	}
	none := limits.Concurrency("render", 0, ttl)
	must(t, none.Check())
	if d := wantFull(t, none); d.Wait != loader.Never {
		t.Errorf("%+v", d)
	}
	as[*loader.ArgumentError](t, errOf(none.Acquire(background, "")))
}

// TestLogOfAFailedRelease wants a release that failed to be logged as a return, with the limiter's name: as given up
// only when it is not tried again.
func TestLogOfAFailedRelease(t *testing.T) {
	logger, lines := newLog()
	withSlots(t, func(t *testing.T, s *slotServer) {
		slot := take(t, s.limits.Concurrency("render", 1, 30*time.Second))
		s.fail(func(context.Context, redis.Cmder, func() error) error { return serverError("OOM full") })
		if err := slot.Release(); err == nil {
			t.Error("no error")
		}
		const text = ` script=concurrency_release_v1 limiter=render error="loader: concurrency_release_v1: OOM full: ` +
			`its memory is full: raise maxmemory, or find out what fills it"`
		must(t, s.limits.Flush(background))
		logged(t, lines, `level=WARN msg="return failed"`+text, `level=WARN msg="return given up"`+text)
	}, loader.Logger(logger))
}

// TestSlotsAfterTheirStateIsGone evicts the holders, and has all of them die: the limit is neither stuck nor higher.
func TestSlotsAfterTheirStateIsGone(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 3, 30*time.Second)
		honest := s.honest.Concurrency("render", 3, 30*time.Second)
		for range 3 {
			for range 3 {
				take(t, render)
			}
			wantFull(t, honest)
			s.Del(slotsKey)
			wantFree(t, honest, 3)
			for range 3 {
				take(t, render)
			}
			wantFull(t, honest)
			s.fail(slotFaults["silence"]) // they die
			time.Sleep(31 * time.Second)
			s.fail(nil)
			wantFree(t, honest, 3)
		}
		slots := []*loader.Slot{take(t, honest), take(t, honest), take(t, honest)}
		wantFull(t, honest)
		for _, slot := range slots {
			must(t, slot.Release())
		}
		if s.Exists(slotsKey) {
			t.Error("a key without slots is left")
		}
		wantFree(t, honest, 3)
	})
}

// TestSlotsAreObserved wants one event for each call, with what the caller waited, and a log of lost slots.
func TestSlotsAreObserved(t *testing.T) {
	var events []loader.Event
	var logged strings.Builder
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, 30*time.Second)
		first := take(t, render)
		wantFull(t, render)
		time.AfterFunc(5*time.Second, func() { _ = first.Release() })
		second, err := render.Acquire(background, "acme")
		must(t, err)
		must(t, render.Reset(background, "acme"))
		time.Sleep(time.Minute)
		wantLost(t, second)
	}, loader.Observe(loader.ObserverFunc(func(_ context.Context, e loader.Event) { events = append(events, e) })),
		loader.Logger(slog.New(slog.NewTextHandler(&logged, nil))))
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.Method, " ", e.Limiter, " ", e.Decision.Granted, " ", e.Err, " ", e.Slept))
		if e.Script != "concurrency_v1" || e.Subject != "acme" || e.Permits != 1 {
			t.Errorf("%+v", e)
		}
	}
	want := []string{"TryAcquire render true <nil> 0s", "TryAcquire render false <nil> 0s",
		"Acquire render true <nil> 5s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(logged.String(), `level=WARN msg="slot lost" limiter=render error="the server has no lease`) {
		t.Errorf("logged:\n%s", logged.String())
	}
}

// TestSlotPanics has a hook panic in a renewal: it is tried again, and the process lives on.
func TestSlotPanics(t *testing.T) {
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, 30*time.Second)
		slot := take(t, render)
		s.fail(func(context.Context, redis.Cmder, func() error) error { panic("a hook") })
		time.Sleep(15 * time.Second)
		s.fail(nil)
		time.Sleep(time.Minute)
		if isOver(slot) {
			t.Error(context.Cause(slot.Context()))
		}
		must(t, slot.Release())
	})
}

// TestSlotLogPanics loses two slots, by a renewal and by the end of a lease, whose logger panics: the process lives on.
func TestSlotLogPanics(t *testing.T) {
	var left atomic.Bool
	withSlots(t, func(t *testing.T, s *slotServer) {
		render := s.limits.Concurrency("render", 1, 30*time.Second)
		for _, lose := range []func(){
			func() { must(t, render.Reset(background, "acme")) },
			func() { s.fail(slotFaults["silence"]) },
		} {
			slot := take(t, render)
			left.Store(true)
			lose()
			time.Sleep(time.Minute)
			wantLost(t, slot)
			s.fail(nil)
			if time.Sleep(time.Minute); left.Load() { // longer than the log is silent about the same
				t.Error("nothing was logged")
			}
		}
		wantFree(t, render, 1)
	}, loader.Logger(slog.New(panicsOn{slog.DiscardHandler, "slot lost", &left})))
}

// TestZeroSlot wants a Slot that no call has returned to do nothing.
func TestZeroSlot(t *testing.T) {
	must(t, new(loader.Slot).Release())
	must(t, (*loader.Slot)(nil).Release())
}
