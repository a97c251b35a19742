package admit_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// deniedBy is the policy of the only decision, and whether it denies.
func deniedBy(t *testing.T, r admission.Result) string {
	t.Helper()
	if len(r.Decisions) != 1 || !r.Decisions[0].Denies() {
		t.Fatalf("want one denial: %+v", r)
	}
	return r.Decisions[0].Policy
}

// Who is refused twice in an hour is refused everything until one of these refusals is an hour old.
func TestBan(t *testing.T) {
	f := newFake(t)
	api, refusals := f.perMinute("api", 2), f.ListLog("api-ban", loader.Limit{Permits: 2, Window: time.Hour})
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all, Ban: refusals}}})
	for n, want := range []struct {
		outcome admission.Outcome
		policy  string
		retry   time.Duration
	}{
		{admission.Allowed, "", 0}, {admission.Allowed, "", 0},
		{admission.Denied, "api", 58 * time.Second}, {admission.Denied, "api-ban", time.Hour - time.Second},
	} {
		r := ask(t, d)
		if r.Outcome != want.outcome || r.RetryAfter != want.retry || want.policy != "" && deniedBy(t, r) != want.policy {
			t.Errorf("request %d: %+v, want %+v", n, r, want)
		}
		f.pass(time.Second)
	}
	f.pass(time.Minute)
	var sent atomic.Int64
	f.whenDecided(func() { sent.Add(1) })
	for range 3 { // there is room again, and nobody is let through
		if r := ask(t, d); r.Outcome != admission.Denied || deniedBy(t, r) != "api-ban" {
			t.Errorf("banned: %+v", r)
		}
	}
	if n := sent.Load(); n != 3 {
		t.Errorf("3 requests of who is banned took %d round trips, want 3", n)
	}
	wantRemaining(t, f, api, 2)
	f.pass(time.Hour - 62*time.Second) // the first refusal is an hour old
	wantOutcome(t, ask(t, d), admission.Allowed)
}

// A ban that this process does not know of yet lets nothing through, and what was charged goes back.
func TestBanOfOthers(t *testing.T) {
	f := newFake(t)
	api, refusals := f.perMinute("other", 2), f.ListLog("other-ban", loader.Limit{Permits: 1, Window: time.Hour})
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all, Ban: refusals}}})
	_, err := refusals.Allow(t.Context(), "all")
	must(t, err)
	if r := ask(t, d); r.Outcome != admission.Denied || r.RetryAfter != time.Hour || deniedBy(t, r) != "other-ban" {
		t.Errorf("%+v", r)
	}
	wantRemaining(t, f, api, 2)
	must(t, refusals.Reset(t.Context(), "all"))
	wantOutcome(t, ask(t, d), admission.Allowed) // the ban was lifted, and the next request knows
}

// While one ban refuses a request, its other refusals are not charged.
func TestBanAlone(t *testing.T) {
	f := newFake(t)
	hour := func(name string) loader.Limiter { return f.ListLog(name, loader.Limit{Permits: 1, Window: time.Hour}) }
	banned, full, refusals := hour("banned"), f.perMinute("full", 1), hour("full-ban")
	for _, limiter := range []loader.Limiter{banned, full} {
		_, err := limiter.Allow(t.Context(), "all")
		must(t, err)
	}
	d := checked(t, door{Limits: f.Loader, Charges: []charge{
		{Limiter: f.perMinute("free", 9), Key: all, Ban: banned}, {Limiter: full, Key: all, Ban: refusals}}})
	wantOutcome(t, ask(t, d), admission.Denied)
	wantRemaining(t, f, refusals, 1)
}

// A ban that several limiters of a request share answers once, under the name of its limiter.
func TestBanOfSeveral(t *testing.T) {
	f := newFake(t)
	refusals := f.ListLog("login-ban", loader.Limit{Permits: 1, Window: time.Hour})
	_, err := refusals.Allow(t.Context(), "all")
	must(t, err)
	day := charge{Limiter: f.perMinute("login-day", 9), Key: all, Ban: refusals}
	minute := charge{Limiter: f.perMinute("login", 9), Key: all, Ban: refusals}
	d := checked(t, door{Limits: f.Loader, Charges: []charge{day, minute}})
	if name := deniedBy(t, ask(t, d)); name != "login-ban" {
		t.Error(name)
	}
	ban := func() loader.Limiter { return f.ListLog("both-ban", loader.PerHour(9), loader.FailOpen()) }
	full := func(name string) charge { return charge{Limiter: f.perMinute(name, 0), Key: all, Ban: ban()} }
	d = checked(t, door{Limits: f.Loader, Charges: []charge{full("both"), full("both-day")}})
	wantOutcome(t, ask(t, d), admission.Denied)
	wantRemaining(t, f, ban(), 8)
}

