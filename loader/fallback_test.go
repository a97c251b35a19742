package loader_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// patient is how long the clients of these tests wait for a reply: a call that is not bounded by its context or by
// Timeout does not end before the tests are killed.
const patient = 24 * time.Hour

// soon is how long a call may take in trouble.
const soon = 20 * time.Millisecond

// troubled is a server with a proxy in front of it, whose place another may take.
type troubled struct {
	proxy  *proxy
	server atomic.Pointer[redistest.Server]
	rdb    *redis.Client // by the proxy, or directly: dials who serves now
	admin  *redis.Client // of the first server
}

func newTroubled(t *testing.T, direct bool) *troubled {
	t.Helper()
	server := redistest.Start(t)
	tr := &troubled{proxy: newProxy(t, server.Addr), admin: client(t, server.Addr)}
	tr.server.Store(server)
	opt := options(tr.proxy.addr)
	opt.ReadTimeout = patient
	if direct {
		opt.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, tr.server.Load().Addr)
		}
	}
	tr.rdb = clientOf(t, opt)
	must(t, loader.New(tr.admin).Preload(background))
	return tr
}

// troubles are the ways in which Redis cannot decide. Each returns how it ends.
var troubles = []struct {
	name   string
	direct bool // without the proxy
	begin  func(t *testing.T, tr *troubled) (end func())
}{
	{"killed", true, func(t *testing.T, tr *troubled) func() {
		must(t, syscall.Kill(tr.server.Load().PID, syscall.SIGKILL))
		return func() { tr.server.Store(redistest.Start(t)) }
	}},
	{"stopped", true, func(t *testing.T, tr *troubled) func() {
		must(t, syscall.Kill(tr.server.Load().PID, syscall.SIGSTOP))
		return func() { must(t, syscall.Kill(tr.server.Load().PID, syscall.SIGCONT)) }
	}},
	{"full", true, func(t *testing.T, tr *troubled) func() {
		must(t, tr.admin.ConfigSet(background, "maxmemory-policy", "noeviction").Err())
		must(t, tr.admin.ConfigSet(background, "maxmemory", "1").Err())
		return func() { must(t, tr.admin.ConfigSet(background, "maxmemory", "0").Err()) }
	}},
	{"read-only", true, func(t *testing.T, tr *troubled) func() {
		must(t, tr.admin.Do(background, "replicaof", "127.0.0.1", 1).Err())
		return func() { must(t, tr.admin.Do(background, "replicaof", "no", "one").Err()) }
	}},
	{"loading", true, beginLoading},
	{"replies kept", false, always(fault{silence: true})},
	{"replies late", false, always(fault{late: 5 * soon})},
	{"requests cut", false, always(fault{dropRequest: true})},
	{"replies dropped", false, always(fault{dropReply: true})},
}

// always does the same with all decisions.
func always(f fault) func(t *testing.T, tr *troubled) func() {
	return func(_ *testing.T, tr *troubled) func() {
		tr.proxy.next(slices.Repeat([]fault{f}, 10000)...)
		return func() {
			tr.proxy.next()
			tr.proxy.hangUp() // on those who wait for a reply that was kept
		}
	}
}

// hangUp ends all connections.
func (p *proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.held {
		_ = conn.Close()
	}
	p.held = nil
}

