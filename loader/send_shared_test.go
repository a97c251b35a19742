package loader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// come has callers ask, one after the other, each in its own goroutine.
func come(limiter loader.Limiter, done *atomic.Int64, subjects ...string) {
	for _, subject := range subjects {
		go func() {
			if d, err := limiter.Allow(background, subject); err == nil && d.Granted {
				done.Add(1)
			}
		}()
		synctest.Wait()
	}
}

func keysOf(subjects ...string) []string {
	keys := make([]string, len(subjects))
	for i, subject := range subjects {
		keys[i] = "sluice:x:{" + subject + "}:gcra1"
	}
	return keys
}

// TestSharedRoundTrips has callers come while two round trips are on their way: they share the next.
func TestSharedRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limiter := loader.New(rdb).GCRA("x", loader.PerMinute(5))
		var done atomic.Int64
		come(limiter, &done, "a", "b")
		first, second := s.next(), s.next()
		if first == nil || second == nil || first.piped || second.piped {
			t.Fatalf("the first two did not go at once: %+v, %+v", first, second)
		}
		come(limiter, &done, "c", "d", "e")
		if j := s.next(); j != nil {
			t.Fatalf("a third went: %+v", j)
		}
		second.answer <- nil
		third := s.next()
		if third == nil || !third.piped || !slices.Equal(third.keys, keysOf("c", "d", "e")) {
			t.Fatalf("%+v, want a pipeline of three", third)
		}
		if n := done.Load(); n != 1 {
			t.Errorf("%d have returned, want 1", n)
		}
		third.answer <- nil
		first.answer <- nil
		synctest.Wait()
		if n := done.Load(); n != 5 {
			t.Errorf("%d have returned, want 5", n)
		}
		come(limiter, &done, "f")
		if j := s.next(); j == nil || j.piped {
			t.Errorf("alone again, it did not go at once: %+v", j)
		} else {
			j.answer <- nil
		}
	})
}

// TestSharedAll has the parts of an All share a round trip with another caller.
func TestSharedAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limits := loader.New(rdb)
		limiter := limits.GCRA("x", loader.PerMinute(5))
		var done atomic.Int64
		come(limiter, &done, "a", "b")
		first, second := s.next(), s.next()
		go func() {
			all := limits.All()
			for _, name := range []string{"y", "z"} {
				all.Allow(limits.ListLog(name, loader.PerMinute(5)), "c")
			}
			if d, err := all.Do(background); err == nil && d.Granted {
				done.Add(1)
			}
		}()
		synctest.Wait()
		come(limiter, &done, "d")
		first.answer <- nil
		third := s.next()
		if want := []string{"sluice:y:{c}:ll1", "sluice:z:{c}:ll1", "sluice:x:{d}:gcra1"}; third == nil ||
			!slices.Equal(third.keys, want) {
			t.Fatalf("%+v, want a pipeline of %q", third, want)
		}
		second.answer <- nil
		third.answer <- nil
		synctest.Wait()
		if n := done.Load(); n != 4 {
			t.Errorf("%d have returned, want 4", n)
		}
	})
}

// TestSharedAlone has a caller find nothing on its way: the client's hooks see its own context, and if the client keeps
// deadlines, it gets the reply although it has left. The next one's call is made for it.
func TestSharedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		rdb.Options().ContextTimeoutEnabled = true
		limiter := loader.New(rdb, loader.Timeout(never)).GCRA("x", loader.PerMinute(5))
		ctx, leave := context.WithCancel(context.WithValue(background, s, "mine"))
		errs := make(chan error, 2)
		for _, subject := range []string{"a", "b"} {
			go func() { errs <- errOf(limiter.Allow(ctx, subject)) }()
			synctest.Wait()
		}
		alone, collected := s.next(), s.next()
		if alone.ctx.Value(s) != "mine" || collected.ctx.Value(s) != nil {
			t.Error("a call by itself has another context, or a collected one its caller's")
		}
		leave()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) || len(errs) > 0 {
			t.Errorf("%v, and %d others have returned", err, len(errs))
		}
		alone.answer <- nil
		must(t, <-errs)
		collected.answer <- nil
	})
}

