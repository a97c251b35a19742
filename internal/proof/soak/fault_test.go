//go:build unix

package soak

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// fault is one thing that goes wrong.
type fault struct {
	name       string
	begin      func(*attack, *event)
	end        func(*attack, *event)
	server     int  // that it happens to, from 1; 0: one or all, as the seed decides
	anywhere   bool // any caller may see it: it is in their process, or a cluster is not whole
	reconnects bool // new connections work: service has to come back while it lasts

	// late is how much later than within a second service may be back.
	late time.Duration
}

// event is a fault that happens.
type event struct {
	*fault
	number  int
	where   string
	victims map[*site]uint // the servers that it happens to, a bit each
	random  *rand.Rand
	begun   time.Time
	lasts   time.Duration
	ended   atomic.Pointer[time.Time] // nil: not yet
	served  atomic.Pointer[time.Time] // when every row had been served again; nil: not yet
	lost    *loss
}

// hits reports whether the event happens to a server.
func (e *event) hits(s *site, server int) bool { return e.victims[s]&(1<<server) != 0 }

// each calls do for each server that the event happens to.
func (a *attack) each(e *event, do func(s *site, server int)) {
	for _, s := range a.sites {
		for i := range s.servers {
			if e.hits(s, i) {
				do(s, i)
			}
		}
	}
}

// onProxies is a fault of the network, which ends when everything is passed on again. If it reconnects, it is what a
// firewall does that has forgotten its connections.
func onProxies(name string, late time.Duration, reconnects bool, inject func(*event, *redistest.Proxy)) *fault {
	return &fault{
		name: name, late: late, reconnects: reconnects,
		begin: func(a *attack, e *event) {
			a.each(e, func(s *site, i int) { inject(e, s.proxies[i]) })
		},
		end: func(a *attack, e *event) {
			a.each(e, func(s *site, i int) { s.proxies[i].Pass() })
		},
	}
}

// onSwitch is a fault in the callers' process.
func onSwitch(name string, of func(*attack) *atomic.Bool) *fault {
	return &fault{
		name: name, anywhere: true,
		begin: func(a *attack, _ *event) { of(a).Store(true) },
		end:   func(a *attack, _ *event) { of(a).Store(false) },
	}
}

var faults = []*fault{
	onProxies("silence", 0, false, func(_ *event, p *redistest.Proxy) { p.Swallow() }),
	onProxies("silence of old connections", 0, true, func(_ *event, p *redistest.Proxy) { p.SwallowLive() }),
	onProxies("silence of new connections", 0, false, func(_ *event, p *redistest.Proxy) {
		p.SwallowNew()
		p.Disconnect()
	}),
	onProxies("delay", 0, false, func(e *event, p *redistest.Proxy) {
		p.Delay(upTo(e.random, 300*time.Millisecond), upTo(e.random, 300*time.Millisecond))
	}),
	onProxies("cut replies", 0, false, func(e *event, p *redistest.Proxy) { p.CutReplies(e.random.IntN(30)) }),
	onProxies("refused dials", dialsLate, false, func(_ *event, p *redistest.Proxy) {
		p.Refuse()
		p.Disconnect()
	}),
	onSwitch("panicking hooks", func(a *attack) *atomic.Bool { return &a.panicking }),
	onSwitch("cancelled callers", func(a *attack) *atomic.Bool { return &a.cancelling }),
	{
		name:  "memory full",
		begin: func(a *attack, e *event) { a.limitMemory(e, "1") },
		end:   func(a *attack, e *event) { a.limitMemory(e, "0") },
	},
	{
		name:  "SIGSTOP",
		begin: func(a *attack, e *event) { a.signal(e, syscall.SIGSTOP) },
		end:   func(a *attack, e *event) { a.signal(e, syscall.SIGCONT) },
	},
	{
		name:  "restart",
		begin: func(a *attack, e *event) { a.each(e, func(s *site, i int) { s.servers[i].Kill() }) },
		end: func(a *attack, e *event) {
			a.each(e, func(s *site, i int) { s.servers[i].Restart(a.t) })
			for _, s := range a.sites {
				redistest.Await(a.t, s.name+" is whole", s.whole)
			}
		},
	},
}

// dialsLate is how much later service may be back after dials were refused. Once as many have failed as a pool has
// places, go-redis dials once a second only: service is back a call after that.
const dialsLate = 250 * time.Millisecond

func upTo(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}

// limitMemory sets maxmemory. Nothing is evicted.
func (a *attack) limitMemory(e *event, bytes string) {
	a.each(e, func(s *site, i int) {
		must(a.t, s.admins[i].ConfigSet(context.Background(), "maxmemory", bytes).Err())
	})
}

func (a *attack) signal(e *event, signal syscall.Signal) {
	a.each(e, func(s *site, i int) { send(a.t, s.servers[i], signal) })
}

// send sends a signal to a server: SIGSTOP freezes it.
func send(t *testing.T, server *redistest.Server, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(server.PID, signal); err != nil {
		t.Errorf("%v to %s: %v", signal, server.Addr, err)
	}
}

// planted is what hooks panic with.
type planted struct{ where string }

func (p planted) Error() string { return "a hook panicked " + p.where }

// mayPanic panics every third time while hooks are to.
func (a *attack) mayPanic(where string) {
	if a.panicking.Load() && rand.IntN(3) == 0 {
		a.counts.add("panics of hooks", 1)
		panic(planted{where})
	}
}

// hooks are all that an application hangs into a client or a Loader: a hook of go-redis, an Observer and a handler of
// slog. Each of them may panic. They also tell the rows of the client what is given back in the background.
type hooks struct {
	*attack
	rows []*row
}

func (h hooks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hooks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mayPanic("before a command")
		err := next(ctx, cmd)
		h.mayPanic("after a command")
		return err
	}
}

func (h hooks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.mayPanic("before a pipeline")
		err := next(ctx, cmds)
		h.mayPanic("after a pipeline")
		return err
	}
}

func (h hooks) Begin(ctx context.Context, e loader.Event) context.Context {
	h.noteReturn(e, e.Permits)
	h.mayPanic("in Begin")
	return ctx
}

func (h hooks) End(_ context.Context, e loader.Event) {
	if e.Err == nil && e.Returned == e.Permits {
		h.noteReturn(e, -e.Permits)
		h.counts.add("permits given back", e.Returned)
	}
	h.mayPanic("in End")
}

// noteReturn has permits be of unknown outcome while they are given back in the background, and afterwards if that
// has failed.
func (h hooks) noteReturn(e loader.Event, permits int64) {
	for _, r := range h.rows {
		if e.Method == "GiveBack" && r.mode.returns() && e.Limiter == r.limiterName("ledger") {
			r.noteReturn(e.Subject, permits)
		}
	}
}

func (h hooks) Enabled(context.Context, slog.Level) bool { return true }

func (h hooks) Handle(context.Context, slog.Record) error {
	h.mayPanic("in a log")
	return nil
}

func (h hooks) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h hooks) WithGroup(string) slog.Handler      { return h }
