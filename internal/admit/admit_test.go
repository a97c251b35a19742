package admit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// A door for tests: a request is a user, its result a status.
type (
	door    = admit.Door[string, int]
	charge  = admit.Charge[string, int]
	options = admit.Options[string, int]
)

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
	hook func()
}

func newFake(t *testing.T, opts ...loader.Option) *fake {
	f := &fake{Miniredis: miniredis.RunT(t), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), hook: func() {}}
	f.ClockTTL(true)
	f.SetTime(f.now)
	rdb := redis.NewClient(&redis.Options{
		Addr: f.Addr(), DisableIdentity: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	f.Loader = loader.New(rdb, opts...)
	if err := f.Preload(t.Context()); err != nil {
		t.Fatal(err)
	}
	rdb.AddHook(f)
	return f
}

func (f *fake) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fake) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { defer func() { f.hook() }(); return next(ctx, cmd) }
}

func (f *fake) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer func() { f.hook() }()
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
	d.Package = "door"
	d.Init()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return &d
}

// ask asks about a request of ada's, and releases what it holds.
func ask(t *testing.T, d *door) admit.Result {
	t.Helper()
	var a admit.Admission[int]
	defer a.Release()
	d.Admit(t.Context(), &a, "ada", both)
	return a.Result
}

func wantOutcome(t *testing.T, r admit.Result, want admit.Outcome) {
	t.Helper()
	if r.Outcome != want {
		t.Errorf("%v, want %v: %+v", r.Outcome, want, r)
	}
}

func wantRemaining(t *testing.T, f *fake, limiter interface {
	Peek(context.Context, string) (loader.Decision, error)
}, want int64) {
	t.Helper()
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := limiter.Peek(t.Context(), "all")
	if err != nil || d.Remaining != want {
		t.Errorf("%d permits left, %v; want %d", d.Remaining, err, want)
	}
}

// One limiter twice about one subject is one charge of the sum: what remains and the time to wait are true, and each
// part counts by itself.
func TestSum(t *testing.T) {
	f := newFake(t)
	api := f.perMinute("api", 5)
	twice := func(first, second int64) *door {
		return checked(t, door{Limits: f.Loader, Choose: func(string) ([]charge, error) {
			return []charge{{Limiter: api, Key: all, N: first, Name: "first"}, {Limiter: api, Key: all, N: second,
				CountIf: failed}}, nil
		}})
	}
	one := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}})
	wantOutcome(t, ask(t, one), admit.Allowed)
	f.pass(4 * time.Second)
	r := ask(t, twice(2, 1))
	if len(r.Decisions) != 1 || r.Decisions[0].Remaining != 1 || r.Decisions[0].Policy != "first" {
		t.Errorf("granted: %+v", r)
	}
	r = ask(t, twice(2, 1))
	if wantOutcome(t, r, admit.Denied); r.RetryAfter != time.Minute {
		t.Errorf("come back in %v, want 1m0s", r.RetryAfter)
	}
	f.pass(r.RetryAfter)
	var a admit.Admission[int]
	twice(2, 1).Admit(t.Context(), &a, "", both)
	wantOutcome(t, a.Result, admit.Allowed)
	if err := a.Finish(t.Context(), 200); err != nil { // the second does not count
		t.Error(err)
	}
	wantRemaining(t, f, api, 3)
	if r := ask(t, twice(3, 3)); r.RetryAfter != 0 || !errors.Is(r.Err, loader.ErrExceedsLimit) {
		t.Errorf("more than the limit together: %+v", r)
	}
	wantOutcome(t, ask(t, twice(3, -1)), admit.Misconfigured)
}