// TestSharedPipelinesAreBounded has more callers than one pipeline takes.
func TestSharedPipelinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limiter := loader.New(rdb).GCRA("x", loader.PerMinute(5))
		var done atomic.Int64
		const many = 600
		for i := range many {
			come(limiter, &done, fmt.Sprint(i))
		}
		for _, want := range []int{1, 1, 256, 256, 600 - 2 - 512} {
			j := s.next()
			if j == nil || len(j.keys) != want {
				t.Fatalf("%+v, want %d keys", j, want)
			}
			go func() { j.answer <- nil }()
		}
		synctest.Wait()
		if n := done.Load(); n != many {
			t.Errorf("%d have returned, want %d", n, many)
		}
	})
}

// TestSharedContextEnds has callers leave before their decision has left, and after.
func TestSharedContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limits := loader.New(rdb, loader.Timeout(never))
		limiter := limits.GCRA("x", loader.PerMinute(5))
		ctx := within(t, time.Second)
		var done atomic.Int64
		errs := make(chan error, 2)
		go func() { errs <- errOf(limiter.Allow(ctx, "on its way")) }()
		first := s.next()
		come(limiter, &done, "b")
		other := s.next()
		come(limiter, &done, "c")
		go func() { errs <- errOf(limiter.Allow(ctx, "waiting")) }()
		synctest.Wait()
		come(limiter, &done, "d")

		started := time.Now()
		var left, unknown int
		for range 2 {
			err := <-errs
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			left++
			if e, ok := errors.AsType[*loader.OutcomeUnknownError](err); ok {
				unknown++
				if !slices.Equal(e.Keys, keysOf("on its way")) {
					t.Errorf("unknown is %q", e.Keys)
				}
			}
		}
		if elapsed := time.Since(started); elapsed != time.Second || unknown != 1 {
			t.Errorf("%d left after %v, %d of unknown outcome", left, elapsed, unknown)
		}
		first.answer <- nil
		if j := s.next(); j == nil || !slices.Equal(j.keys, keysOf("c", "d")) {
			t.Errorf("%+v was sent for someone who had left", j)
		} else {
			j.answer <- nil
		}
		other.answer <- nil
		synctest.Wait()
		if n := done.Load(); n != 3 {
			t.Errorf("%d have returned, want 3", n)
		}
	})
}

// TestSharedPipelineFails gives the error of a pipeline that did not leave to all in it.
func TestSharedPipelineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limiter := loader.New(rdb).GCRA("x", loader.PerMinute(5))
		var done atomic.Int64
		come(limiter, &done, "a", "b")
		first, other := s.next(), s.next()
		errs := make(chan error, 2)
		for _, subject := range []string{"c", "d"} {
			go func() { errs <- errOf(limiter.Allow(background, subject)) }()
		}
		synctest.Wait()
		first.answer <- nil
		broken := errors.New("a hook says no")
		s.next().answer <- []any{broken, broken}
		for range 2 {
			if err := <-errs; !errors.Is(err, broken) {
				t.Error(err)
			}
		}
		other.answer <- nil
	})
}

// TestSharedLostReplies loses round trips of many callers: none is charged twice.
func TestSharedLostReplies(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb)
	const callers = 20
	lose := func(limiter loader.Limiter) (grants, unknown int64) {
		var granted, lost atomic.Int64
		p.next(fault{dropReply: true}, fault{}, fault{dropReply: true})
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				d, err := limiter.Allow(background, "s")
				switch {
				case errors.Is(err, loader.ErrOutcomeUnknown):
					lost.Add(1)
				case err == nil && d.Granted:
					granted.Add(1)
				}
			})
		}
		all.Wait()
		return granted.Load(), lost.Load()
	}
	grants, unknown := lose(limits.ListLog("x", loader.PerHour(50)))
	if n := direct.LLen(background, "sluice:x:{s}:ll1").Val(); n != callers || grants+unknown != callers || unknown < 1 {
		t.Errorf("charged %d times for %d calls: %d granted, %d unknown", n, callers, grants, unknown)
	}
	grants, unknown = lose(limits.ZSetLog("x", loader.PerHour(50)))
	if n := direct.ZCard(background, "sluice:x:{s}:zl1").Val(); n != callers || grants != callers || unknown != 0 {
		t.Errorf("with ids: charged %d times for %d calls: %d granted, %d unknown", n, callers, grants, unknown)
	}
}