// beginLoading has a server in place of the first read its data, a millisecond a key, and answer in between.
func beginLoading(t *testing.T, tr *troubled) func() {
	server := redistest.Start(t, "--enable-debug-command", "yes", "--rdbcompression", "no",
		"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	must(t, syscall.Kill(tr.server.Swap(server).PID, syscall.SIGKILL))
	opt := options(server.Addr)
	opt.ReadTimeout, opt.MaxRetries = patient, -1
	admin := clientOf(t, opt)
	must(t, loader.New(admin).Preload(background))
	must(t, admin.Do(background, "debug", "populate", 30000, "key", 1100).Err())
	go admin.Do(background, "debug", "reload")
	await(t, func() bool {
		err := admin.Get(background, "key:1").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	return func() { must(t, admin.ConfigSet(background, "key-load-delay", "0").Err()) }
}

// way is one way to ask.
type way struct {
	name  string
	opts  []loader.Option
	ask   func(limits *loader.Loader, limiter loader.Limiter, subject string) (loader.Decision, error)
	piped bool // with others in a pipeline
}

var ways = []way{
	{name: "alone", opts: []loader.Option{loader.WithoutSharing()}, ask: alone},
	{name: "batch", ask: func(limits *loader.Loader, limiter loader.Limiter, subject string) (loader.Decision, error) {
		batch := limits.Batch()
		result := batch.Allow(limiter, subject)
		_, err := batch.Do(background)
		return result.Decision, err
	}},
	{name: "shared", ask: alone},
}

// allWays are the ways, and a batch that is sent as a pipeline.
var allWays = append(ways[:len(ways):len(ways)], way{
	name: "pipeline", piped: true,
	ask: func(limits *loader.Loader, limiter loader.Limiter, subject string) (loader.Decision, error) {
		batch := limits.Batch()
		result := batch.Allow(limiter, subject)
		batch.Peek(limiter, subject+"/other")
		_, err := batch.Do(background)
		return result.Decision, err
	},
})

func alone(_ *loader.Loader, limiter loader.Limiter, subject string) (loader.Decision, error) {
	return limiter.Allow(background, subject)
}

// TestFallbacks has Redis fail in every way, and asks by every fallback, limiter and way. Each subject is asked about
// once, and charged once at most when Redis is back.
func TestFallbacks(t *testing.T) {
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			tr := newTroubled(t, trouble.direct)
			must(t, tr.rdb.Ping(background).Err())
			end := trouble.begin(t, tr)
			for _, way := range ways {
				limits := loader.New(tr.rdb, append(way.opts, loader.Timeout(soon))...)
				for _, m := range makers {
					ask := func(fallback string, opts ...loader.LimiterOption) (loader.Decision, error) {
						limiter := m.make(limits, loader.PerHour(4), opts...)
						return way.ask(limits, limiter, fallback+way.name)
					}
					if d, err := ask("closed"); err == nil || !cmp.Equal(d, loader.Decision{}) {
						t.Errorf("%s, %s, closed: %+v, %v; want an error", m.name, way.name, d, err)
					}
					d, err := ask("open", loader.FailOpen())
					want := loader.Decision{Granted: true, Remaining: 4, Degraded: true, Limit: loader.PerHour(4), Cause: d.Cause}
					if !cmp.Equal(d, want, ofGrants, cmpopts.EquateErrors()) || d.Cause == nil || err != nil {
						t.Errorf("%s, %s, open: %+v, %v; want %+v", m.name, way.name, d, err, want)
					}
					d, err = ask("local", loader.FailLocal(0.5))
					if !d.Granted || !d.Degraded || d.Remaining != 1 || err != nil {
						t.Errorf("%s, %s, local: %+v, %v; want the first of two", m.name, way.name, d, err)
					}
				}
			}
			end()
			for _, m := range makers {
				limits := loader.New(tr.rdb, loader.Timeout(never))
				limiter := m.make(limits, loader.PerHour(4), loader.FailOpen())
				await(t, func() bool {
					ctx := within(t, time.Second)
					d, err := limiter.Allow(ctx, "after "+m.name)
					return err == nil && !d.Degraded
				})
				for _, way := range ways {
					for _, fallback := range []string{"closed", "open", "local"} {
						d, err := limiter.Peek(background, fallback+way.name)
						if err != nil || d.Degraded || d.Remaining < 3 {
							t.Errorf("%s, %s, %s: %+v, %v; want one charge at most", m.name, way.name, fallback, d, err)
						}
					}
				}
			}
		})
	}
}

// TestFallbacksKeepDeadlines bounds a call by the caller's deadline instead of Timeout.
func TestFallbacksKeepDeadlines(t *testing.T) {
	tr := newTroubled(t, false)
	always(fault{silence: true})(t, tr)
	limiter := loader.New(tr.rdb).ListLog("x", loader.PerHour(4), loader.FailOpen())
	ctx := within(t, soon)
	d, err := limiter.Allow(ctx, "s")
	if err != nil || !d.Granted || !d.Degraded {
		t.Errorf("%+v, %v; want it granted by the fallback", d, err)
	}
	if d, err = limiter.Allow(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %+v, %v; want no answer", d, err)
	}
	limits := loader.New(tr.rdb)
	batch := limits.Batch()
	result := batch.Allow(limits.ListLog("x", loader.PerHour(4), loader.FailOpen()), "s")
	if _, err := batch.Do(ctx); !errors.Is(err, context.DeadlineExceeded) || result.Granted {
		t.Errorf("a batch after the deadline: %+v; want no answer", result)
	}
}