// What is wrong is found by Check, and no request goes on.
func TestCheck(t *testing.T) {
	f, others := newFake(t), newFake(t)
	api, smooth := f.perMinute("api", 5), f.GCRA("smooth", loader.PerMinute(5))
	one := func(c charge) door { return door{Charges: []charge{c}} }
	two := func(limits *loader.Loader, second charge) door {
		return door{Limits: limits, Charges: []charge{{Limiter: api, Key: all}, second}}
	}
	with := func(o options) door { return door{Limits: f.Loader, Options: o} }
	none := func(string) ([]charge, error) { return []charge{}, nil }
	cost := options{Cost: func(string) int64 { return 1 }}
	for want, d := range map[string]door{
		"the limiter is nil":         one(charge{Key: all}),
		"the key is empty":           one(charge{Limiter: api}),
		"the function is nil":        one(charge{Limiter: api, Key: admit.Join(all, admit.KeyBy[string](nil))}),
		"want RefuseEmpty":           one(charge{Limiter: api, Key: all.IfEmpty(7)}),
		"x: window 0s":               one(charge{Limiter: f.ListLog("x", loader.Limit{Permits: 1}), Key: all}),
		"smooth cannot give permits": one(charge{Limiter: smooth, Key: all, CountIf: failed}),
		`name "é\n": want printable`: one(charge{Limiter: api, Key: all, Name: "é\n"}),
		"smooth cannot give":         two(f.Loader, charge{Limiter: smooth, Key: all}),
		"the same Loader made":       two(others.Loader, charge{Limiter: api, Key: all}),
		"entry 0: want one that the": two(others.Loader, charge{Limiter: smooth, Key: all, Shadow: true}),
		"exceeds limit 5":            two(f.Loader, charge{Limiter: api, Key: all, N: 6}),
		"the Loader is nil":          two(nil, charge{Limiter: api, Key: all}),
		"door: the Loader is nil":    {Choose: none},
		"no charges, no Slots":       with(options{}),
		"one limiter":                with(options{LimiterBy: func(string) loader.Limiter { return api }}),
		"Cost are options for one":   {Limits: f.Loader, Choose: none, Options: cost},
		"c: n -1":                    with(options{Slots: []admit.Slots[string]{{f.Concurrency("c", -1, time.Second), all}}}),
		"door: the key is empty":     with(options{Slots: []admit.Slots[string]{{Limiter: f.Concurrency("c", 1, time.Second)}}}),
		"tokens: permits -1":         with(options{Budgets: []admit.Budget[string]{{f.tokens(-1), all, nil}}}),
		"of Budgets is nil":          with(options{Budgets: []admit.Budget[string]{{f.tokens(1), all, nil}}}),
		"an option is wrong":         with(options{Err: errors.New("an option is wrong")}),
		"CountIf: it cannot be": {Charges: []charge{{Limiter: api, Key: all, CountIf: failed}},
			Options: options{NoCount: "it cannot be"}},
	} {
		d.Package = "door"
		d.Init()
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "door: ") {
			t.Errorf("Check: %v, want %q", err, want)
		}
		d.Options.Shadow = true
		wantOutcome(t, ask(t, &d), admit.Misconfigured)
	}
	checked(t, two(f.Loader, charge{Limiter: smooth, Key: all, Shadow: true}))
	checked(t, two(f.Loader, charge{Limiter: api, Key: all, N: 4})) // the subjects may differ
}

