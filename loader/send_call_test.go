package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestFlushInBetween flushes the scripts right before each of the first EVALSHAs or pipelines.
func TestFlushInBetween(t *testing.T) {
	for _, way := range allWays {
		t.Run(way.name, func(t *testing.T) {
			rdb := real(t)
			other := client(t, rdb.Options().Addr)
			flushes := 0
			flush := func() {
				if flushes > 0 {
					flushes--
					must(t, other.ScriptFlush(background).Err())
				}
			}
			rdb.AddHook(hook{
				before: func(cmd redis.Cmder) {
					if cmd.Name() == "evalsha" {
						flush()
					}
				},
				piped: func([]redis.Cmder) { flush() },
			})
			limits := loader.New(rdb, way.opts...)
			limiter := limits.ListLog("x", loader.PerMinute(1000))
			for n := range 8 {
				flushes = n
				d, err := way.ask(limits, limiter, "s")
				granted(t, d, err)
			}
			flushes = 1000
			if _, err := way.ask(limits, limiter, "s"); !errors.Is(err, loader.ErrNotLoaded) {
				t.Errorf("flushed for ever: %v", err)
			}
			wantRemaining(t, loader.New(other).ListLog("x", loader.PerMinute(1000)), "s", 992)
		})
	}
}

func TestPreloadedOnly(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		for _, way := range allWays {
			must(t, rdb.ScriptFlush(background).Err())
			limits := loader.New(rdb, append(way.opts, loader.PreloadedOnly())...)
			limiter := limits.GCRA("x", loader.PerMinute(1))
			_, err := way.ask(limits, limiter, way.name)
			if !errors.Is(err, loader.ErrNotLoaded) || !strings.Contains(err.Error(), "sluice load") {
				t.Fatal(err)
			}
			if loaded(t, rdb, sluice.GCRAV1()) {
				t.Fatal("it was loaded")
			}
			must(t, limits.Preload(background))
			d, err := way.ask(limits, limiter, way.name)
			granted(t, d, err)
		}
	})
}

func loaded(t *testing.T, rdb redis.Scripter, script sluice.Script) bool {
	t.Helper()
	got, err := rdb.ScriptExists(background, script.SHA1).Result()
	must(t, err)
	return got[0]
}

// restricted is a client of a user who may do only what is listed.
func restricted(t *testing.T, admin *redis.Client, rules ...any) *redis.Client {
	t.Helper()
	name := fmt.Sprintf("user%d", len(rules))
	args := append([]any{"acl", "setuser", name, "reset", "on", ">pw", "~sluice:*", "+hello", "+client"}, rules...)
	must(t, admin.Do(background, args...).Err())
	opt := options(admin.Options().Addr)
	opt.Username, opt.Password = name, "pw"
	return clientOf(t, opt)
}

// TestScriptIsRefused falls back to EVAL where SCRIPT LOAD is not allowed.
func TestScriptIsRefused(t *testing.T) {
	admin := real(t)
	inner := []any{"+time", "+get", "+set", "+evalsha"}
	for _, way := range allWays {
		t.Run(way.name, func(t *testing.T) {
			ask := func(subject string, rules ...any) error {
				limits := loader.New(restricted(t, admin, rules...), way.opts...)
				return errOf(way.ask(limits, limits.GCRA("x", loader.PerMinute(1)), way.name+subject))
			}
			must(t, admin.ScriptFlush(background).Err())
			must(t, ask("a", append(inner, "+eval")...))
			if !loaded(t, admin, sluice.GCRAV1()) {
				t.Error("EVAL has not left the script behind")
			}
			must(t, admin.ScriptFlush(background).Err())
			if err := ask("b", inner...); !errors.Is(err, loader.ErrNotLoaded) || !strings.Contains(err.Error(), "NOPERM") {
				t.Errorf("neither SCRIPT nor EVAL: %v", err)
			}
			must(t, loader.New(admin).Preload(background))
			must(t, ask("b", inner...))
		})
	}
}

func TestScriptIsUnknown(t *testing.T) {
	rdb := client(t, redistest.Start(t, "--rename-command", "SCRIPT", "").Addr)
	wantGrant(t, loader.New(rdb).GCRA("x", loader.PerMinute(1)), "s", 1)
}

// serverError is what a server answered.
type serverError string

func (e serverError) Error() string { return string(e) }
func (e serverError) RedisError()   {}

