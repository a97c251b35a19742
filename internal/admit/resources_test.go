package admit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Slots are taken last; who gets none is charged nothing; those that were taken are released whatever happens.
func TestSlots(t *testing.T) {
	f := newFake(t)
	api := f.perMinute("api", 5)
	each, whole := f.Concurrency("each", 5, time.Minute), f.Concurrency("whole", 1, time.Minute)
	slots := options{Slots: []admit.Slots[string]{{each, all}, {whole, all}}}
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: slots})
	var first admit.Request
	d.Decide(t.Context(), &first, "ada", both)
	wantOutcome(t, first.Result, admission.Allowed)
	r := ask(t, d)
	wantOutcome(t, r, admission.Denied)
	if r.RetryAfter != time.Second || !cmp.Equal(r.Denied(false), []string{"whole"}) {
		t.Errorf("no slot: %+v", r)
	}
	wantRemaining(t, f, api, 4)
	wantRemaining(t, f, each, 4)
	slots.Shadow = true
	wantOutcome(t, ask(t, checked(t, door{Options: slots})), admission.Allowed)
	release := first.TakeOver()
	first.Release()
	wantRemaining(t, f, whole, 0)
	release()
	wantRemaining(t, f, whole, 1)
	if first.Context().Err() == nil {
		t.Error("the context goes on after the slot")
	}
	closed := options{Slots: []admit.Slots[string]{{f.Concurrency("closed", 0, time.Minute), all}}}
	if r := ask(t, checked(t, door{Options: closed})); r.Outcome != admission.Denied || r.RetryAfter != 0 {
		t.Errorf("n is 0: %+v", r)
	}
	for choice, want := range map[admit.Empty]admission.Outcome{
		admit.RefuseEmpty: admission.NoKey, admit.SkipEmpty: admission.Allowed, admit.ShareEmpty: admission.Denied,
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
		settled   []int64
		remaining int64
	}{
		"nothing said": {nil, 6}, "more": {[]int64{1, 7}, 3}, "less": {[]int64{1}, 9}, "nothing used": {[]int64{0}, 10},
	} {
		f.FlushAll()
		d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{
			Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}}}})
		var a admit.Request
		d.Decide(t.Context(), &a, "ada", both)
		wantOutcome(t, a.Result, admission.Allowed)
		wantRemaining(t, f, tokens, 6)
		for _, n := range row.settled {
			admit.Settle(a.Context(), n)
		}
		a.Release()
		a.Release()
		t.Run(name, func(t *testing.T) { wantRemaining(t, f, tokens, row.remaining) })
		if name != "more" {
			continue
		}
		r := ask(t, d)
		wantOutcome(t, r, admission.Denied)
		if r.RetryAfter == 0 || !cmp.Equal(r.Denied(false), []string{"tokens"}) {
			t.Errorf("denied: %+v", r)
		}
		wantRemaining(t, f, api, 4)
	}
	f.FlushAll()
	refused := checked(t, door{Options: options{
		Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 4 }}},
		Slots:   []admit.Slots[string]{{f.Concurrency("closed", 0, time.Minute), all}}}})
	wantOutcome(t, ask(t, refused), admission.Denied)
	wantRemaining(t, f, tokens, 10)
	var outage admit.Request
	checked(t, door{Options: options{Budgets: []admit.Budget[string]{{tokens, all, func(string) int64 { return 9 }}}}}).
		Decide(t.Context(), &outage, "ada", both)
	f.SetError("LOADING")
	admit.Settle(outage.Context(), 1)
	outage.Release()
	f.SetError("")
	if err := f.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	wantRemaining(t, f, tokens, 9)
	huge := checked(t, door{Options: options{Budgets: []admit.Budget[string]{{tokens, all,
		func(string) int64 { return 11 }}, {tokens, all, func(string) int64 { return 0 }}}}})
	r := ask(t, huge)
	if r.Outcome != admission.Denied || !errors.Is(r.Err, loader.ErrExceedsLimit) || len(r.Decisions) != 1 {
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
	var a admit.Request
	d.Decide(t.Context(), &a, "ada", both)
	wantOutcome(t, a.Result, admission.Allowed)
	if !a.Degraded {
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
		first, second admission.Outcome
		retry         time.Duration
		late          bool // Err is context.DeadlineExceeded
	}{
		"one":         {charges(one), admission.Allowed, admission.Denied, time.Minute, true},
		"several":     {charges(two, f.perMinute("three", 9)), admission.Allowed, admission.Denied, time.Minute, true},
		"MaxWait":     {slow, admission.Allowed, admission.Denied, time.Minute, false},
		"0":           {charges(closed), admission.Denied, admission.Denied, 0, false},
		"0 of others": {charges(closed, f.perMinute("four", 9)), admission.Denied, admission.Denied, 0, false},
	} {
		d := checked(t, row.door)
		for i, want := range []admission.Outcome{row.first, row.second} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			var a admit.Request
			d.Decide(ctx, &a, "ada", both|admit.Waiting)
			cancel()
			a.Release()
			if a.Outcome != want || want == admission.Denied && (a.RetryAfter != row.retry ||
				errors.Is(a.Err, context.DeadlineExceeded) != row.late || len(a.Denied(false)) != 1) {
				t.Errorf("%s, call %d: %+v", name, i, a.Result)
			}
		}
	}
	pair := charges(f.perMinute("five", 9), f.perMinute("six", 3))
	pair.Charges[1].N = 2
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var q admit.Request
		checked(t, pair).Decide(ctx, &q, "ada", both|admit.Waiting)
		cancel()
		if wait, ok := errors.AsType[*loader.WaitError](q.Err); q.Outcome == admission.Denied && (!ok || wait.Permits != 2) {
			t.Errorf("the error is of %+v, want 2 permits", wait)
		}
	}
	var unmade door
	if r := ask(t, &unmade); unmade.Check() == nil || r.Outcome != admission.Misconfigured {
		t.Errorf("a door that nobody made: %v, %+v", unmade.Check(), r)
	}
	dear := checked(t, door{Charges: []charge{{Limiter: f.perMinute("dear", 1), Key: all}},
		Options: options{Cost: func(string) int64 { return 2 }}})
	counted := checked(t, door{Charges: []charge{{Limiter: one, Key: all, CountIf: failed}}})
	for d, want := range map[*door]admission.Outcome{dear: admission.Denied, counted: admission.Misconfigured} {
		var a admit.Request
		d.Decide(t.Context(), &a, "ada", both|admit.Waiting)
		wantOutcome(t, a.Result, want)
		if a.Err == nil || want == admission.Denied && a.Decisions[0].Wait != loader.Never {
			t.Errorf("%+v", a.Result)
		}
	}
}

// Outcomes and results are written without subjects.
func TestLogValue(t *testing.T) {
	never := loader.Decision{Wait: loader.Never}
	for want, r := range map[string]admission.Result{
		"[outcome=allowed shadow_denied=new]": {Decisions: []admission.Decision{
			{Decision: never, Policy: "new", Subject: "ada", Shadow: true}}},
		"[outcome=denied denied=a,b retry_after=1m0s]": {Outcome: admission.Denied, RetryAfter: time.Minute,
			Decisions: []admission.Decision{{Policy: "a"}, {Policy: "b"}, {Decision: loader.Decision{Granted: true}}}},
		"[outcome=undecided degraded=down error=late]": {Outcome: admission.Undecided, Degraded: true,
			Cause: errors.New("down"), Err: errors.New("late")},
	} {
		if got := fmt.Sprint(slog.AnyValue(r).Resolve()); got != want {
			t.Errorf("logged %s, want %s", got, want)
		}
	}
	got := fmt.Sprint(admission.NoKey, admission.CallerGone, admission.Outcome(99))
	if got != "no key caller gone unknown" {
		t.Error(got)
	}
}