// What a program chooses for a request is checked then.
func TestChoose(t *testing.T) {
	f := newFake(t)
	api, smooth := f.perMinute("api", 5), f.GCRA("smooth", loader.PerMinute(5))
	unknown := errors.New("unknown plan")
	var zero map[string]loader.ListLog
	var ahead map[string]*loader.Ahead
	for name, row := range map[string]struct {
		charges []charge
		err     error
		want    admit.Outcome
		is      error
	}{
		"right":                {[]charge{{Limiter: api, Key: byUser}}, nil, admit.Allowed, nil},
		"not limited":          {[]charge{}, nil, admit.Allowed, nil},
		"nil":                  {nil, nil, admit.Undecided, admit.ErrNoLimiter},
		"no limiter":           {[]charge{{Key: all}}, nil, admit.Undecided, admit.ErrNoLimiter},
		"no limiter in shadow": {[]charge{{Key: all, Shadow: true}}, nil, admit.Undecided, admit.ErrNoLimiter},
		"no Ahead":             {[]charge{{Limiter: ahead["gold"], Key: all}}, nil, admit.Undecided, admit.ErrNoLimiter},
		"an error":             {nil, unknown, admit.Undecided, unknown},
		"GCRA in All": {[]charge{{Limiter: api, Key: all}, {Limiter: smooth, Key: all}}, nil, admit.Misconfigured,
			errors.ErrUnsupported},
		"CountIf of a GCRA": {[]charge{{Limiter: smooth, Key: all, CountIf: failed}}, nil, admit.Misconfigured,
			errors.ErrUnsupported},
		"the zero limiter": {[]charge{{Limiter: zero["gold"], Key: all}}, nil, admit.Misconfigured, nil},
		"the zero key":     {[]charge{{Limiter: api}}, nil, admit.NoKey, nil},
		"a name":           {[]charge{{Limiter: api, Key: all, Name: "\x7f"}}, nil, admit.Misconfigured, nil},
	} {
		r := ask(t, checked(t, door{Limits: f.Loader, Choose: func(string) ([]charge, error) { return row.charges, row.err }}))
		if r.Outcome != row.want || row.is != nil && !errors.Is(r.Err, row.is) ||
			row.want != admit.Allowed && row.want != admit.NoKey && r.Err == nil {
			t.Errorf("%s: %+v", name, r)
		}
		if r.Denied(false) != nil || row.want == admit.Allowed && len(r.Decisions) != len(row.charges) {
			t.Errorf("%s: %+v", name, r)
		}
		shadow := checked(t, door{Limits: f.Loader, Options: options{Shadow: true},
			Choose: func(string) ([]charge, error) { return row.charges, row.err }})
		wantOutcome(t, ask(t, shadow), admit.Allowed)
	}
	for _, o := range []options{
		{LimiterBy: func(string) loader.Limiter { return nil }},
		{LimiterBy: func(string) loader.Limiter { return nil }, Cost: func(string) int64 { return 1 }},
	} {
		r := ask(t, checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: o}))
		if wantOutcome(t, r, admit.Undecided); !errors.Is(r.Err, admit.ErrNoLimiter) {
			t.Errorf("LimiterBy returned nil: %+v", r)
		}
	}
	var unmade door
	if r := ask(t, &unmade); unmade.Check() == nil || r.Outcome != admit.Misconfigured {
		t.Errorf("a door that nobody made: %v, %+v", unmade.Check(), r)
	}
	dear := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{
		LimiterBy: func(string) loader.Limiter { return api.With(loader.PerMinute(9)) }, Cost: func(string) int64 { return 7 }}})
	if r := ask(t, dear); r.Decisions[0].Limit.Permits != 9 || r.Decisions[0].Permits != 7 {
		t.Errorf("a plan: %+v", r)
	}
	free := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{
		Cost: func(string) int64 { return 0 }, Skip: func(user string) bool { return user == "eve" }}})
	if r := ask(t, free); r.Outcome != admit.Allowed || r.Decisions != nil || free.Skips("ada") || !free.Skips("eve") {
		t.Errorf("a free request: %+v", r)
	}
}

