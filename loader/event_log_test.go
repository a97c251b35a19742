package loader_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// newLog is a logger, and the lines that it has written, without their times.
func newLog() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), &b
}

// logged fails the test unless these are the lines since the last call.
func logged(t *testing.T, b *bytes.Buffer, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(append(want, ""), "\n"), b.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	b.Reset()
}

// TestLogOfAFirstStart is on a server that has never seen a script: nothing in the log reads like something went wrong.
func TestLogOfAFirstStart(t *testing.T) {
	for how, opts := range map[string][]loader.Option{
		"plain": {loader.WithoutSharing()}, "shared": nil, "with a breaker": {loader.Breaker(1, time.Second)},
	} {
		t.Run(how, func(t *testing.T) {
			rdb := real(t)
			logger, lines := newLog()
			limits := loader.New(rdb, append(opts, loader.Logger(logger))...)
			for _, m := range makers {
				limiter := m.make(limits, loader.PerMinute(9))
				must(t, errOf(limiter.Allow(background, "s")))
				must(t, errOf(limiter.Peek(background, "s")))
				must(t, limiter.Wait(background, "s"))
			}
			text := lines.String()
			if n := strings.Count(text, "script loaded"); n != len(makers) {
				t.Errorf("%d scripts are logged as loaded, want %d:\n%s", n, len(makers), text)
			}
			if found := regexp.MustCompile("(?i).*(error|fail|warn|noscript).*").FindString(text); found != "" {
				t.Errorf("it logged: %s", found)
			}
		})
	}
}

func TestLogOfLoading(t *testing.T) {
	m, rdb := fake(t)
	logger, lines := newLog()
	limits := loader.New(rdb, loader.Logger(logger))
	line := func(script sluice.Script) string {
		return `level=INFO msg="script loaded" script=` + strings.TrimSuffix(script.File, ".lua") + " sha1=" + script.SHA1 +
			" node=" + m.Addr()
	}
	for range 2 {
		must(t, errOf(limits.GCRA("x", loader.PerSecond(9)).Allow(background, "s")))
	}
	logged(t, lines, line(sluice.GCRAV1()))

	batch := limits.Batch()
	batch.Allow(limits.ListLog("x", loader.PerSecond(9)), "s")
	batch.Allow(limits.ListLog("x", loader.PerSecond(9)), "t")
	must(t, errOf(batch.Do(background)))
	logged(t, lines, line(sluice.ListLogV1()))

	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": m.Addr()}})
	defer func() { _ = ring.Close() }()
	limits = loader.New(ring, loader.Logger(logger))
	must(t, errOf(limits.ZSetLog("x", loader.PerSecond(9)).Allow(background, "s")))
	logged(t, lines, line(sluice.ZSetLogV1()))

	must(t, rdb.ScriptFlush(background).Err())
	must(t, errOf(loader.New(rdb, loader.Logger(nil)).ListLog("x", loader.PerSecond(9)).Allow(background, "s")))
}

// failing answers every decision with its error.
func failing(err error) *redis.Client {
	rdb := down()
	rdb.AddHook(answers("", func() error { return err }))
	return rdb
}

// TestLogOfFailures has each error that ends a decision, once where it is for operators to know.
func TestLogOfFailures(t *testing.T) {
	tests := []struct {
		err  error
		want []string
	}{
		{serverError("OOM command not allowed when used memory > 'maxmemory'."), []string{
			`level=WARN msg="decision given up" script=list_log_v1 limiter=x ` +
				`error="loader: list_log_v1: OOM command not allowed when used memory > 'maxmemory'.: ` +
				`its memory is full: raise maxmemory, or find out what fills it"`,
		}},
		{context.DeadlineExceeded, []string{
			`level=WARN msg="decision given up" script=list_log_v1 limiter=x ` +
				`error="loader: list_log_v1: context deadline exceeded"`,
		}},
		{context.Canceled, nil},
		{serverError("BADARG limit: want 1..1000000"), nil},
		{serverError("WRONGTYPE log holds no list"), nil},
	}
	for _, test := range tests {
		t.Run(test.err.Error(), func(t *testing.T) {
			logger, lines := newLog()
			rdb := failing(test.err)
			defer func() { _ = rdb.Close() }()
			limits := loader.New(rdb, loader.Logger(logger))
			log := limits.ListLog("x", loader.PerSecond(1))
			if err := errOf(log.Allow(background, "ada")); err == nil {
				t.Fatal("no error")
			}
			logged(t, lines, test.want...)
			limits = loader.New(rdb, loader.Logger(logger))
			batch := limits.Batch()
			batch.Allow(limits.ListLog("x", loader.PerSecond(1)), "ada")
			if err := errOf(batch.Do(background)); err == nil {
				t.Fatal("no error")
			}
			logged(t, lines, test.want...)
		})
	}
}