// TestSharedNodesAreApart has one of two shards keep its replies: the other is asked all the same.
func TestSharedNodesAreApart(t *testing.T) {
	servers := []string{redistest.Start(t).Addr, redistest.Start(t).Addr}
	p := newProxy(t, servers[1])
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": servers[0], "b": p.addr}, DisableIdentity: true, ReadTimeout: 10 * time.Second,
	})
	t.Cleanup(func() { _ = ring.Close() })
	for _, addr := range servers {
		must(t, loader.New(client(t, addr)).Preload(background))
	}
	limits := loader.New(ring, loader.Timeout(never))
	log := limits.ListLog("x", loader.PerHour(5))
	var on [2][]string
	for i := range 40 {
		subject := fmt.Sprint(i)
		shard, err := ring.GetShardClientForKey("{" + subject + "}")
		must(t, err)
		n := 0
		if shard.Options().Addr == p.addr {
			n = 1
		}
		on[n] = append(on[n], subject)
	}
	p.next(slices.Repeat([]fault{{silence: true}}, 40)...)
	ctx, cancel := context.WithCancel(background)
	var silent sync.WaitGroup
	for i, subject := range on[1] {
		silent.Go(func() {
			if err := errOf(log.Allow(ctx, subject)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		await(t, func() bool { return p.seen.Load() >= int64(min(i+1, 2)) }) // all that may be on their way
	}
	for _, subject := range on[0] {
		wantGrant(t, log, subject, 1)
	}
	cancel()
	silent.Wait()
}

// TestSharedQueueIsBounded has a server that does not answer any more and callers who come and go: what no caller waits
// for leaves the queue, and the goroutines end.
func TestSharedQueueIsBounded(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	opt := options(proxy.Addr)
	opt.ContextTimeoutEnabled = true
	rdb := clientOf(t, opt)
	must(t, loader.New(rdb, loader.Timeout(never)).Preload(background))
	limits := loader.New(rdb, loader.Timeout(50*time.Millisecond))
	limiter := limits.GCRA("x", loader.PerHour(1000))
	before := runtime.NumGoroutine()
	proxy.Swallow()
	for round := range 5 {
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() { _ = errOf(limiter.Allow(background, fmt.Sprint(i%40, round))) })
		}
		all.Wait()
		if n := limits.SharedRequests(); n > 300 {
			t.Fatalf("%d requests in the queues, want those of one round at most", n)
		}
	}
	await(t, func() bool { return limits.SharedRequests() == 0 })
	proxy.Pass()
	await(t, func() bool { return errOf(limiter.Allow(background, "s")) == nil })
	await(t, func() bool { return runtime.NumGoroutine() < before+20 }) // the proxy has some for each connection
}

// TestSharingForgetsNodes: in a cluster they come and go.
func TestSharingForgetsNodes(t *testing.T) {
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": "127.0.0.1:1"}, DialerRetries: 1, MaxRetries: -1, HeartbeatFrequency: time.Minute,
	})
	defer func() { _ = rdb.Close() }()
	limits := loader.New(rdb)
	if _, err := limits.GCRA("x", loader.PerMinute(1)).Allow(context.Background(), "s"); err == nil {
		t.Fatal("there is a server")
	}
	redistest.Await(t, "no queue is left", func() bool { return limits.SharedQueues() == 0 })
}

// TestSharedSlowRoundTrips has round trips take longer than an eighth of the timeout: callers wait no longer for theirs
// to begin, those of one subject neither, and nobody is forgotten.
func TestSharedSlowRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limiter := loader.New(rdb, loader.Timeout(800*time.Millisecond)).GCRA("x", loader.PerMinute(5))
		var done atomic.Int64
		come(limiter, &done, "a", "b")
		trips := []*trip{s.next(), s.next()}
		for _, subject := range []string{"c", "d", "d"} {
			come(limiter, &done, subject)
			if j := s.next(); j != nil {
				t.Fatalf("%+v, before two others are slow", j)
			}
			time.Sleep(100 * time.Millisecond)
			j := s.next()
			if j == nil || !slices.Equal(j.keys, keysOf(subject)) {
				t.Fatalf("%+v, want %s", j, subject)
			}
			trips = append(trips, j)
		}
		come(limiter, &done, "d", "d", "d")
		time.Sleep(100 * time.Millisecond)
		if trips = append(trips, s.next()); trips[5] == nil {
			t.Fatal("nothing is asked for three")
		}
		time.Sleep(200 * time.Millisecond) // it is slow too, when it leaves two without an answer
		for _, j := range trips {
			j.answer <- nil
			synctest.Wait()
		}
		for j := s.next(); j != nil; j = s.next() {
			j.answer <- nil
		}
		if n := done.Load(); n != 8 {
			t.Errorf("%d have returned, want 8", n)
		}
	})
}