// A cost above the limit is a denial that no wait ends, with its error: by one, by several, and in shadow.
func TestExceeds(t *testing.T) {
	f := newFake(t)
	small, large := f.perMinute("small", 2), f.perMinute("large", 9)
	for _, row := range [][]charge{
		{{Limiter: small, Key: all, N: 5}}, {{Limiter: large, Key: all, N: 5}, {Limiter: small, Key: all, N: 5}},
	} {
		for _, shadow := range []bool{false, true} {
			r := ask(t, checked(t, door{Limits: f.Loader, Options: options{Shadow: shadow},
				Choose: func(string) ([]charge, error) { return row, nil }}))
			d := r.Decisions[len(r.Decisions)-1]
			if !cmp.Equal(r.Denied(shadow), []string{"small"}) || d.Wait != loader.Never || d.Limit.Permits != 2 ||
				!errors.Is(d.Err, loader.ErrExceedsLimit) || r.RetryAfter != 0 {
				t.Errorf("shadow %v: %+v", shadow, r)
			}
			if shadow == (r.Outcome == admit.Denied) || shadow == errors.Is(r.Err, loader.ErrExceedsLimit) {
				t.Errorf("shadow %v: %+v", shadow, r)
			}
		}
	}
	wantRemaining(t, f, large, 4) // in shadow each is charged by itself
}

// A caller who leaves gets everything back, and no handler.
func TestCallerGone(t *testing.T) {
	f := newFake(t)
	one, two, tokens, slots := f.perMinute("one", 5), f.perMinute("two", 5), f.tokens(9), f.Concurrency("c", 1, time.Minute)
	budget := options{Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}}}
	for name, d := range map[string]door{
		"one":    {Charges: []charge{{Limiter: one, Key: all}}},
		"all":    {Limits: f.Loader, Charges: []charge{{Limiter: one, Key: all}, {Limiter: two, Key: all}}},
		"budget": {Options: budget},
		"both":   {Charges: []charge{{Limiter: one, Key: all}}, Options: budget},
		"slots":  {Options: options{Slots: []admit.Slots[string]{{slots, all}}}},
	} {
		d := checked(t, d)
		for _, before := range []bool{true, false} {
			ctx, leave := context.WithCancel(t.Context())
			if f.hook = leave; before {
				leave()
			}
			var a admit.Admission[int]
			d.Admit(ctx, &a, "ada", both)
			a.Release()
			f.hook = func() {}
			if name != "slots" || before { // a slot that was taken has a context of its own to end
				if wantOutcome(t, a.Result, admit.CallerGone); a.Err != nil {
					t.Errorf("%s: %v", name, a.Err)
				}
			}
		}
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		var a admit.Admission[int]
		d.Admit(ctx, &a, "ada", both)
		if wantOutcome(t, a.Result, admit.CallerGone); !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("%s: past the deadline: %v", name, a.Err)
		}
		cancel()
	}
	wantRemaining(t, f, one, 5)
	wantRemaining(t, f, two, 5)
	wantRemaining(t, f, tokens, 9)
	wantRemaining(t, f, slots, 1)
	// No reply comes in time, though the estimate is charged.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	f.hook = func() { <-ctx.Done(); time.Sleep(50 * time.Millisecond) }
	var late admit.Admission[int]
	checked(t, door{Options: budget}).Admit(ctx, &late, "ada", both)
	wantOutcome(t, late.Result, admit.CallerGone)
	f.hook = func() {}
	cancel()
	wantRemaining(t, f, tokens, 9)
	tried := checked(t, door{Charges: []charge{{Limiter: one, Key: all}}, Options: options{Shadow: true}})
	ctx, leave := context.WithCancel(t.Context())
	f.hook = leave
	var a admit.Admission[int]
	tried.Admit(ctx, &a, "ada", both)
	if wantOutcome(t, a.Result, admit.Allowed); a.Decisions[0].Err != nil {
		t.Errorf("in shadow: %+v", a.Result)
	}
}

