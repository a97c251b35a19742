package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// Without a fallback the limiter fails closed: 503, and no header says what nobody knows.
func TestFailClosed(t *testing.T) {
	m, limits := fake(t, loader.Timeout(50*time.Millisecond))
	h := check(t, httplimit.New(limits.ListLog("one", loader.PerMinute(1)), httplimit.KeyByIP())).Handler(ok)
	m.Close()
	answer := get(h, ada)
	want := problem{"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		"Request cannot be satisfied due to temporary server capacity constraints", 503, nil}
	if p := problemOf(t, answer); answer.Code != 503 || !cmp.Equal(p, want) {
		t.Errorf("%d, %+v", answer.Code, p)
	}
	wantHeader(t, answer, "RateLimit", "")
	wantHeader(t, answer, "RateLimit-Policy", "")
}

// With a fallback it decides, and the result says so. What remains is not known.
func TestDegraded(t *testing.T) {
	m, limits := fake(t, loader.Timeout(time.Minute))
	var results []httplimit.Result
	h := check(t, httplimit.New(limits.ListLog("open", loader.PerMinute(1), loader.FailOpen()), httplimit.KeyByIP(),
		httplimit.Headers(httplimit.Draft11|httplimit.XRateLimit), observed(&results))).Handler(ok)
	m.SetError("LOADING")
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit-Policy", `"open";q=1;w=60`)
	wantHeader(t, answer, "RateLimit", "")
	wantHeader(t, answer, "X-RateLimit-Remaining", "")
	if r := results[0]; answer.Code != 200 || !r.Degraded || r.Cause == nil || r.Err != nil {
		t.Errorf("%d, result %+v", answer.Code, r)
	}
}

// A client that left gets no body, and is not an error. A deadline of the request's context is not the client's doing.
func TestCallerGone(t *testing.T) {
	_, limits := fake(t)
	for status, end := range map[int]time.Duration{499: time.Hour, 503: -time.Second} {
		var results []httplimit.Result
		m := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(), observed(&results)))
		ctx, leave := context.WithDeadline(t.Context(), time.Now().Add(end))
		leave()
		answer := serve(m.Handler(ok), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if r := results[0]; answer.Code != status || answer.Body.Len() != 0 || r.Outcome != httplimit.CallerGone ||
			(r.Err != nil) != (status == 503) {
			t.Errorf("%d, %s, result %+v", answer.Code, answer.Body, r)
		}
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
	if answer := get(h, "@"); answer.Code != 500 || problemOf(t, answer).Status != 500 {
		t.Errorf("%d, %s", answer.Code, answer.Body)
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
