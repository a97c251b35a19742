package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// Without a policy the limiter fails closed: 503, and no header says what nobody knows.
func TestFailClosed(t *testing.T) {
	m, limits := fake(t, loader.Timeout(50*time.Millisecond))
	one, two, byIP := limits.ListLog("one", loader.PerMinute(1)), limits.ListLog("two", loader.PerMinute(1)),
		httplimit.KeyByIP()
	var results []httplimit.Result
	single := check(t, httplimit.New(one, byIP, observed(&results)))
	all := check(t, httplimit.AllOf(limits, []httplimit.Charge{{Limiter: one, Key: byIP}, {Limiter: two, Key: byIP}},
		observed(&results)))
	slots := check(t, httplimit.AllOf(limits, nil, httplimit.Slots(limits.Concurrency("c", 1, time.Minute), byIP),
		observed(&results)))
	m.Close()
	for _, m := range []*httplimit.Middleware{single, all, slots} {
		answer := get(m.Handler(ok), ada)
		want := problem{"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			"Request cannot be satisfied due to temporary server capacity constraints", 503, nil}
		if p := problemOf(t, answer); answer.Code != 503 || !cmp.Equal(p, want) {
			t.Errorf("%d, %+v", answer.Code, p)
		}
		wantHeader(t, answer, "RateLimit", "")
		wantHeader(t, answer, "RateLimit-Policy", "")
	}
	for _, r := range results {
		if r.Outcome != httplimit.Undecided || r.Err == nil || r.Degraded {
			t.Errorf("result %+v", r)
		}
	}
}

// With a policy the policy decides, and the result says so for the log. What remains is not known.
func TestDegraded(t *testing.T) {
	m, limits := fake(t, loader.Timeout(time.Minute))
	var results []httplimit.Result
	open := check(t, httplimit.New(limits.ListLog("open", loader.PerMinute(1), loader.FailOpen()), httplimit.KeyByIP(),
		httplimit.Headers(httplimit.Draft11|httplimit.XRateLimit), observed(&results)))
	local := check(t, httplimit.New(limits.ListLog("local", loader.PerMinute(2), loader.FailLocal(0.5)),
		httplimit.KeyByIP(), failures, observed(&results)))
	both := check(t, httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: limits.ListLog("a", loader.PerMinute(1), loader.FailOpen()), Key: httplimit.KeyByIP()},
		{Limiter: limits.SliceRing("b", []loader.Limit{loader.PerMinute(1)}, loader.FailOpen()), Key: httplimit.KeyByIP()},
	}, observed(&results)))
	m.SetError("LOADING")
	answer := get(open.Handler(ok), ada)
	wantHeader(t, answer, "RateLimit-Policy", `"open";q=1;w=60`)
	wantHeader(t, answer, "RateLimit", "")
	wantHeader(t, answer, "X-RateLimit-Remaining", "")
	wantStatus(t, open.Handler(ok), ada, 200)
	wantStatus(t, both.Handler(ok), ada, 200, 200)
	wantStatus(t, local.Handler(ok), ada, 200, 429)
	for i, r := range results {
		if !r.Degraded || r.Cause == nil || r.Err != nil {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if text := logged(results[0]); !strings.Contains(text, "limit.outcome=allowed") ||
		!strings.Contains(text, "limit.degraded=") || !strings.Contains(text, "LOADING") {
		t.Errorf("logged %s", text)
	}
}

// logged is a result as log/slog writes it.
func logged(r httplimit.Result) string {
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("", "limit", r)
	return out.String()
}

// What a log has: which policies denied, and the error; no subjects.
func TestLogValue(t *testing.T) {
	m, limits := fake(t)
	var results []httplimit.Result
	byIP := httplimit.KeyByIP()
	h := check(t, httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: limits.ListLog("new", loader.PerMinute(1)), Key: byIP, Shadow: true},
		{Limiter: limits.ListLog("old", loader.PerMinute(2)), Key: byIP},
	}, observed(&results))).Handler(ok)
	wantStatus(t, h, ada, 200, 200, 429)
	m.SetError("ERR broken")
	wantStatus(t, h, ada, 503)
	for i, want := range []string{
		`limit.outcome=allowed`, `limit.outcome=allowed limit.shadow_denied=new`,
		`limit.outcome=denied limit.denied=old limit.retry_after=1m0s`, `limit.outcome=undecided limit.error="`,
	} {
		text := logged(results[i])
		if !strings.Contains(text, want) || strings.Contains(text, "192.0.2.7") {
			t.Errorf("result %d is logged as %s, want %s", i, text, want)
		}
	}
	if got := httplimit.Outcome(99).String(); got != "unknown" {
		t.Errorf("Outcome(99) is %q", got)
	}
}