// Beside limiters that are enforced, those in shadow are charged for what goes on, each by itself.
func TestShadow(t *testing.T) {
	f := newFake(t)
	enforced, one, smooth := f.perMinute("enforced", 3), f.perMinute("one", 1), f.GCRA("smooth", loader.PerMinute(9))
	d := checked(t, door{Limits: f.Loader, Charges: []charge{
		{Limiter: one, Key: all, Shadow: true, Name: "new limit"}, {Limiter: enforced, Key: all},
		{Limiter: smooth, Key: all, Shadow: true, N: 2}, {Limiter: one, Key: admit.KeyOf[string](""), Shadow: true},
	}})
	for i, want := range [][]string{nil, {"new limit"}, {"new limit"}, nil} {
		r := ask(t, d)
		if got := r.Denied(true); !cmp.Equal(got, want) || r.Decided().Policy != "enforced" {
			t.Errorf("request %d would have been denied by %q, want %q; decided by %+v", i, got, want, r.Decided())
		}
		wantOutcome(t, r, map[bool]admit.Outcome{true: admit.Allowed, false: admit.Denied}[i < 3])
	}
	wantRemaining(t, f, smooth, 3)
	f.Close()
	down := checked(t, door{Limits: f.Loader, Charges: []charge{{Limiter: one, Key: all}, {Limiter: smooth, Key: all}},
		Options: options{Shadow: true, Slots: []admit.Slots[string]{{f.Concurrency("c", 1, time.Minute), all}}}})
	if r := ask(t, down); r.Outcome != admit.Allowed || len(r.Decisions) != 3 || r.Denied(true) != nil ||
		slices.ContainsFunc(r.Decisions, func(d admit.Decision) bool { return d.Err == nil || !d.Shadow }) {
		t.Errorf("without Redis: %+v", r)
	}
}

// Several limiters are charged all or none, and one that fails refuses.
func TestAllOrNone(t *testing.T) {
	f := newFake(t, loader.Timeout(time.Minute))
	address, account := f.perMinute("address", 3), f.perMinute("account", 1)
	d := checked(t, door{Limits: f.Loader, Charges: []charge{{Limiter: address, Key: all}, {Limiter: account, Key: all}}})
	if r := ask(t, d); r.Outcome != admit.Allowed || r.Decided().Policy != "account" || len(r.Decisions) != 2 {
		t.Errorf("%+v", r)
	}
	if r := ask(t, d); r.Outcome != admit.Denied || !cmp.Equal(r.Denied(false), []string{"account"}) ||
		r.RetryAfter != time.Minute {
		t.Errorf("%+v", r)
	}
	wantRemaining(t, f, address, 2)
	f.Close()
	if r := ask(t, d); r.Outcome != admit.Undecided || r.Err == nil || len(r.Decisions) > 0 || r.Degraded {
		t.Errorf("without Redis: %+v", r)
	}
	open := checked(t, door{Charges: []charge{{Limiter: f.ListLog("open", loader.PerMinute(1), loader.FailOpen()), Key: all}}})
	if r := ask(t, open); r.Outcome != admit.Allowed || !r.Degraded || r.Cause == nil {
		t.Errorf("FailOpen: %+v", r)
	}
}

// Slots are taken last; who gets none is charged nothing; those that were taken are released whatever happens.
func TestSlots(t *testing.T) {
	f := newFake(t)
	api, each, whole := f.perMinute("api", 5), f.Concurrency("each", 5, time.Minute), f.Concurrency("whole", 1, time.Minute)
	slots := options{Slots: []admit.Slots[string]{{each, all}, {whole, all}}}
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: slots})
	var first admit.Admission[int]
	d.Admit(t.Context(), &first, "ada", both)
	wantOutcome(t, first.Result, admit.Allowed)
	r := ask(t, d)
	if wantOutcome(t, r, admit.Denied); r.RetryAfter != time.Second || !cmp.Equal(r.Denied(false), []string{"whole"}) {
		t.Errorf("no slot: %+v", r)
	}
	wantRemaining(t, f, api, 4)
	wantRemaining(t, f, each, 4)
	slots.Shadow = true
	wantOutcome(t, ask(t, checked(t, door{Options: slots})), admit.Allowed)
	release := first.TakeOver()
	first.Release()
	wantRemaining(t, f, whole, 0)
	release()
	wantRemaining(t, f, whole, 1)
	if first.Context().Err() == nil {
		t.Error("the context goes on after the slot")
	}
	closed := options{Slots: []admit.Slots[string]{{f.Concurrency("closed", 0, time.Minute), all}}}
	if r := ask(t, checked(t, door{Options: closed})); r.Outcome != admit.Denied || r.RetryAfter != 0 {
		t.Errorf("n is 0: %+v", r)
	}
	for choice, want := range map[admit.Empty]admit.Outcome{
		admit.RefuseEmpty: admit.NoKey, admit.SkipEmpty: admit.Allowed, admit.ShareEmpty: admit.Denied,
	} {
		closed.Slots[0].Key = admit.KeyOf[string]("").IfEmpty(choice)
		wantOutcome(t, ask(t, checked(t, door{Options: closed})), want)
	}
}

