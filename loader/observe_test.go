package loader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// watcher keeps the events that it is told of, and wants each to end as it began, in its own context.
type watcher struct {
	t      *testing.T
	mu     sync.Mutex
	begun  int
	events []loader.Event
}

type watched struct{ by *watcher }

func (w *watcher) Begin(ctx context.Context, e loader.Event) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	return context.WithValue(ctx, watched{w}, e)
}

func (w *watcher) End(ctx context.Context, e loader.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	began := loader.Event{Method: e.Method, Script: e.Script, Limiter: e.Limiter, Subject: e.Subject, Permits: e.Permits}
	if diff := cmp.Diff(began, ctx.Value(watched{w})); diff != "" {
		w.t.Errorf("began (+) as another than it ended (-):\n%s", diff)
	}
}

// saw fails the test unless these are the events since the last call, whatever their errors and how long they took.
func (w *watcher) saw(t *testing.T, want ...loader.Event) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	ignored := cmpopts.IgnoreFields(loader.Event{}, "Latency", "Err")
	if diff := cmp.Diff(want, w.events, ignored, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, e := range w.events {
		if e.Latency <= 0 {
			t.Errorf("latency %v in %+v", e.Latency, e)
		}
	}
	if w.begun != len(w.events) {
		t.Errorf("%d began, %d ended", w.begun, len(w.events))
	}
	w.begun, w.events = 0, nil
}

// forget drops the events so far.
func (w *watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.events = 0, nil
}

// TestObserverOfEveryMethod wants one event of each call, with what its caller was told.
func TestObserverOfEveryMethod(t *testing.T) {
	w := &watcher{t: t}
	_, rdb := fake(t)
	limits := loader.New(rdb, loader.Observe(w))
	must(t, limits.Preload(background))
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(limits, loader.Limit{Permits: 3, Window: time.Minute})
		event := func(method string, permits int64, d loader.Decision) loader.Event {
			return loader.Event{
				Method: method, Script: makers[i].script, Limiter: "test", Subject: "ada",
				Permits: permits, Decision: d, Attempts: 1,
			}
		}
		allowed := wantGrant(t, limiter, "ada", 1)
		most := wantGrant(t, limiter, "ada", 2)
		refused := wantDenial(t, limiter, "ada", 1)
		looked, err := limiter.Peek(background, "ada")
		must(t, err)
		w.saw(t, event("Allow", 1, allowed), event("Allow", 2, most), event("Allow", 1, refused), event("Peek", 0, looked))

		_, err = limiter.AllowN(background, "ada", 4)
		if makers[i].name == "TokenBucket" { // only the server knows its limit
			w.saw(t, event("Allow", 4, loader.Decision{}))
		} else {
			asksNobody := event("Allow", 4, loader.Decision{Wait: loader.Never, Limit: allowed.Limit})
			asksNobody.Attempts = 0
			w.saw(t, asksNobody)
		}
		if !errors.Is(err, loader.ErrExceedsLimit) {
			t.Fatal(err)
		}

		if reserver, ok := limiter.(loader.Reserver); ok {
			reserved, err := reserver.Reserve(background, "ada")
			must(t, err)
			w.saw(t, event("Reserve", 1, reserved.Decision()))
		}
		must(t, limiter.Reset(background, "ada"))
		must(t, limits.TokenBucket("x", loader.PerSecond(1)).SetRate(background, "ada", loader.PerSecond(2)))
		w.saw(t) // neither decides anything

		batch := limits.Batch()
		first, late := batch.AllowN(limiter, "ada", 3), batch.Allow(limiter, "ada")
		must(t, errOf(batch.Do(background)))
		w.saw(t, event("Allow", 3, first.Decision), event("Allow", 1, late.Decision))
	})
}