// TestLoadingFails tests servers that cannot load a script, for a short time or for good.
func TestLoadingFails(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		times int
		want  string // "" where the call succeeds
	}{
		{"for a short time", serverError("LOADING Redis is loading the dataset in memory"), 2, ""},
		{"the connection is lost", io.EOF, 2, ""},
		{"the connection is lost for ever", io.EOF, 100, "EOF"},
		{"out of memory", serverError("OOM command not allowed"), 1, "OOM"},
	}
	for _, test := range tests {
		for _, way := range allWays {
			if way.piped && test.want == "" {
				continue // the connection is lost or the server is loading only once: see TestBatchRefusalsAreRetried
			}
			t.Run(test.name+", "+way.name, func(t *testing.T) {
				_, rdb := fake(t)
				asked := 0
				rdb.AddHook(answers("script", func() error { asked++; return test.err }))
				other := client(t, rdb.Options().Addr)
				rdb.AddHook(hook{before: func(cmd redis.Cmder) {
					if cmd.Name() == "evalsha" && asked == test.times {
						must(t, loader.New(other).Preload(background))
					}
				}})
				limits := loader.New(rdb, way.opts...)
				d, err := way.ask(limits, limits.GCRA("x", loader.PerMinute(2)), "s")
				if test.want == "" {
					granted(t, d, err)
					return
				}
				if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, loader.ErrOutcomeUnknown) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestScriptIsAltered has something on the way change what is loaded.
func TestScriptIsAltered(t *testing.T) {
	_, rdb := fake(t)
	rdb.AddHook(hook{after: func(cmd redis.Cmder, _ error) {
		if load, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "script" {
			load.SetVal("another")
		}
	}})
	limits := loader.New(rdb)
	as[*loader.NodeError](t, limits.Preload(background))
	must(t, rdb.ScriptFlush(background).Err())
	_, err := limits.GCRA("x", loader.PerMinute(2)).Allow(background, "s")
	if err == nil || !strings.Contains(err.Error(), "SHA1 another") {
		t.Error(err)
	}
}

// TestPauseIsCutShort ends a context while the loader waits for another attempt.
func TestPauseIsCutShort(t *testing.T) {
	loading := serverError("LOADING Redis is loading the dataset in memory")
	ctx, cancel := context.WithCancel(background)
	rdb := client(t, "127.0.0.1:1")
	rdb.AddHook(answers("", func() error { time.AfterFunc(time.Millisecond, cancel); return loading }))
	_, err := loader.New(rdb).GCRA("x", loader.PerMinute(2)).Allow(ctx, "s")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, loading) || errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Error(err)
	}
}

func TestErrorTexts(t *testing.T) {
	deadline := second0
	for want, err := range map[string]error{
		"loader: gcra_v1: bad limit: want 1..10": &loader.ArgumentError{Script: "gcra_v1", Argument: "limit", Want: "1..10"},
		"loader: gcra_v1: BADSTATE x (keys a, b)": &loader.StateError{
			Script: "gcra_v1", Keys: []string{"a", "b"}, Code: "BADSTATE", Text: "x",
		},
		"loader: gcra_v1: outcome unknown: EOF": &loader.OutcomeUnknownError{Script: "gcra_v1", Err: io.EOF},
		"loader: Wait(n=2) of 5s would exceed context deadline": &loader.WaitError{
			Permits: 2, Wait: 5 * time.Second, Deadline: deadline,
		},
		"loader: x: Wait(n=2) of 5s would exceed MaxWait 1s": &loader.WaitError{
			Limiter: "x", Permits: 2, Wait: 5 * time.Second,
			MaxWait: time.Second},
		"loading scripts on host:1: EOF": &loader.NodeError{Addr: "host:1", Err: io.EOF},
	} {
		if err.Error() != want {
			t.Errorf("%s\nwant %s", err, want)
		}
	}
	if !errors.Is(&loader.NodeError{Err: io.EOF}, io.EOF) || !errors.Is(&loader.OutcomeUnknownError{Err: io.EOF}, io.EOF) {
		t.Error("the cause is not in the error")
	}
}

// TestTypedErrors holds the errors of the fake and the real server against each other.
func TestTypedErrors(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		eachLimiter(t, func(t *testing.T, i int) {
			m := makers[i]
			limiter := m.make(limits, loader.PerMinute(3))
			key := wantGrant(t, limiter, "s", 1).Key
			must(t, rdb.Del(background, key).Err())
			text := "Operation against a key holding the wrong kind of value"

			must(t, rdb.SAdd(background, key, "x").Err())
			for _, err := range []error{errOf(limiter.Allow(background, "s")), errOf(limiter.Peek(background, "s")),
				limiter.Wait(background, "s")} {
				e := as[*loader.StateError](t, err)
				want := &loader.StateError{Script: m.script, Keys: []string{key}, Code: "WRONGTYPE", Text: text}
				if m.name == "TokenBucket" {
					want.Keys = e.Keys
				}
				if diff := cmp.Diff(want, e); diff != "" {
					t.Error(diff)
				}
			}
			must(t, rdb.Del(background, key).Err())

			damage := map[string]func() error{
				"ListLog":     func() error { return rdb.RPush(background, key, "x").Err() },
				"ZSetLog":     func() error { return rdb.ZAdd(background, key, redis.Z{Score: 1e17, Member: "x"}).Err() },
				"GCRA":        func() error { return rdb.Set(background, key, "x", 0).Err() },
				"TokenBucket": func() error { return rdb.HSet(background, key, "rate", "x").Err() },
				"SliceRing":   func() error { return rdb.Set(background, key, "x", 0).Err() },
			}
			must(t, damage[m.name]())
			e := as[*loader.StateError](t, errOf(limiter.Allow(background, "s")))
			if e.Code != "BADSTATE" || !strings.Contains(e.Error(), key) {
				t.Error(e)
			}
			must(t, rdb.Del(background, key).Err())

			a := as[*loader.ArgumentError](t, errOf(m.make(limits, permits(1, 1000*day)).Allow(background, "s")))
			if a.Script != "" || a.Limiter != "test" || a.Argument != "window" || a.Value != "24000h0m0s" {
				t.Errorf("%+v", a)
			}
		})
	})
}