// A client that left is not an error.
func TestCallerGone(t *testing.T) {
	m, limits := fake(t)
	var results []httplimit.Result
	byIP := httplimit.KeyByIP()
	one, two := limits.ListLog("one", loader.PerMinute(1), loader.FailOpen()), limits.ListLog("two", loader.PerMinute(1))
	for _, middleware := range []*httplimit.Middleware{
		httplimit.New(one, byIP, observed(&results)), httplimit.New(two, byIP, observed(&results)),
		httplimit.AllOf(limits, []httplimit.Charge{{Limiter: one, Key: byIP}, {Limiter: two, Key: byIP}},
			observed(&results)),
		httplimit.AllOf(limits, nil, httplimit.Slots(limits.Concurrency("c", 1, time.Minute), byIP), observed(&results)),
		httplimit.PerRequest(limits, func(r *http.Request) ([]httplimit.Charge, error) { return nil, r.Context().Err() },
			observed(&results)),
	} {
		r, leave := cancelable(t)
		leave()
		answer := serve(check(t, middleware).Handler(ok), r)
		if answer.Code != 499 || answer.Body.Len() != 0 {
			t.Errorf("%d, %s", answer.Code, answer.Body)
		}
	}
	for i, r := range results {
		if r.Outcome != httplimit.CallerGone || r.Err != nil {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if keys := m.Keys(); len(keys) != 0 {
		t.Errorf("charged: %v", keys)
	}
}

// leaving is a hook of the Redis client that has the client of a request leave when a server has decided.
type leaving struct{ leave func() }

// whoLeaves is a loader with such a hook.
func whoLeaves(t *testing.T) (*loader.Loader, *leaving) {
	m, _ := fake(t)
	rdb, hook := clientOf(t, m.Addr()), &leaving{func() {}}
	rdb.AddHook(hook)
	limits := loader.New(rdb)
	if err := limits.Preload(t.Context()); err != nil {
		t.Fatal(err)
	}
	return limits, hook
}

func (l *leaving) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *leaving) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { defer l.leave(); return next(ctx, cmd) }
}

func (l *leaving) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { defer l.leave(); return next(ctx, cmds) }
}

// If the client leaves while its request is decided, the handler is not called, and what was charged is given back
// where the limiter can: with one limiter as with several.
func TestClientLeaves(t *testing.T) {
	limits, hook := whoLeaves(t)
	all, minute := httplimit.KeyOf("all"), loader.PerMinute(5)
	one, two, pace := limits.ListLog("one", minute), limits.ZSetLog("two", minute), limits.GCRA("pace", minute)
	tried := limits.ListLog("tried", minute)
	var results []httplimit.Result
	for name, middleware := range map[string]*httplimit.Middleware{
		"one": httplimit.New(one, all, observed(&results)), "pace": httplimit.New(pace, all, observed(&results)),
		"all": httplimit.AllOf(limits, []httplimit.Charge{{Limiter: one, Key: all}, {Limiter: two, Key: all},
			{Limiter: tried, Key: all, Shadow: true}}, observed(&results)),
	} {
		r, leave := cancelable(t)
		hook.leave = leave
		answer := serve(check(t, middleware).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error(name + ": the handler is called")
		})), r)
		if last := results[len(results)-1]; answer.Code != 499 || last.Outcome != httplimit.CallerGone || last.Err != nil {
			t.Errorf("%s: %d, %+v", name, answer.Code, last)
		}
	}
	for _, limiter := range []loader.Limiter{one, two, tried} {
		wantRemaining(t, limiter, "all", 5)
	}
	wantRemaining(t, pace, "all", 4)
}