func (f *fake) tokens(n int64) loader.Budget {
	return f.Budget("tokens", []loader.Limit{loader.PerMinute(n)})
}

// An estimate is reserved, settled by what the handler says, and given back where it does not run.
func TestBudget(t *testing.T) {
	f := newFake(t)
	tokens, api := f.tokens(10), f.perMinute("api", 5)
	for name, row := range map[string]struct {
		said      []int64
		remaining int64
	}{
		"nothing said": {nil, 6}, "more": {[]int64{1, 7}, 3}, "less": {[]int64{1}, 9}, "nothing used": {[]int64{0}, 10},
	} {
		f.FlushAll()
		d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{
			Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}}}})
		var a admit.Admission[int]
		d.Admit(t.Context(), &a, "ada", both)
		wantOutcome(t, a.Result, admit.Allowed)
		wantRemaining(t, f, tokens, 6)
		for _, n := range row.said {
			admit.Settle(a.Context(), n)
		}
		a.Release()
		a.Release()
		if t.Run(name, func(t *testing.T) { wantRemaining(t, f, tokens, row.remaining) }); name != "more" {
			continue
		}
		r := ask(t, d)
		if wantOutcome(t, r, admit.Denied); r.RetryAfter == 0 || !cmp.Equal(r.Denied(false), []string{"tokens"}) {
			t.Errorf("denied: %+v", r)
		}
		wantRemaining(t, f, api, 4)
	}
	f.FlushAll()
	refused := checked(t, door{Options: options{
		Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}},
		Slots:   []admit.Slots[string]{{f.Concurrency("closed", 0, time.Minute), all}}}})
	wantOutcome(t, ask(t, refused), admit.Denied)
	wantRemaining(t, f, tokens, 10)
	huge := checked(t, door{Options: options{Budgets: []admit.Budget[string]{{tokens, all,
		func(string) int64 { return 11 }}, {tokens, all, func(string) int64 { return 0 }}}}})
	if r := ask(t, huge); r.Outcome != admit.Denied || !errors.Is(r.Err, loader.ErrExceedsLimit) || len(r.Decisions) != 1 {
		t.Errorf("an estimate above the limit: %+v", r)
	}
	admit.Settle(t.Context(), 1) // outside a request it does nothing
}

// A budget that a policy granted is charged when Redis is back.
func TestDegradedBudget(t *testing.T) {
	f := newFake(t, loader.Timeout(time.Minute))
	tokens := f.Budget("tokens", []loader.Limit{loader.PerMinute(10)}, loader.FailOpen())
	d := checked(t, door{Options: options{
		Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}}}})
	f.SetError("LOADING")
	var a admit.Admission[int]
	d.Admit(t.Context(), &a, "ada", both)
	if wantOutcome(t, a.Result, admit.Allowed); !a.Degraded {
		t.Errorf("%+v", a.Result)
	}
	f.SetError("")
	admit.Settle(a.Context(), 3)
	a.Release()
	wantRemaining(t, f, tokens, 7)
}