// TestReplica asks one that becomes the master after it has refused.
func TestReplica(t *testing.T) {
	master, rdb := real(t), real(t)
	host, port, _ := strings.Cut(master.Options().Addr, ":")
	must(t, rdb.ReplicaOf(background, host, port).Err())
	limiter := loader.New(rdb).ListLog("x", loader.PerMinute(5))

	_, err := limiter.Allow(background, "s")
	if err == nil || !strings.Contains(err.Error(), "READONLY") || errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Fatalf("a replica: %v", err)
	}
	if _, err := limiter.Peek(background, "s"); err != nil {
		t.Errorf("a look at a replica: %v", err)
	}

	promote := sync.OnceFunc(func() { must(t, rdb.ReplicaOf(background, "no", "one").Err()) })
	rdb.AddHook(hook{after: func(_ redis.Cmder, err error) {
		if redis.IsReadOnlyError(err) {
			promote()
		}
	}})
	d := wantGrant(t, limiter, "s", 1)
	if d.Remaining != 4 {
		t.Errorf("%d remain, want 4", d.Remaining)
	}
}

// TestRefusalsAreRetried has a server refuse twice with what proves that nothing ran.
func TestRefusalsAreRetried(t *testing.T) {
	server := redistest.Start(t)
	p := newProxy(t, server.Addr)
	rdb := client(t, p.addr)
	limits := loader.New(rdb, loader.Timeout(never))
	must(t, limits.Preload(background))
	for _, text := range []string{
		"-LOADING Redis is loading the dataset in memory",
		"-READONLY You can't write against a read only replica.",
		"-CLUSTERDOWN The cluster is down",
		"-TRYAGAIN Multiple keys request during rehashing of slot",
		"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"-NOREPLICAS Not enough good replicas to write.",
		"-ERR max number of clients reached",
	} {
		code, _, _ := strings.Cut(text[1:], " ")
		t.Run(code, func(t *testing.T) {
			log := limits.ListLog("x", loader.PerMinute(5))
			refusal := fault{answer: text + "\r\n"}
			p.next(refusal, refusal)
			d := wantGrant(t, log, code, 1)
			if d.Remaining != 4 {
				t.Errorf("%d remain, want 4", d.Remaining)
			}
			p.next(slices.Repeat([]fault{refusal}, 20)...)
			seen, want := p.seen.Load(), int64(4)
			if code == "TRYAGAIN" {
				want = 13
			}
			_, err := log.Allow(background, code)
			if err == nil || !strings.Contains(err.Error(), text[1:]) || errors.Is(err, loader.ErrOutcomeUnknown) {
				t.Errorf("refused for ever: %v", err)
			}
			if n := p.seen.Load() - seen; n != want {
				t.Errorf("refused for ever: %d attempts, want %d", n, want)
			}
			p.next(refusal)
			ctx := within(t, time.Hour)
			d, err = log.Allow(ctx, code)
			granted(t, d, err)
		})
	}
	p.next(fault{answer: "-OOM command not allowed when used memory > 'maxmemory'.\r\n"})
	before := p.seen.Load()
	_, err := limits.ListLog("x", loader.PerMinute(5)).Allow(background, "oom")
	if err == nil || !strings.Contains(err.Error(), "OOM") || p.seen.Load() != before+1 {
		t.Errorf("%v after %d calls", err, p.seen.Load()-before)
	}
	p.next(fault{answer: "*2\r\n:1\r\n:2\r\n"})
	if _, err := limits.ListLog("x", loader.PerMinute(5)).Allow(background, "short"); err == nil {
		t.Error("a short reply was accepted")
	}
}

