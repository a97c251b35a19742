package admit_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

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
	wantOutcome(t, ask(t, one), admission.Allowed)
	f.pass(4 * time.Second)
	r := ask(t, twice(2, 1))
	if len(r.Decisions) != 1 || r.Decisions[0].Remaining != 1 || r.Decisions[0].Policy != "first" {
		t.Errorf("granted: %+v", r)
	}
	r = ask(t, twice(2, 1))
	wantOutcome(t, r, admission.Denied)
	if r.RetryAfter != time.Minute {
		t.Errorf("come back in %v, want 1m0s", r.RetryAfter)
	}
	f.pass(r.RetryAfter)
	var a admit.Request
	twice(2, 1).Decide(t.Context(), &a, "", both)
	wantOutcome(t, a.Result, admission.Allowed)
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := a.Finish(left, 200); err != nil { // the second does not count
		t.Error(err)
	}
	wantRemaining(t, f, api, 3)
	for _, n := range []int64{3, math.MaxInt64} {
		if r := ask(t, twice(n, n)); r.RetryAfter != 0 || !errors.Is(r.Err, loader.ErrExceedsLimit) {
			t.Errorf("%d twice, more than the limit together: %+v", n, r)
		}
	}
	wantOutcome(t, ask(t, twice(3, -1)), admission.Misconfigured)
	open := func() loader.Limiter { return f.ListLog("open", loader.PerMinute(5), loader.FailOpen()) }
	alike := checked(t, door{Limits: f.Loader, Choose: func(string) ([]charge, error) {
		return []charge{{Limiter: open(), Key: all}, {Limiter: open(), Key: all, N: 2}}, nil
	}})
	if r := ask(t, alike); r.Outcome != admission.Allowed || r.Decisions[0].Remaining != 2 {
		t.Errorf("two that were made alike: %+v", r)
	}
	each := checked(t, door{Limits: f.Loader, Charges: []charge{{Limiter: api, Key: all}, {Limiter: api, Key: byUser}}})
	if r := ask(t, each); len(r.Decisions) != 2 || r.Decisions[1].Remaining != 4 {
		t.Errorf("one limiter about two subjects: %+v", r)
	}
}