// A client waits for slots and permits. What it would wait too long for is a denial.
func TestWait(t *testing.T) {
	f := newFake(t)
	one, two := f.perMinute("one", 1), f.perMinute("two", 1)
	charges := func(limiters ...loader.Limiter) door {
		d := door{Limits: f.Loader}
		for _, limiter := range limiters {
			d.Charges = append(d.Charges, charge{Limiter: limiter, Key: all})
		}
		return d
	}
	slow := charges(f.ListLog("slow", loader.PerMinute(1), loader.MaxWait(time.Second)))
	closed := f.ListLog("closed", loader.Limit{Window: time.Minute})
	for name, row := range map[string]struct {
		door
		first, second admit.Outcome
		retry         time.Duration
		late          bool // Err is context.DeadlineExceeded
	}{
		"one":         {charges(one), admit.Allowed, admit.Denied, time.Minute, true},
		"several":     {charges(two, f.perMinute("three", 9)), admit.Allowed, admit.Denied, time.Minute, true},
		"MaxWait":     {slow, admit.Allowed, admit.Denied, time.Minute, false},
		"0":           {charges(closed), admit.Denied, admit.Denied, 0, false},
		"0 of others": {charges(closed, f.perMinute("four", 9)), admit.Denied, admit.Denied, 0, false},
	} {
		d := checked(t, row.door)
		for i, want := range []admit.Outcome{row.first, row.second} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			var a admit.Admission[int]
			d.Admit(ctx, &a, "ada", both|admit.Waiting)
			cancel()
			if a.Release(); a.Outcome != want || want == admit.Denied && (a.RetryAfter != row.retry ||
				errors.Is(a.Err, context.DeadlineExceeded) != row.late || len(a.Denied(false)) != 1) {
				t.Errorf("%s, call %d: %+v", name, i, a.Result)
			}
		}
	}
	var unmade door
	if r := ask(t, &unmade); unmade.Check() == nil || r.Outcome != admit.Misconfigured {
		t.Errorf("a door that nobody made: %v, %+v", unmade.Check(), r)
	}
	dear := checked(t, door{Charges: []charge{{Limiter: f.perMinute("dear", 1), Key: all}},
		Options: options{Cost: func(string) int64 { return 2 }}})
	counted := checked(t, door{Charges: []charge{{Limiter: one, Key: all, CountIf: failed}}})
	for d, want := range map[*door]admit.Outcome{dear: admit.Denied, counted: admit.Misconfigured} {
		var a admit.Admission[int]
		d.Admit(t.Context(), &a, "ada", both|admit.Waiting)
		if wantOutcome(t, a.Result, want); a.Err == nil {
			t.Errorf("%+v", a.Result)
		}
	}
}

// Outcomes and results are written without subjects.
func TestLogValue(t *testing.T) {
	never := loader.Decision{Wait: loader.Never}
	for want, r := range map[string]admit.Result{
		"[outcome=allowed shadow_denied=new]": {Decisions: []admit.Decision{{Decision: never, Policy: "new", Subject: "ada",
			Shadow: true}}},
		"[outcome=denied denied=a,b retry_after=1m0s]": {Outcome: admit.Denied, RetryAfter: time.Minute,
			Decisions: []admit.Decision{{Policy: "a"}, {Policy: "b"}, {Decision: loader.Decision{Granted: true}}}},
		"[outcome=undecided degraded=down error=late]": {Outcome: admit.Undecided, Degraded: true,
			Cause: errors.New("down"), Err: errors.New("late")},
	} {
		if got := fmt.Sprint(slog.AnyValue(r).Resolve()); got != want {
			t.Errorf("logged %s, want %s", got, want)
		}
	}
	if got := fmt.Sprint(admit.NoKey, admit.CallerGone, admit.Outcome(99)); got != "no key caller gone unknown" {
		t.Error(got)
	}
}