// TestNoServer has no server listen, also with a hook that reads the arguments before they are sent, as one that logs.
func TestNoServer(t *testing.T) {
	rdb := unreachable(t)
	limits := loader.New(rdb)
	if e := as[*loader.NodeError](t, limits.Preload(background)); e.Addr != "127.0.0.1:1" {
		t.Error(e)
	}
	for _, way := range allWays {
		for range 2 {
			limits := loader.New(rdb, way.opts...)
			_, err := way.ask(limits, limits.ListLog("x", loader.PerMinute(5)), "s")
			if err == nil || errors.Is(err, loader.ErrOutcomeUnknown) {
				t.Errorf("%s: nothing was sent: %v", way.name, err)
			}
			rdb.AddHook(hook{before: func(cmd redis.Cmder) { _ = cmd.Args(); _ = cmd.String() }})
		}
	}
	must(t, rdb.Close())
	_, err := limits.ListLog("x", loader.PerMinute(5)).Allow(background, "s")
	if !errors.Is(err, redis.ErrClosed) || errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Errorf("a closed client: %v", err)
	}
}

// TestConnectionLostBeforeSending has a server hang up while the client greets it: nothing was sent.
func TestConnectionLostBeforeSending(t *testing.T) {
	var greeted atomic.Int64
	opt := options(listen(t, func(conn net.Conn) {
		greeted.Add(1)
		_ = conn.Close()
	}))
	opt.MaxRetries = -1
	_, err := loader.New(clientOf(t, opt)).ListLog("x", loader.PerMinute(5)).Allow(background, "s")
	if err == nil || errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Errorf("nothing was sent: %v", err)
	}
	if greeted.Load() < 2 {
		t.Error("it was not tried again")
	}
}

// TestHooksThatRefuse do not send at all, as a circuit breaker: it is not tried again.
func TestHooksThatRefuse(t *testing.T) {
	open, asked := errors.New("circuit open"), 0
	rdb := client(t, "127.0.0.1:1")
	rdb.AddHook(answers("", func() error { asked++; return open }))
	_, err := loader.New(rdb).ListLog("x", loader.PerMinute(5)).Allow(background, "s")
	if !errors.Is(err, open) || errors.Is(err, loader.ErrOutcomeUnknown) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// TestPoolIsExhausted has all connections taken: nothing is sent, so nothing is unknown.
func TestPoolIsExhausted(t *testing.T) {
	p := newProxy(t, redistest.Start(t).Addr)
	opt := options(p.addr)
	opt.PoolSize, opt.PoolTimeout, opt.ReadTimeout = 1, 5*time.Millisecond, 10*time.Second
	rdb := clientOf(t, opt)
	limits := loader.New(rdb, loader.Timeout(never))
	must(t, limits.Preload(background))
	log := limits.ListLog("x", loader.PerMinute(5))

	p.next(fault{silence: true})
	ctx, cancel := context.WithCancel(background)
	stuck := make(chan error)
	go func() { stuck <- errOf(log.Allow(ctx, "a")) }()
	await(t, func() bool { return p.seen.Load() > 0 })
	_, err := log.Allow(background, "b")
	if !errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Errorf("without a connection: %v", err)
	}
	cancel()
	if err := <-stuck; !errors.Is(err, loader.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if p.seen.Load() != 1 {
		t.Errorf("%d decisions were sent", p.seen.Load())
	}
}