func TestLogOfLostReply(t *testing.T) {
	m, _ := fake(t)
	p := newProxy(t, m.Addr())
	logger, lines := newLog()
	limits := loader.New(client(t, p.addr), loader.Logger(logger))
	must(t, limits.Preload(background))
	p.next(fault{dropReply: true})
	_, err := limits.ListLog("x", loader.PerSecond(1)).Allow(background, "ada")
	lost := as[*loader.OutcomeUnknownError](t, err)
	logged(t, lines, `level=WARN msg="outcome unknown" script=list_log_v1 limiter=x error=`+lost.Err.Error())
}

// TestLogOfACallerWhoLeft has the caller leave while the server works: that is no news for operators.
func TestLogOfACallerWhoLeft(t *testing.T) {
	_, rdb := fake(t)
	logger, lines := newLog()
	limits := loader.New(rdb, loader.Logger(logger))
	must(t, limits.Preload(background))
	ctx, leave := context.WithCancel(background)
	rdb.AddHook(around(func(ctx context.Context, _ []redis.Cmder, send func() error) error {
		_ = send()
		leave()
		<-ctx.Done()
		return ctx.Err()
	}))
	_, err := limits.ListLog("x", loader.PerSecond(1)).Allow(ctx, "ada")
	as[*loader.OutcomeUnknownError](t, err)
	logged(t, lines)
}

// TestLogOfBreaker has a server fail twice and then answer: two lines, and OpenBreakers has it meanwhile.
func TestLogOfBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, lines := newLog()
		var answer error = serverError("LOADING")
		rdb := down()
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(answers("", func() error { return answer }))
		limits := loader.New(rdb, loader.Breaker(2, time.Minute), loader.Logger(logger))
		allow := func() { _ = errOf(limits.ListLog("x", loader.PerSecond(1)).Allow(background, "s")) }
		allow()
		time.Sleep(time.Second)
		allow()
		lines.Reset()
		_, err := limits.ListLog("x", loader.PerSecond(1)).Allow(background, "s")
		if want := "; the last failure: LOADING"; !errors.Is(err, loader.ErrBreakerOpen) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if open := limits.OpenBreakers(); len(open) != 1 || open["nowhere:0"] < time.Second {
			t.Errorf("open breakers: %v", open)
		}
		allow()
		answer = serverError("WRONGTYPE log") // it answers
		time.Sleep(2 * time.Minute)
		allow()
		allow()
		if open := limits.OpenBreakers(); len(open) != 0 {
			t.Errorf("open breakers when it answers: %v", open)
		}
		text := regexp.MustCompile(`[\d.]+s `).ReplaceAllString(lines.String(), "1s ") // pauses are random
		const want = `level=WARN msg="breaker open" node=nowhere:0 silent=1s error=LOADING
level=INFO msg="breaker closed" node=nowhere:0 silent=2m`
		if !strings.HasPrefix(text, want) {
			t.Errorf("log: %s", text)
		}
	})
}

// TestLogIsNotFlooded has decisions fail for three minutes.
func TestLogIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, lines := newLog()
		rdb := failing(serverError("OOM full"))
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb, loader.Logger(logger))
		for range 1500 {
			_ = errOf(limits.ListLog("x", loader.PerSecond(1)).Allow(background, "s"))
			time.Sleep(120 * time.Millisecond)
		}
		_ = errOf(limits.GCRA("x", loader.PerSecond(1)).Allow(background, "s"))
		oom := func(script, tail string) string {
			return `level=WARN msg="decision given up" script=` + script + ` limiter=x ` +
				`error="loader: ` + script + `: OOM full: its memory is full: raise maxmemory, or find out what fills it"` + tail
		}
		logged(t, lines, oom("list_log_v1", ""), oom("list_log_v1", " suppressed=499"),
			oom("list_log_v1", " suppressed=499"), oom("gcra_v1", ""))
	})
}