// What is wrong is found by Check, and no request goes on.
func TestCheck(t *testing.T) {
	f, foreign := newFake(t), newFake(t)
	api, smooth := f.perMinute("api", 5), f.GCRA("smooth", loader.PerMinute(5))
	one := func(c charge) door { return door{Charges: []charge{c}} }
	two := func(limits *loader.Loader, second charge) door {
		return door{Limits: limits, Charges: []charge{{Limiter: api, Key: all}, second}}
	}
	with := func(o options) door { return door{Limits: f.Loader, Options: o} }
	none := func(string) ([]charge, error) { return []charge{}, nil }
	cost, slots := options{Cost: func(string) int64 { return 1 }}, f.Concurrency("c", 1, time.Second)
	for want, d := range map[string]door{
		"the limiter is nil":         one(charge{Key: all}),
		"the key is empty":           one(charge{Limiter: api}),
		"the function is nil":        one(charge{Limiter: api, Key: admit.Join(all, admit.KeyBy[string](nil))}),
		"want RefuseEmpty":           one(charge{Limiter: api, Key: all.IfEmpty(7)}),
		"x: window 0s":               one(charge{Limiter: f.ListLog("x", loader.Limit{Permits: 1}), Key: all}),
		"smooth cannot give permits": one(charge{Limiter: smooth, Key: all, CountIf: failed}),
		`name "é\n": want printable`: one(charge{Limiter: api, Key: all, Name: "é\n"}),
		"smooth cannot give":         two(f.Loader, charge{Limiter: smooth, Key: all}),
		"the same Loader made":       two(foreign.Loader, charge{Limiter: api, Key: all}),
		"entry 0: want one that the": two(foreign.Loader, charge{Limiter: smooth, Key: all, Shadow: true}),
		"exceeds limit 5":            two(f.Loader, charge{Limiter: api, Key: all, N: 6}),
		"the Loader is nil":          two(nil, charge{Limiter: api, Key: all}),
		"door: the Loader is nil":    {Choose: none},
		"no charges, no Slots":       with(options{}),
		"one limiter":                with(options{LimiterBy: func(string) loader.Limiter { return api }}),
		"Cost are options for one":   {Limits: f.Loader, Choose: none, Options: cost},
		"c: n -1":                    with(options{Slots: []admit.Slots[string]{{f.Concurrency("c", -1, time.Second), all}}}),
		"door: the key is empty":     with(options{Slots: []admit.Slots[string]{{Limiter: slots}}}),
		"tokens: permits -1":         with(options{Budgets: []admit.Budget[string]{{f.tokens(-1), all, nil}}}),
		"of Budgets is nil":          with(options{Budgets: []admit.Budget[string]{{f.tokens(1), all, nil}}}),
		"an option is wrong":         with(options{Err: errors.New("an option is wrong")}),
		"CountIf: it cannot be": {Charges: []charge{{Limiter: api, Key: all, CountIf: failed}},
			Options: options{NoCount: "it cannot be"}},
	} {
		d.Package, d.Read = "door", readCharge
		d.Init()
		err := d.Check()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "door: ") {
			t.Errorf("Check: %v, want %q", err, want)
		}
		d.Options.Shadow = true
		wantOutcome(t, ask(t, &d), admission.Misconfigured)
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
		want    admission.Outcome
		is      error
	}{
		"right":                {[]charge{{Limiter: api, Key: byUser}}, nil, admission.Allowed, nil},
		"not limited":          {[]charge{}, nil, admission.Allowed, nil},
		"nil":                  {nil, nil, admission.Undecided, admission.ErrNoLimiter},
		"no limiter":           {[]charge{{Key: all}}, nil, admission.Undecided, admission.ErrNoLimiter},
		"no limiter in shadow": {[]charge{{Key: all, Shadow: true}}, nil, admission.Undecided, admission.ErrNoLimiter},
		"no Ahead": {[]charge{{Limiter: ahead["gold"], Key: all}}, nil, admission.Undecided,
			admission.ErrNoLimiter},
		"an error": {nil, unknown, admission.Undecided, unknown},
		"GCRA in All": {[]charge{{Limiter: api, Key: all}, {Limiter: smooth, Key: all}}, nil, admission.Misconfigured,
			errors.ErrUnsupported},
		"CountIf of a GCRA": {[]charge{{Limiter: smooth, Key: all, CountIf: failed}}, nil, admission.Misconfigured,
			errors.ErrUnsupported},
		"the zero limiter": {[]charge{{Limiter: zero["gold"], Key: all}}, nil, admission.Misconfigured, nil},
		"a wrong key":      {[]charge{{Limiter: api, Key: all.IfEmpty(7)}}, nil, admission.Misconfigured, nil},
		"the zero key":     {[]charge{{Limiter: api}}, nil, admission.NoKey, nil},
		"a name":           {[]charge{{Limiter: api, Key: all, Name: "\x7f"}}, nil, admission.Misconfigured, nil},
	} {
		choose := func(string) ([]charge, error) { return row.charges, row.err }
		r := ask(t, checked(t, door{Limits: f.Loader, Choose: choose}))
		if r.Outcome != row.want || row.is != nil && !errors.Is(r.Err, row.is) ||
			row.want != admission.Allowed && row.want != admission.NoKey && r.Err == nil {
			t.Errorf("%s: %+v", name, r)
		}
		if r.Denied(false) != nil || row.want == admission.Allowed && len(r.Decisions) != len(row.charges) {
			t.Errorf("%s: %+v", name, r)
		}
		shadow := checked(t, door{Limits: f.Loader, Options: options{Shadow: true}, Choose: choose})
		wantOutcome(t, ask(t, shadow), admission.Allowed)
		if len(row.charges) > 0 && row.charges[0].Shadow != (name == "no limiter in shadow") {
			t.Errorf("%s: the program's own charges are changed", name)
		}
	}
	for _, o := range []options{
		{LimiterBy: func(string) loader.Limiter { return nil }},
		{LimiterBy: func(string) loader.Limiter { return nil }, Cost: func(string) int64 { return 1 }},
	} {
		r := ask(t, checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: o}))
		wantOutcome(t, r, admission.Undecided)
		if !errors.Is(r.Err, admission.ErrNoLimiter) {
			t.Errorf("LimiterBy returned nil: %+v", r)
		}
	}
	var unmade door
	if r := ask(t, &unmade); unmade.Check() == nil || r.Outcome != admission.Misconfigured {
		t.Errorf("a door that nobody made: %v, %+v", unmade.Check(), r)
	}
	dear := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{
		LimiterBy: func(string) loader.Limiter { return api.With(loader.PerMinute(9)) },
		Cost:      func(string) int64 { return 7 },
	}})
	if r := ask(t, dear); r.Decisions[0].Limit.Permits != 9 || r.Decisions[0].Permits != 7 {
		t.Errorf("a plan: %+v", r)
	}
	free := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{
		Cost: func(string) int64 { return 0 }}})
	closed := charge{Limiter: api.With(loader.PerMinute(0)), Key: admit.KeyOf[string]("").IfEmpty(admit.SkipEmpty)}
	skipped := checked(t, door{Charges: []charge{closed}})
	for name, d := range map[string]*door{"a free request": free, "an empty key that is skipped": skipped} {
		if r := ask(t, d); r.Outcome != admission.Allowed || r.Decisions != nil {
			t.Errorf("%s: %+v", name, r)
		}
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
			if shadow == (r.Outcome == admission.Denied) || shadow == errors.Is(r.Err, loader.ErrExceedsLimit) {
				t.Errorf("shadow %v: %+v", shadow, r)
			}
		}
	}
	wantRemaining(t, f, large, 4) // in shadow each is charged by itself
}