// TestFallbacksDoNotAnswer has errors that are the caller's, and denials.
func TestFallbacksDoNotAnswer(t *testing.T) {
	tr := newTroubled(t, false)
	limits := loader.New(tr.rdb, loader.Timeout(never))
	cancelled, cancel := context.WithCancel(background)
	cancel()
	for name, fallback := range map[string]loader.LimiterOption{"open": loader.FailOpen(), "local": loader.FailLocal(1)} {
		log := limits.ListLog(name, loader.PerHour(4), fallback)
		bucket := limits.TokenBucket(name, loader.PerHour(4), fallback)
		must(t, tr.admin.Set(background, "sluice:"+name+":{bad}:ll1", "x", 0).Err())
		calls := map[string]func() (loader.Decision, error){
			"state": func() (loader.Decision, error) { return log.Allow(background, "bad") },
			"argument": func() (loader.Decision, error) {
				return log.With(loader.Limit{Permits: 1, Window: 1}).Allow(background, "s")
			},
			"range":      func() (loader.Decision, error) { return log.With(loader.PerHour(1e9)).Allow(background, "s") },
			"subject":    func() (loader.Decision, error) { return log.Allow(background, "") },
			"permits":    func() (loader.Decision, error) { return log.AllowN(background, "s", 0) },
			"above":      func() (loader.Decision, error) { return log.AllowN(background, "s", 5) },
			"above rate": func() (loader.Decision, error) { return bucket.AllowN(background, "s", 5) },
			"cancelled":  func() (loader.Decision, error) { return log.Allow(cancelled, "s") },
			"cancelled while it waits": func() (loader.Decision, error) {
				tr.proxy.next(fault{silence: true})
				ctx, cancel := context.WithCancel(background)
				time.AfterFunc(soon, cancel)
				return log.Allow(ctx, "s")
			},
		}
		for what, call := range calls {
			if d, err := call(); err == nil || d.Degraded {
				t.Errorf("%s, %s: %+v, %v; want the error", name, what, d, err)
			}
		}
		tr.proxy.next(slices.Repeat([]fault{{dropRequest: true}}, 10)...)
		if d, err := log.With(loader.Limit{}).Allow(background, "s"); err != nil || d.Granted || d.Degraded {
			t.Errorf("%s, limit 0: %+v, %v; want a plain denial", name, d, err)
		}
		tr.proxy.next()
	}
}

// TestPolicyWithoutScript has a Redis that has lost its scripts, and may not be given them.
func TestPolicyWithoutScript(t *testing.T) {
	rdb := real(t)
	limiter := loader.New(rdb, loader.PreloadedOnly()).GCRA("x", loader.PerHour(4), loader.FailOpen())
	d, err := limiter.Allow(background, "s")
	if err != nil || !d.Granted || !d.Degraded {
		t.Errorf("%+v, %v; want it granted by the fallback", d, err)
	}
}

// TestUnknownOutcomeIsChargedOnce has the reply to each decision dropped: the fallback answers, and the charge that
// Redis made stays the only one.
func TestUnknownOutcomeIsChargedOnce(t *testing.T) {
	tr := newTroubled(t, false)
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(loader.New(tr.rdb, loader.Timeout(never)), loader.PerHour(4), loader.FailOpen())
		end := always(fault{dropReply: true})(t, tr)
		d, err := limiter.Allow(background, "s")
		end()
		if err != nil || !d.Granted || !d.Degraded {
			t.Errorf("%+v, %v; want it granted by the fallback", d, err)
		}
		wantRemaining(t, limiter, "s", 3)
	})
}

func TestFailOpenWaitsForNothing(t *testing.T) {
	tr := newTroubled(t, false)
	limiter := loader.New(tr.rdb, loader.Timeout(never)).ZSetLog("x", loader.PerHour(4), loader.FailOpen())
	must(t, limiter.WaitN(background, "s", 4))
	end := always(fault{dropRequest: true})(t, tr)
	must(t, limiter.Wait(background, "s"))
	r, err := limiter.ReserveN(background, "s", 2)
	if err != nil || !r.OK() || r.Delay() != 0 || !r.Decision().Degraded {
		t.Fatalf("%+v, %v; want it granted at once", r, err)
	}
	d, err := limiter.Peek(background, "s")
	want := loader.Decision{Remaining: 4, Degraded: true, Limit: loader.PerHour(4), Cause: d.Cause}
	if !cmp.Equal(d, want, cmpopts.EquateErrors()) || d.Cause == nil || err != nil {
		t.Errorf("a look: %+v, %v; want %+v", d, err, want)
	}
	end()
	must(t, r.Cancel(background)) // it gives back what it may have been charged
	wantRemaining(t, limiter, "s", 0)
}