// handler keeps what is logged.
type handler struct {
	slog.Handler
	mu     sync.Mutex
	lines  []string
	handle func() // while a record is handled
}

func (l *handler) Enabled(context.Context, slog.Level) bool { return true }

func (l *handler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { line.WriteString(" " + a.String()); return true })
	l.mu.Lock()
	l.lines = append(l.lines, line.String())
	l.mu.Unlock()
	if l.handle != nil {
		l.handle()
	}
	return nil
}

func (l *handler) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, part) })
}

// TestHandlerUsesALimiter has a slog handler that asks the limiter it hears of: nothing is locked while it does.
func TestHandlerUsesALimiter(t *testing.T) {
	for how, opts := range map[string][]loader.Option{
		"breaker": {loader.Breaker(1, time.Minute), loader.WithoutSharing()}, "shared": nil,
		"both": {loader.Breaker(1, time.Minute)},
	} {
		t.Run(how, func(t *testing.T) {
			p, rdb, _ := lossy(t)
			log := &handler{}
			limits := loader.New(rdb, append(opts, loader.Logger(slog.New(log)))...)
			limiter := limits.ListLog("x", loader.PerHour(1000))
			log.handle = func() { _, _ = limiter.Allow(background, "log") }
			p.next(slices.Repeat([]fault{{dropReply: true}}, 20)...)
			for range 3 {
				wantEnd(t, how, func() { _, _ = limiter.Allow(background, "s") })
			}
			ctx := within(t, soon)
			p.next(fault{silence: true})
			wantEnd(t, how+", with a deadline", func() { _, _ = limiter.Allow(ctx, "s") })
			if len(log.lines) == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}

// TestSlowHandler has a slog handler that does not return: it holds up the caller that it logs for, and no other.
func TestSlowHandler(t *testing.T) {
	for how, opts := range map[string][]loader.Option{
		"breaker": {loader.Breaker(100, time.Minute), loader.WithoutSharing()}, "shared": {loader.Breaker(100, time.Minute)},
	} {
		t.Run(how, func(t *testing.T) {
			p, rdb, _ := lossy(t)
			log, release := &handler{}, make(chan struct{})
			var held atomic.Bool
			log.handle = func() { held.Store(true); <-release }
			limits := loader.New(rdb, append(opts, loader.Logger(slog.New(log)))...)
			limiter := limits.ListLog("x", loader.PerHour(1000))
			p.next(fault{dropReply: true})
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = limiter.Allow(background, "s") }()
			await(t, held.Load)
			for _, subject := range []string{"s", "t"} {
				wantEnd(t, subject, func() {
					wantGrant(t, limiter, subject, 1)
				})
			}
			close(release)
			<-ended
		})
	}
}

// TestObserverUsesALimiter has an observer that asks the limiter it hears of.
func TestObserverUsesALimiter(t *testing.T) {
	var limiter loader.ListLog
	var depth atomic.Int64
	limits := loader.New(real(t), loader.Breaker(1, time.Minute),
		loader.Observe(loader.ObserverFunc(func(context.Context, loader.Event) {
			if depth.Add(1) < 5 {
				_, _ = limiter.Allow(background, "s")
			}
		})))
	limiter = limits.ListLog("x", loader.PerHour(1000), loader.RememberDenials(5))
	wantEnd(t, "Allow", func() {
		wantGrant(t, limiter, "s", 1)
	})
	if n := depth.Load(); n != 5 {
		t.Errorf("it was told of %d decisions, want 5", n)
	}
}

// TestHookUsesALimiter has a hook of the client that asks the limiter for whose commands it is called.
func TestHookUsesALimiter(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb, loader.Breaker(1, time.Minute))
	limiter := limits.ListLog("x", loader.PerHour(1000))
	must(t, limits.Preload(background))
	var depth atomic.Int64
	rdb.AddHook(hook{after: func(redis.Cmder, error) {
		if depth.Add(1) == 1 {
			_, _ = limiter.Allow(background, "other")
		}
	}})
	wantEnd(t, "Allow", func() {
		wantGrant(t, limiter, "s", 1)
	})
}
