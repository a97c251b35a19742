//go:build unix

package soak

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// fault is one thing that goes wrong.
type fault struct {
	name       string
	begin      func(*attack, *event)
	end        func(*attack, *event)
	inside     bool // it is in the callers' process: all servers are well, and any caller may see it
	reconnects bool // new connections work: service has to come back while it lasts

	// late is how much later than within a second service may be back.
	late time.Duration
}

// event is a fault that happens.
type event struct {
	*fault
	index   int // of the fault
	number  int // of the event
	sites   []*site
	victims map[*site]uint // the servers that it happens to, a bit each
	random  *rand.Rand
	begun   time.Time
	lasts   time.Duration
	ended   atomic.Int64 // when, in nanoseconds since 1970; 0: not yet
	served  atomic.Int64 // when every row had been served again, in the same way
}

// hits reports whether the event happens to a server.
func (e *event) hits(s *site, server int) bool { return e.victims[s]&(1<<server) != 0 }

// each calls do for each server that the event happens to, always in the same order.
func (e *event) each(do func(*redistest.Server, *redistest.Proxy)) {
	for _, s := range e.sites {
		for i, server := range s.servers {
			if e.hits(s, i) {
				do(server, s.proxies[i])
			}
		}
	}
}

// onProxies is a fault of the network, which ends when everything is passed on again.
func onProxies(name string, inject func(*event, *redistest.Proxy)) *fault {
	return &fault{
		name:  name,
		begin: func(_ *attack, e *event) { e.each(func(_ *redistest.Server, p *redistest.Proxy) { inject(e, p) }) },
		end:   func(_ *attack, e *event) { e.each(func(_ *redistest.Server, p *redistest.Proxy) { p.Pass() }) },
	}
}

// onSwitch is a fault in the callers' process.
func onSwitch(name string, of func(*attack) *atomic.Bool) *fault {
	return &fault{
		name: name, inside: true,
		begin: func(a *attack, _ *event) { of(a).Store(true) },
		end:   func(a *attack, _ *event) { of(a).Store(false) },
	}
}

var faults = []*fault{
	onProxies("silence", func(_ *event, p *redistest.Proxy) { p.Swallow() }),
	oldConnections(),
	onProxies("silence of new connections", func(_ *event, p *redistest.Proxy) {
		p.SwallowNew()
		p.Disconnect()
	}),
	onProxies("delay", func(e *event, p *redistest.Proxy) {
		p.Delay(upTo(e.random, 300*time.Millisecond), upTo(e.random, 300*time.Millisecond))
	}),
	onProxies("cut replies", func(e *event, p *redistest.Proxy) { p.CutReplies(e.random.IntN(30)) }),
	refusedDials(),
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
		begin: func(_ *attack, e *event) { e.each(func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }) },
		end: func(a *attack, e *event) {
			e.each(func(s *redistest.Server, _ *redistest.Proxy) { s.Restart(a.t) })
			for s := range e.victims {
				redistest.Await(a.t, s.name+" is whole", s.whole)
			}
		},
	},
}

// refusedDials closes the ports. Once as many dials have failed as a pool has places, go-redis dials once a second
// only: service is back a call after that.
func refusedDials() *fault {
	f := onProxies("refused dials", func(_ *event, p *redistest.Proxy) {
		p.Refuse()
		p.Disconnect()
	})
	f.late = 250 * time.Millisecond
	return f
}

// oldConnections is what a firewall does that has forgotten its connections.
func oldConnections() *fault {
	f := onProxies("silence of old connections", func(_ *event, p *redistest.Proxy) { p.SwallowLive() })
	f.reconnects = true
	return f
}

func upTo(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}

// limitMemory sets maxmemory. Nothing is evicted.
func (a *attack) limitMemory(e *event, bytes string) {
	for _, s := range e.sites {
		for i, admin := range s.admins {
			if e.hits(s, i) {
				must(a.t, admin.ConfigSet(context.Background(), "maxmemory", bytes).Err())
			}
		}
	}
}

func (a *attack) signal(e *event, signal syscall.Signal) {
	e.each(func(s *redistest.Server, _ *redistest.Proxy) {
		if err := syscall.Kill(s.PID, signal); err != nil {
			a.t.Errorf("%v to %s: %v", signal, s.Addr, err)
		}
	})
}

// planted is what hooks panic with.
type planted struct{ where string }

func (p planted) Error() string { return "a hook panicked " + p.where }

// mayPanic panics every third time while hooks are to.
func (a *attack) mayPanic(where string) {
	if a.panicking.Load() && rand.IntN(3) == 0 {
		a.panics.Add(1)
		panic(planted{where})
	}
}

// panickingHook is a hook of a client that panics before a command is sent or after it was answered.
type panickingHook struct{ *attack }

func (h panickingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h panickingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.countMany(cmd)
		h.mayPanic("before a command")
		err := next(ctx, cmd)
		h.mayPanic("after a command")
		return err
	}
}

func (h panickingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.countMany(cmds...)
		h.mayPanic("before a pipeline")
		err := next(ctx, cmds)
		h.mayPanic("after a pipeline")
		return err
	}
}

// countMany counts the commands for many keys.
func (a *attack) countMany(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		words := cmd.Args()
		if len(words) > 1 && (words[1] == sluice.GCRAManyV1SHA1 || words[1] == sluice.ListLogManyV1SHA1) {
			a.many.Add(1)
		}
	}
}

// panickingObserver is an Observer that panics.
type panickingObserver struct{ *attack }

func (o panickingObserver) Begin(ctx context.Context, e loader.Event) context.Context {
	noteReturn(ctx, e, e.Permits)
	o.mayPanic("in Begin")
	return ctx
}

func (o panickingObserver) End(ctx context.Context, e loader.Event) {
	if e.Err == nil && e.Returned == e.Permits {
		noteReturn(ctx, e, -e.Permits)
		o.returned.Add(e.Returned)
	}
	o.mayPanic("in End")
}

// panickingHandler is a slog handler that panics and logs nothing.
type panickingHandler struct{ *attack }

func (h panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h panickingHandler) Handle(context.Context, slog.Record) error {
	h.mayPanic("in a log")
	return nil
}

func (h panickingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h panickingHandler) WithGroup(string) slog.Handler      { return h }