func TestObserverOfErrors(t *testing.T) {
	w := &watcher{t: t}
	m, rdb := fake(t)
	limits := loader.New(rdb, loader.Observe(w))
	must(t, limits.Preload(background))
	log := limits.ListLog("x", loader.PerSecond(1))
	event := func(method string, attempts int) loader.Event {
		return loader.Event{
			Method: method, Script: "list_log_v1", Limiter: "x", Subject: "ada", Permits: 1, Attempts: attempts,
		}
	}

	must(t, m.Set("sluice:x:{ada}:ll1", "not a list"))
	_, err := log.Allow(background, "ada")
	as[*loader.StateError](t, err)
	as[*loader.StateError](t, w.events[0].Err)
	w.saw(t, event("Allow", 1))

	none := event("Allow", 0)
	none.Permits = 0
	as[*loader.ArgumentError](t, errOf(log.AllowN(background, "ada", 0)))
	w.saw(t, none)
	none.Method = "Wait"
	as[*loader.ArgumentError](t, log.WaitN(background, "ada", 0))
	w.saw(t, none)

	batch := limits.Batch()
	nothing := batch.Allow(log.With(loader.Limit{}), "ada")
	broken := batch.Allow(log, "ada")
	bad := batch.Allow(log.With(loader.PerSecond(-1)), "ada")
	_, err = batch.Do(background)
	as[*loader.StateError](t, err)
	as[*loader.StateError](t, w.events[1].Err)
	as[*loader.ArgumentError](t, w.events[2].Err)
	if nothing.Err != nil || broken.Err == nil || bad.Err == nil {
		t.Fatal(nothing, broken, bad)
	}
	never := event("Allow", 0)
	never.Decision = loader.Decision{Wait: loader.Never}
	w.saw(t, never, event("Allow", 1), event("Allow", 0))
}

// TestObserverOfLocalAnswers tests decisions that reach no server.
func TestObserverOfLocalAnswers(t *testing.T) {
	w := &watcher{t: t}
	_, rdb := fake(t)
	limits := loader.New(rdb, loader.Observe(w))
	must(t, limits.Preload(background))
	log := limits.ListLog("x", loader.PerMinute(1), loader.RememberDenials(10))
	for range 3 {
		must(t, errOf(log.Allow(background, "s")))
	}
	type ask struct {
		Method   string
		Permits  int64
		Attempts int
	}
	var got []ask
	for _, e := range w.events {
		got = append(got, ask{e.Method, e.Permits, e.Attempts})
	}
	want := []ask{{"Allow", 1, 1}, {"Allow", 1, 1}, {"Allow", 1, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestObserverOfPolicy has a limiter answer for a server that is not asked for long.
func TestObserverOfPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watcher{t: t}
		rdb := failing(serverError("LOADING"))
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb, loader.Observe(w), loader.Breaker(1, time.Hour), loader.Timeout(4*time.Millisecond))
		log := limits.ListLog("x", loader.PerSecond(1), loader.FailOpen(), loader.RememberDenials(9))
		must(t, errOf(log.Allow(background, "s")))
		time.Sleep(4 * time.Millisecond)
		must(t, errOf(log.Allow(background, "s")))
		batch := limits.Batch()
		batch.Allow(log, "s")
		must(t, errOf(batch.Do(background)))
		for i, attempts := range []int{1, 0, 0} {
			if e := w.events[i]; e.Attempts != attempts || !e.Decision.Granted || !e.Decision.Degraded || e.Err != nil {
				t.Errorf("%+v; want %d attempts, and a grant of the fallback", e, attempts)
			}
		}
	})
}

