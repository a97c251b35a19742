package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// observed is an option that keeps the results.
func observed(results *[]httplimit.Result) httplimit.Option {
	return httplimit.Observe(func(_ *http.Request, r httplimit.Result) { *results = append(*results, r) })
}

// Shadow decides and charges, tells the observers, and lets everything through.
func TestShadow(t *testing.T) {
	denials := 0
	_, limits := fake(t, loader.Observe(loader.ObserverFunc(func(_ context.Context, e loader.Event) {
		if !e.Decision.Granted && e.Method != "Peek" {
			denials++
		}
	})))
	var results []httplimit.Result
	limiter := limits.ListLog("api", loader.PerMinute(1))
	h := check(t, httplimit.New(limiter, httplimit.KeyOf("all"), httplimit.Shadow(), observed(&results))).Handler(ok)
	wantStatus(t, h, ada, 200, 200, 200)
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit", "")
	wantHeader(t, answer, "Retry-After", "")
	wantRemaining(t, limiter, "all", 0)
	for i, r := range results {
		denied := cmp.Equal(r.Denied(true), []string{"api"})
		if denied != (i > 0) || r.Denied(false) != nil || r.Outcome != httplimit.Allowed || r.Status != 0 {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if denials != 3 || len(results) != 4 {
		t.Errorf("%d results, and the loader's observer saw %d denials", len(results), denials)
	}
}

func TestShadowHeaders(t *testing.T) {
	_, limits := fake(t)
	h := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(), httplimit.Shadow(),
		httplimit.Headers(httplimit.Draft11|httplimit.ShadowHeaders))).Handler(ok)
	get(h, ada)
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit", `"api";r=0;t=60`)
	wantHeader(t, answer, "Retry-After", "")
}

// Beside limits that are enforced, those in shadow are charged for what is let through, each by itself.
func TestShadowBesideEnforced(t *testing.T) {
	_, limits := fake(t)
	enforced, one := limits.ListLog("enforced", loader.PerMinute(3)), limits.ListLog("one", loader.PerMinute(1))
	smooth, all := limits.GCRA("smooth", loader.PerMinute(9)), httplimit.KeyOf("all")
	var results []httplimit.Result
	m := check(t, httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: one, Key: all, Shadow: true, Name: "new limit"},
		{Limiter: enforced, Key: all},
		{Limiter: smooth, Key: all, Shadow: true, N: 2},
		{Limiter: one, Key: httplimit.KeyByHeader("X-None"), Shadow: true}, // no value: it is not asked
	}, observed(&results)))
	wantStatus(t, m.Handler(ok), ada, 200, 200, 200, 429)
	wantRemaining(t, smooth, "all", 3)
	want := [][]string{nil, {"new limit"}, {"new limit"}, nil}
	for i, r := range results {
		if got := r.Denied(true); !cmp.Equal(got, want[i]) {
			t.Errorf("result %d would have denied by %q, want %q", i, got, want[i])
		}
	}
	if last := results[3]; !cmp.Equal(last.Denied(false), []string{"enforced"}) || last.RetryAfter != time.Minute {
		t.Errorf("the last result: %+v", last)
	}
}

// While Redis is down, Shadow lets everything through as well.
func TestShadowFails(t *testing.T) {
	m, limits := fake(t, loader.Timeout(50*time.Millisecond))
	m.Close()
	var results []httplimit.Result
	one, byIP := limits.ListLog("one", loader.PerMinute(1)), httplimit.KeyByIP()
	two := limits.ListLog("two", loader.PerMinute(1))
	slots := httplimit.Slots(limits.Concurrency("slots", 1, time.Minute), byIP)
	single := check(t, httplimit.New(one, byIP, httplimit.Shadow(), slots, observed(&results)))
	both := check(t, httplimit.AllOf(limits, []httplimit.Charge{{Limiter: one, Key: byIP}, {Limiter: two, Key: byIP}},
		httplimit.Shadow(), observed(&results)))
	wantStatus(t, single.Handler(ok), ada, 200)
	wantStatus(t, both.Handler(ok), ada, 200)
	for _, r := range results {
		for _, d := range r.Decisions {
			if d.Err == nil || !d.Shadow {
				t.Errorf("decision %+v, want an error in shadow", d)
			}
		}
		if len(r.Decisions) != 2 || r.Denied(true) != nil {
			t.Errorf("result %+v", r)
		}
	}
}
