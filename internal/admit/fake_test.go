package admit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// A door for tests: a request is a user, its result a status.
type (
	door    = admit.Door[string, charge]
	options = admit.Options[string]
)

// charge is a door's own type of a charge.
type charge struct {
	Limiter loader.Limiter
	N       int64
	Key     admit.Key[string]
	Name    string
	CountIf func(int) bool
	Shadow  bool
	Ban     loader.Limiter
	Quota   bool
	Err     error
}

func readCharge(c charge) admit.Keyed[string] {
	return admit.Keyed[string]{Key: c.Key, Charge: admit.Charge{
		Limiter: c.Limiter, N: c.N, Name: c.Name, CountIf: c.CountIf, Shadow: c.Shadow, Ban: c.Ban,
		Quota: c.Quota, Err: c.Err,
	}}
}

var (
	all    = admit.KeyOf[string]("all")
	byUser = admit.KeyBy(func(user string) string { return user })
	failed = func(status int) bool { return status >= 400 }
)

const both = admit.Charges | admit.Resources

// fake is a miniredis whose clock stands still, and a loader on it. hook is called when a server has decided.
type fake struct {
	*miniredis.Miniredis
	*loader.Loader
	now  time.Time
	hook atomic.Pointer[func()]
}

// whenDecided sets the hook.
func (f *fake) whenDecided(do func()) { f.hook.Store(&do) }

func newFake(t *testing.T, opts ...loader.Option) *fake {
	f := &fake{Miniredis: miniredis.RunT(t), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.whenDecided(func() {})
	f.ClockTTL(true)
	f.SetTime(f.now)
	rdb := redistest.DialOnce(t, f.Addr())
	f.Loader = loader.New(rdb, opts...)
	must(t, f.Preload(t.Context()))
	rdb.AddHook(f)
	return f
}

func (f *fake) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fake) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer func() { (*f.hook.Load())() }()
		return next(ctx, cmd)
	}
}

func (f *fake) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer func() { (*f.hook.Load())() }()
		return next(ctx, cmds)
	}
}

// pass moves the clock.
func (f *fake) pass(d time.Duration) {
	f.now = f.now.Add(d)
	f.SetTime(f.now)
}

func (f *fake) perMinute(name string, n int64) loader.ListLog {
	return f.ListLog(name, loader.PerMinute(n))
}

// checked is a door that is right.
func checked(t *testing.T, d door) *door {
	t.Helper()
	d.Package, d.Read = "door", readCharge
	d.Init()
	must(t, d.Check())
	return &d
}

// ask asks about a request of ada's, and releases what it holds.
func ask(t *testing.T, d *door) admission.Result {
	t.Helper()
	var a admit.Request
	defer a.Release()
	d.Decide(t.Context(), &a, "ada", both)
	return a.Result
}

func wantOutcome(t *testing.T, r admission.Result, want admission.Outcome) {
	t.Helper()
	if r.Outcome != want {
		t.Errorf("%v, want %v: %+v", r.Outcome, want, r)
	}
}

func wantRemaining(t *testing.T, f *fake, limiter interface {
	Peek(context.Context, string) (loader.Decision, error)
}, want int64) {
	t.Helper()
	must(t, f.Flush(t.Context()))
	d, err := limiter.Peek(t.Context(), "all")
	if err != nil || d.Remaining != want {
		t.Errorf("%d permits left, %v; want %d", d.Remaining, err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