// A caller who leaves gets everything back, and no handler.
func TestCallerGone(t *testing.T) {
	f := newFake(t)
	one, two, tokens := f.perMinute("one", 5), f.perMinute("two", 5), f.tokens(9)
	slots := f.Concurrency("c", 1, time.Minute)
	budget := options{Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}}}
	for name, d := range map[string]door{
		"one":    {Charges: []charge{{Limiter: one, Key: all}}},
		"all":    {Limits: f.Loader, Charges: []charge{{Limiter: one, Key: all}, {Limiter: two, Key: all}}},
		"budget": {Options: budget},
		"both":   {Charges: []charge{{Limiter: one, Key: all}}, Options: budget},
		"quota":  {Charges: []charge{{Limiter: one, Key: all, Quota: true}}},
		"slots":  {Options: options{Slots: []admit.Slots[string]{{slots, all}}}},
	} {
		d := checked(t, d)
		for _, before := range []bool{true, false} {
			ctx, leave := context.WithCancel(t.Context())
			f.whenDecided(leave)
			if before {
				leave()
			}
			var a admit.Request
			d.Decide(ctx, &a, "ada", both)
			a.Release()
			f.whenDecided(func() {})
			if name != "slots" || before { // a slot that was taken has a context of its own to end
				wantOutcome(t, a.Result, admission.CallerGone)
				if a.Err != nil {
					t.Errorf("%s: %v", name, a.Err)
				}
			}
		}
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		var a admit.Request
		d.Decide(ctx, &a, "ada", both)
		wantOutcome(t, a.Result, admission.CallerGone)
		if !errors.Is(a.Err, context.DeadlineExceeded) {
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
	f.whenDecided(func() { <-ctx.Done(); time.Sleep(50 * time.Millisecond) })
	var late admit.Request
	checked(t, door{Options: budget}).Decide(ctx, &late, "ada", both)
	wantOutcome(t, late.Result, admission.CallerGone)
	f.whenDecided(func() {})
	cancel()
	wantRemaining(t, f, tokens, 9)
	patient := newFake(t, loader.Timeout(time.Minute))
	var cut admit.Request
	begun, answered := time.Now(), make(chan bool)
	patient.whenDecided(func() { <-answered })
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	checked(t, door{Charges: []charge{{Limiter: patient.perMinute("one", 5), Key: all}}}).Decide(ctx, &cut, "ada", both)
	wantOutcome(t, cut.Result, admission.CallerGone)
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("a decision took %v, past the deadline", took)
	}
	cancel()
	close(answered)
	tried := checked(t, door{Charges: []charge{{Limiter: one, Key: all}}, Options: options{Shadow: true}})
	ctx, leave := context.WithCancel(t.Context())
	f.whenDecided(leave)
	var a admit.Request
	tried.Decide(ctx, &a, "ada", both)
	wantOutcome(t, a.Result, admission.Allowed)
	if a.Decisions[0].Err != nil {
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
		wantOutcome(t, r, map[bool]admission.Outcome{true: admission.Allowed, false: admission.Denied}[i < 3])
	}
	wantRemaining(t, f, smooth, 3)
	f.Close()
	down := checked(t, door{Limits: f.Loader, Charges: []charge{{Limiter: one, Key: all}, {Limiter: smooth, Key: all}},
		Options: options{Shadow: true, Slots: []admit.Slots[string]{{f.Concurrency("c", 1, time.Minute), all}}}})
	r := ask(t, down)
	if r.Outcome != admission.Allowed || r.Err != nil || len(r.Decisions) != 3 || r.Denied(true) != nil ||
		slices.ContainsFunc(r.Decisions, func(d admission.Decision) bool { return d.Err == nil || !d.Shadow }) {
		t.Errorf("without Redis: %+v", r)
	}
}

// Several limiters are charged all or none, and one that fails refuses.
func TestAllOrNone(t *testing.T) {
	f := newFake(t, loader.Timeout(time.Minute))
	address, account := f.perMinute("address", 3), f.perMinute("account", 1)
	d := checked(t, door{Limits: f.Loader, Charges: []charge{{Limiter: address, Key: all}, {Limiter: account, Key: all}}})
	if r := ask(t, d); r.Outcome != admission.Allowed || r.Decided().Policy != "account" || len(r.Decisions) != 2 {
		t.Errorf("%+v", r)
	}
	if r := ask(t, d); r.Outcome != admission.Denied || !cmp.Equal(r.Denied(false), []string{"account"}) ||
		r.RetryAfter != time.Minute {
		t.Errorf("%+v", r)
	}
	wantRemaining(t, f, address, 2)
	f.Close()
	if r := ask(t, d); r.Outcome != admission.Undecided || r.Err == nil || len(r.Decisions) > 0 || r.Degraded {
		t.Errorf("without Redis: %+v", r)
	}
	open := f.ListLog("open", loader.PerMinute(1), loader.FailOpen())
	r := ask(t, checked(t, door{Charges: []charge{{Limiter: open, Key: all}}}))
	if r.Outcome != admission.Allowed || !r.Degraded || r.Cause == nil {
		t.Errorf("FailOpen: %+v", r)
	}
}