// A charge in shadow refuses nobody, also if the client leaves while it is decided.
func TestClientLeavesShadow(t *testing.T) {
	limits, hook := whoLeaves(t)
	api := limits.ListLog("api", loader.PerMinute(5))
	var results []httplimit.Result
	r, leave := cancelable(t)
	hook.leave = leave
	shadow := httplimit.New(api, httplimit.KeyOf("all"), httplimit.Shadow(), observed(&results))
	if answer := serve(check(t, shadow).Handler(ok), r); answer.Code != 200 || results[0].Decisions[0].Err != nil {
		t.Errorf("%d, %+v", answer.Code, results)
	}
	wantRemaining(t, api, "all", 4)
}

// A deadline of the request's context is not the client's doing.
func TestDeadline(t *testing.T) {
	_, limits := fake(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	m := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP()))
	r, _ := cancelable(t)
	if answer := serve(m.Handler(ok), r.WithContext(ctx)); answer.Code != 503 {
		t.Errorf("%d, want 503", answer.Code)
	}
}

// hanging is a hook of the Redis client that has no server answer.
type hanging struct{ leaving }

func (*hanging) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error { <-ctx.Done(); return ctx.Err() }
}

// A decision ends at the deadline of the request's context, also if the limiter has more time.
func TestDeadlineOfDecision(t *testing.T) {
	m, _ := fake(t)
	rdb := clientOf(t, m.Addr())
	rdb.AddHook(&hanging{})
	api := loader.New(rdb, loader.Timeout(time.Hour)).ListLog("api", loader.PerMinute(1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var results []httplimit.Result
	h := check(t, httplimit.New(api, httplimit.KeyByIP(), observed(&results))).Handler(ok)
	answer := serve(h, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if answer.Code != 503 || !errors.Is(results[0].Err, context.DeadlineExceeded) {
		t.Errorf("%d, %+v", answer.Code, results)
	}
}

// The caller's own answer: S1's JSON body for a 429, and the usual ones for the rest.
func TestRefuse(t *testing.T) {
	_, limits := fake(t)
	m := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(),
		httplimit.Refuse(func(w http.ResponseWriter, r *http.Request, result httplimit.Result) {
			if result.Outcome != httplimit.Denied {
				httplimit.WriteProblem(w, r, result)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(result.Status)
			_, _ = w.Write([]byte(`{"code":429,"message":"too many requests","data":null}`))
		})))
	h := m.Handler(ok)
	get(h, ada)
	answer := get(h, ada)
	wantHeader(t, answer, "Retry-After", "60")
	wantHeader(t, answer, "RateLimit", `"api";r=0;t=60`)
	if answer.Code != 429 || !strings.HasPrefix(answer.Body.String(), `{"code":429`) {
		t.Errorf("%d, %s", answer.Code, answer.Body)
	}
	if answer := get(h, "@"); answer.Code != 400 || problemOf(t, answer).Status != 400 {
		t.Errorf("%d, %s", answer.Code, answer.Body)
	}
}

// A function that fails refuses its request, and is in the result.
func TestPerRequestFails(t *testing.T) {
	_, limits := fake(t)
	var results []httplimit.Result
	broken := errors.New("the plan is not known")
	m := check(t, httplimit.PerRequest(limits, func(*http.Request) ([]httplimit.Charge, error) { return nil, broken },
		observed(&results)))
	wantStatus(t, m.Handler(ok), ada, 503)
	if !errors.Is(results[0].Err, broken) {
		t.Errorf("result %+v", results[0])
	}
}

// All observers are told, also where a package that builds on this one has one of its own.
func TestSeveralObservers(t *testing.T) {
	_, limits := fake(t)
	var first, second []httplimit.Result
	wantStatus(t, check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(), observed(&first),
		httplimit.Observe(nil), observed(&second))).Handler(ok), ada, 200, 429)
	if len(first) != 2 || !cmp.Equal(first[1].Denied(false), second[1].Denied(false)) || second[1].Status != 429 {
		t.Errorf("the first was told %+v, the second %+v", first, second)
	}
}
