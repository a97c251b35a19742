package loader_test

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var background = context.Background()

// second0 is the time at which the clocks of fakes start, which some servers print with an exponent.
var second0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// options are a client's for tests, without what go-redis sends on its own.
func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func client(tb testing.TB, addr string) *redis.Client {
	return clientOf(tb, options(addr))
}

func clientOf(tb testing.TB, opt *redis.Options) *redis.Client {
	rdb := redis.NewClient(opt)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// real is a client of a new Redis server.
func real(tb testing.TB) *redis.Client {
	tb.Helper()
	return client(tb, redistest.Start(tb).Addr)
}

// fake is a client of a new miniredis, whose clock stands still until it is set.
func fake(tb testing.TB) (*miniredis.Miniredis, *redis.Client) {
	tb.Helper()
	m := miniredis.RunT(tb)
	m.SetTime(second0)
	return m, client(tb, m.Addr())
}

// each runs a test on a fake and on a real server.
func each(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		_, rdb := fake(t)
		test(t, rdb)
	})
	t.Run("redis", func(t *testing.T) { test(t, real(t)) })
}

// making is how to make limiters of one script.
type making struct {
	name   string
	script string
	tail   string // the key's, behind the subject, without a window
	make   func(l *loader.Loader, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter
}

var makers = []making{
	{"ListLog", "list_log_v1", "ll1", func(l *loader.Loader, limit loader.Limit,
		opts ...loader.LimiterOption) loader.Limiter {
		return l.ListLog("test", limit, opts...)
	}},
	{"ZSetLog", "zset_log_v1", "zl1", func(l *loader.Loader, limit loader.Limit,
		opts ...loader.LimiterOption) loader.Limiter {
		return l.ZSetLog("test", limit, opts...)
	}},
	{"GCRA", "gcra_v1", "gcra1", func(l *loader.Loader, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
		return l.GCRA("test", limit, opts...)
	}},
	{"TokenBucket", "token_bucket_v1", "tb1", func(l *loader.Loader, limit loader.Limit,
		opts ...loader.LimiterOption) loader.Limiter {
		return l.TokenBucket("test", limit, opts...)
	}},
	{"SliceRing", "slice_ring_v1", "sr1", func(l *loader.Loader, limit loader.Limit,
		opts ...loader.LimiterOption) loader.Limiter {
		slice := min(max(time.Second, limit.Window/600), day)
		return l.SliceRing("test", []loader.Limit{limit}, append(opts, loader.Slice(slice))...)
	}},
}

// eachLimiter runs a test for one limiter of each script.
func eachLimiter(t *testing.T, test func(t *testing.T, i int)) {
	for i, m := range makers {
		t.Run(m.name, func(t *testing.T) { test(t, i) })
	}
}

// wantGrant wants n permits to be granted.
func wantGrant(t *testing.T, limiter loader.Limiter, subject string, n int64) loader.Decision {
	t.Helper()
	return wantDecision(t, limiter, subject, n, true)
}

// wantDenial wants n permits to be denied.
func wantDenial(t *testing.T, limiter loader.Limiter, subject string, n int64) loader.Decision {
	t.Helper()
	return wantDecision(t, limiter, subject, n, false)
}

func wantDecision(t *testing.T, limiter loader.Limiter, subject string, n int64, granted bool) loader.Decision {
	t.Helper()
	ask := limiter.Allow
	if n > 1 {
		ask = func(ctx context.Context, subject string) (loader.Decision, error) {
			return limiter.AllowN(ctx, subject, n)
		}
	}
	d, err := ask(background, subject)
	if err != nil || d.Granted != granted {
		t.Errorf("%d for %q: %+v, %v; want granted %v", n, subject, d, err, granted)
	}
	return d
}

// ofGrants leaves out what only grants have (see TestGiveBack), and what only a SliceRing has (see TestDecisionOfARing).
var ofGrants = cmpopts.IgnoreFields(loader.Decision{}, "Permits", "Key", "ID", "CountsFor")

// wantReturned gives back n permits of a decision, and wants so many to be returned.
func wantReturned(t *testing.T, limiter loader.Returner, subject string, d loader.Decision, want, n int64) {
	t.Helper()
	if returned, err := limiter.GiveBack(background, subject, d, n); returned != want || err != nil {
		t.Errorf("GiveBack of %d: %d, %v; want %d", n, returned, err, want)
	}
}

func granted(t *testing.T, d loader.Decision, err error) {
	t.Helper()
	if err != nil || !d.Granted {
		t.Errorf("%+v, %v; want a grant", d, err)
	}
}

// as is the error of type E in err.
func as[E error](t *testing.T, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("error %v (%T), want a %T", err, err, e)
	}
	return e
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// errOf is the error of a call.
func errOf[T any](_ T, err error) error { return err }

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
}

// wantRemaining looks at a limiter, without a fallback.
func wantRemaining(t *testing.T, limiter loader.Limiter, subject string, want int64) {
	t.Helper()
	if d, err := limiter.Peek(background, subject); err != nil || d.Degraded || d.Remaining != want {
		t.Errorf("%+v, %v; want %d remaining for %q", d, err, want, subject)
	}
}

// within is a context that ends after d, or with the test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(background, d)
	t.Cleanup(cancel)
	return ctx
}

// eachMode runs a test with round trips of one call each and with shared ones.
func eachMode(t *testing.T, test func(t *testing.T, how string, opts []loader.Option)) {
	t.Run("alone", func(t *testing.T) { test(t, "alone", []loader.Option{loader.WithoutSharing()}) })
	t.Run("shared", func(t *testing.T) { test(t, "shared", nil) })
}

// unreachable is a client of an address where no server listens. It tries once.
func unreachable(tb testing.TB) *redis.Client {
	opt := options("127.0.0.1:1")
	opt.DialerRetries, opt.MaxRetries = 1, -1
	return clientOf(tb, opt)
}

func clusterClient(t *testing.T, addrs []string) *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// hook sees the commands of a client.
type hook struct {
	before func(cmd redis.Cmder)
	after  func(cmd redis.Cmder, err error)
	piped  func(cmds []redis.Cmder) // before a pipeline
	done   func()                   // after one
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.before != nil {
			h.before(cmd)
		}
		err := next(ctx, cmd)
		if h.after != nil {
			h.after(cmd, err)
		}
		return err
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.piped != nil {
			h.piped(cmds)
		}
		err := next(ctx, cmds)
		if h.done != nil {
			h.done()
		}
		return err
	}
}

// around is a hook around each round trip: send sends its commands.
type around func(ctx context.Context, cmds []redis.Cmder, send func() error) error

func (a around) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

// answers answers single commands of this name, "" for all, without sending them.
func answers(name string, answer func() error) around {
	return func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if len(cmds) > 1 || name != "" && name != cmds[0].Name() {
			return send()
		}
		return answer()
	}
}

// write is the words of a command as go-redis writes them.
func write(cmd redis.Cmder) []string {
	words := make([]string, len(cmd.Args()))
	for i, arg := range cmd.Args() {
		words[i] = fmt.Sprint(arg)
		if bytes, ok := arg.(encoding.BinaryMarshaler); ok {
			text, err := bytes.MarshalBinary()
			if err != nil {
				panic(err)
			}
			words[i] = string(text)
		}
	}
	return words
}