// TestObserverOfAttempts has a server that lacks the script, and then is busy once.
func TestObserverOfAttempts(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			w := &watcher{t: t}
			m, _ := fake(t)
			p := newProxy(t, m.Addr())
			limits := loader.New(client(t, p.addr), append(way.opts, loader.Observe(w))...)
			allow := func() error { return errOf(way.ask(limits, limits.GCRA("x", loader.PerSecond(9)), "s")) }
			must(t, allow())
			if e := w.events[0]; e.Attempts != 2 || !e.Loaded {
				t.Errorf("%+v; want two attempts and the script loaded", e)
			}
			p.next(fault{answer: "-BUSY Redis is busy running a script.\r\n"})
			must(t, allow())
			if e := w.events[1]; e.Attempts != 2 || e.Loaded {
				t.Errorf("%+v; want two attempts and nothing loaded", e)
			}
			m.FlushAll()
			must(t, client(t, m.Addr()).ScriptFlush(background).Err())
			limits = loader.New(client(t, p.addr), append(way.opts, loader.Observe(w), loader.PreloadedOnly())...)
			if err := allow(); !errors.Is(err, loader.ErrNotLoaded) || w.events[2].Loaded {
				t.Errorf("%v, %+v; want an error and nothing loaded", err, w.events[2])
			}
		})
	}
}

// TestObserverOfWait wants one event for all that a Wait does, with the time that it slept apart.
func TestObserverOfWait(t *testing.T) {
	w := &watcher{t: t}
	inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
		must(t, limits.Preload(background))
		log := limits.ListLog("books", loader.PerSecond(1))
		must(t, log.Wait(background, "s"))
		must(t, log.Wait(background, "s"))
		ring := limits.SliceRing("asks", []loader.Limit{loader.PerSecond(1)}, loader.Slice(time.Second))
		must(t, errOf(ring.Allow(background, "s")))
		must(t, ring.Wait(background, "s"))
		soon := within(t, time.Millisecond)
		must(t, log.Wait(soon, "t"))
		as[*loader.WaitError](t, log.Wait(soon, "t"))
	}, loader.Observe(w))
	type wait struct {
		Method   string
		Granted  bool
		Slept    time.Duration
		Attempts int
	}
	var got []wait
	for _, e := range w.events {
		if e.Latency != 0 {
			t.Errorf("latency %v of %+v: in the bubble only sleep takes time", e.Latency, e)
		}
		got = append(got, wait{e.Method, e.Decision.Granted, e.Slept, e.Attempts})
	}
	want := []wait{
		{"Wait", true, 0, 1},
		{"Wait", true, time.Second, 1},
		{"Allow", true, 0, 1},
		{"Wait", true, 1765433 * time.Microsecond, 2},
		{"Wait", true, 0, 1},
		{"Wait", false, 0, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestObserverContext wants the context that Begin made where the command is sent.
func TestObserverContext(t *testing.T) {
	w := &watcher{t: t}
	_, rdb := fake(t)
	limits := loader.New(rdb, loader.Observe(w), loader.Timeout(time.Hour))
	must(t, limits.Preload(background))
	var seen any
	rdb.AddHook(around(func(ctx context.Context, _ []redis.Cmder, send func() error) error {
		seen = ctx.Value(watched{w})
		return send()
	}))
	must(t, limits.ListLog("x", loader.PerSecond(1)).Wait(background, "s"))
	if e, ok := seen.(loader.Event); !ok || e.Subject != "s" {
		t.Errorf("the hooks saw %+v", seen)
	}
}

// TestObservers wants all of several observers told, in their order, each with the context that it made.
func TestObservers(t *testing.T) {
	_, rdb := fake(t)
	first, last := &watcher{t: t}, &watcher{t: t}
	var order []string
	named := func(name string) loader.Option {
		return loader.Observe(loader.ObserverFunc(func(context.Context, loader.Event) { order = append(order, name) }))
	}
	limits := loader.New(rdb, loader.Observe(first), named("a"), loader.Observe(nil), named("b"), loader.Observe(last),
		loader.Observe(loader.ObserverFunc(nil)))
	must(t, errOf(limits.ListLog("x", loader.PerSecond(1)).Allow(background, "s")))
	must(t, errOf(limits.GCRA("x", loader.PerSecond(1)).Allow(background, "s")))
	if len(first.events) != 2 || len(last.events) != 2 || !slices.Equal(order, []string{"a", "b", "a", "b"}) {
		t.Errorf("told %v, %v and %q; want each twice", first.events, last.events, order)
	}
}