// In shadow a ban is reported, and refuses nobody.
func TestBanInShadow(t *testing.T) {
	f := newFake(t)
	api, refusals := f.perMinute("shadow", 1), f.ListLog("shadow-ban", loader.Limit{Permits: 1, Window: time.Hour})
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{Ban: refusals, Shadow: true}})
	ask(t, d)
	for range 2 {
		r := ask(t, d)
		if denied := r.Denied(true); r.Outcome != admission.Allowed || len(denied) != 1 || denied[0] != "shadow-ban" {
			t.Errorf("%+v", r)
		}
	}
}

// What a ban in shadow answers for is given back all the same, if it does not count.
func TestBanInShadowGivesBack(t *testing.T) {
	f := newFake(t)
	api, refusals := f.perMinute("counted", 50), f.perMinute("counted-ban", 1)
	_, err := refusals.Allow(t.Context(), "all")
	must(t, err)
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all, Ban: refusals, CountIf: failed, Shadow: true}}})
	var q admit.Request
	d.Decide(t.Context(), &q, "ada", both)
	must(t, q.Finish(t.Context(), 200))
	wantRemaining(t, f, api, 50)
}

// A ban does not promise room to a request that no wait would grant.
func TestBanOfWhatExceeds(t *testing.T) {
	f := newFake(t)
	refusals := f.ListLog("dear-ban", loader.Limit{Permits: 1, Window: time.Hour})
	d := checked(t, door{Charges: []charge{{Limiter: f.perMinute("dear", 2), Key: all, Ban: refusals}},
		Options: options{Cost: func(string) int64 { return 3 }}})
	if r := ask(t, d); deniedBy(t, r) != "dear-ban" || r.RetryAfter != 0 || !errors.Is(r.Err, loader.ErrExceedsLimit) {
		t.Errorf("%+v", r)
	}
}

// A full quota is no refusal while another one lets the request through.
func TestBanOfQuota(t *testing.T) {
	f := newFake(t)
	refusals := f.perMinute("quota-ban", 9)
	full, free := f.perMinute("full", 1), f.perMinute("free", 2)
	d := checked(t, door{Limits: f.Loader, Charges: []charge{
		{Limiter: full, Key: all, Quota: true, Ban: refusals}, {Limiter: free, Key: all, Quota: true}}})
	for _, left := range []int64{9, 9, 8} {
		ask(t, d)
		wantRemaining(t, f, refusals, left)
	}
}

// A ban is looked at while budgets are reserved.
func TestBanBesideBudget(t *testing.T) {
	f := newFake(t)
	d := checked(t, door{
		Charges: []charge{{Limiter: f.perMinute("new", 9), Key: all, Ban: f.perMinute("new-ban", 9), Shadow: true}},
		Options: options{Budgets: []admit.Budget[string]{{f.tokens(9), all, func(string) int64 { return 4 }}}}})
	wantOutcome(t, ask(t, d), admission.Allowed)
}

// While Redis does not decide, the fallback of the limiter of refusals decides, or nobody.
func TestBanWithoutRedis(t *testing.T) {
	f := newFake(t)
	open := f.ListLog("open", loader.PerMinute(1), loader.FailOpen())
	for _, test := range []struct {
		opts []loader.LimiterOption
		want admission.Outcome
	}{{nil, admission.Undecided}, {[]loader.LimiterOption{loader.FailOpen()}, admission.Allowed}} {
		refusals := f.ListLog("open-ban", loader.PerMinute(1), test.opts...)
		d := checked(t, door{Charges: []charge{{Limiter: open, Key: all, Ban: refusals}}})
		f.SetError("LOADING")
		wantOutcome(t, ask(t, d), test.want)
		f.SetError("")
	}
}

// A client waits, so it is not refused.
func TestBanOfClient(t *testing.T) {
	f := newFake(t)
	d := checked(t, door{Charges: []charge{{Limiter: f.perMinute("api", 1), Key: all, Ban: f.perMinute("ban", 1)}}})
	var q admit.Request
	d.Decide(t.Context(), &q, "ada", both|admit.Waiting)
	wantOutcome(t, q.Result, admission.Misconfigured)
}
