package loader_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestWaitReturnsItsOwn has three wait for the same moment, and one of them end early: its permit is free for one
// other, and the two who stay are served in time.
func TestWaitReturnsItsOwn(t *testing.T) {
	for _, m := range makers[:2] {
		t.Run(m.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, limits *loader.Loader) {
				limiter := m.make(limits, loader.Limit{Permits: 3, Window: 10 * time.Second})
				wantGrant(t, limiter, "s", 3)
				started := time.Now()
				served := make(chan time.Duration, 5)
				wait := func(ctx context.Context) {
					if limiter.Wait(ctx, "s") == nil {
						served <- time.Since(started)
					}
				}
				early, cancel := context.WithCancel(background)
				for _, ctx := range []context.Context{background, early, background} {
					go wait(ctx)
				}
				time.Sleep(3 * time.Second)
				cancel()
				time.Sleep(time.Millisecond)
				must(t, limits.Flush(background))
				go wait(background) // takes its place
				time.Sleep(time.Millisecond)
				go wait(background) // there is only one
				for _, want := range []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 20 * time.Second} {
					if got := <-served; got != want {
						t.Errorf("served after %v, want %v", got, want)
					}
				}
			})
		})
	}
}

// slowness is how long decisions and returns are on their way, and how many are.
type slowness struct{ delay, sending atomic.Int64 }

// slowConn is a connection on which they are on their way for a while.
type slowConn struct {
	net.Conn
	*slowness
}

func (c slowConn) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("evalsha")) {
		c.sending.Add(1)
		time.Sleep(time.Duration(c.delay.Load()))
		c.sending.Add(-1)
	}
	return c.Conn.Write(b)
}

// slowly makes a Loader whose decisions and returns are on their way for a while.
func slowly(t *testing.T, opts ...loader.Option) (limits, direct *loader.Loader, slow *slowness) {
	server := redistest.Start(t)
	slow = &slowness{}
	opt := options(server.Addr)
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return slowConn{conn, slow}, err
	}
	rdb := clientOf(t, opt)
	limits, direct = loader.New(rdb, opts...), loader.New(client(t, server.Addr))
	must(t, direct.Preload(background))
	must(t, rdb.Ping(background).Err()) // no call has to dial
	return limits, direct, slow
}

// TestWaitCancelledInFlight has a Wait cancelled while its decision is on the way to the server: it is given back when
// its reply has arrived, not before.
func TestWaitCancelledInFlight(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		eachReturner(t, func(t *testing.T, m making) {
			w := &watcher{t: t}
			limits, direct, slow := slowly(t, append(opts, loader.Observe(w))...)
			limiter, peek := m.make(limits, loader.PerHour(3)), m.make(direct, loader.PerHour(3))
			slow.delay.Store(int64(400 * time.Millisecond))
			e := as[*loader.OutcomeUnknownError](t, limiter.WaitN(within(t, 50*time.Millisecond), "s", 2))
			if (e.ID != "") != (m.name == "ZSetLog") {
				t.Errorf("the caller is told the id %q", e.ID)
			}
			await(t, func() bool { return charged(t, peek, "s", 3) == 2 })
			must(t, limits.Flush(background))
			wantRemaining(t, peek, "s", 3)
			if n := len(w.events); n != 2 || w.events[1].Method != "GiveBack" || w.events[1].Returned != 2 {
				t.Errorf("%+v", w.events)
			}
		})
	})
}

// TestAheadWaitCancelledInFlight is TestWaitCancelledInFlight for an Ahead whose first question is on its way.
func TestAheadWaitCancelledInFlight(t *testing.T) {
	limits, direct, slow := slowly(t)
	ring := func(l *loader.Loader) loader.SliceRing { return l.SliceRing("x", []loader.Limit{loader.PerHour(100)}) }
	a, err := ring(limits).Ahead(loader.AheadOptions{Processes: 1, Error: 0.5})
	must(t, err)
	slow.delay.Store(int64(400 * time.Millisecond))
	as[*loader.OutcomeUnknownError](t, a.WaitN(within(t, 50*time.Millisecond), "s", 2))
	await(t, func() bool { return charged(t, ring(direct), "s", 100) == 2 })
	must(t, limits.Flush(background))
	wantRemaining(t, ring(direct), "s", 100)
	must(t, a.Close(background))
	wantRemaining(t, ring(direct), "s", 100)
}

// charged returns how many permits of the limit are in use.
func charged(t *testing.T, limiter loader.Limiter, subject string, limit int64) int64 {
	t.Helper()
	d, err := limiter.Peek(background, subject)
	must(t, err)
	return limit - d.Remaining
}

// TestWaitGroupLeaves has callers of one command leave while it is on the way, some or all of them: what is granted to
// these is given back, and what the others use is not.
func TestWaitGroupLeaves(t *testing.T) {
	for _, leave := range []int{1, 5, 8} {
		t.Run(strconv.Itoa(leave), func(t *testing.T) {
			limits, direct, slow := slowly(t, loader.Timeout(never))
			ring := func(l *loader.Loader) loader.SliceRing { return l.SliceRing("x", []loader.Limit{loader.PerHour(100)}) }
			wantGrant(t, ring(limits), "s", 1)
			slow.delay.Store(int64(400 * time.Millisecond))
			var all sync.WaitGroup
			for i := range 2 { // the pipelines in flight, behind which the others are collected
				all.Go(func() { must(t, ring(limits).Wait(background, strconv.Itoa(i))) })
				await(t, func() bool { return slow.sending.Load() == int64(i+1) })
			}
			var used atomic.Int64
			for i := range 8 {
				ctx := background
				if i < leave {
					ctx = within(t, 600*time.Millisecond)
				}
				all.Go(func() {
					if ring(limits).Wait(ctx, "s") == nil {
						used.Add(1)
					}
				})
			}
			all.Wait()
			must(t, limits.Flush(background))
			if n := charged(t, ring(direct), "s", 100); n != 1+used.Load() || used.Load() != int64(8-leave) {
				t.Errorf("%d are charged and %d used, want %d", n-1, used.Load(), 8-leave)
			}
		})
	}
}

// TestWaitWithoutReply has the reply to a Wait never come: without an id nothing can be given back.
func TestWaitWithoutReply(t *testing.T) {
	for _, lost := range []fault{{dropReply: true}, {silence: true}} {
		p, rdb, direct := lossy(t)
		limits := loader.New(rdb)
		p.next(lost)
		as[*loader.OutcomeUnknownError](t, limits.ListLog("x", loader.PerHour(3)).Wait(within(t, time.Second), "s"))
		must(t, limits.Flush(background))
		if n := direct.LLen(background, "sluice:x:{s}:ll1").Val(); n != 1 || p.seen.Load() != 1 {
			t.Errorf("%+v: %d are charged by %d commands, want 1", lost, n, p.seen.Load())
		}
	}
}
