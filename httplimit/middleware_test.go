package httplimit_test

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// Each address has its limit, the denial says when to come back, and then the client is let in.
func TestNew(t *testing.T) {
	m, limits := fake(t)
	h := httplimit.New(limits.ListLog("login", loader.PerMinute(2)), httplimit.KeyByIP()).Handler(ok)
	wantStatus(t, h, ada, 200)
	m.SetTime(second0.Add(10 * time.Second))
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit-Policy", `"login";q=2;w=60`)
	wantHeader(t, answer, "RateLimit", `"login";r=0;t=60`)
	wantHeader(t, answer, "Retry-After", "")

	m.SetTime(second0.Add(10*time.Second + time.Millisecond))
	answer = get(h, ada)
	wantHeader(t, answer, "RateLimit", `"login";r=0;t=50`)
	wantHeader(t, answer, "Retry-After", "50")
	want := problem{"https://iana.org/assignments/http-problem-types#quota-exceeded",
		"Request cannot be satisfied as assigned quota has been exceeded", 429, []string{"login"}}
	if got := problemOf(t, answer); answer.Code != 429 || !cmp.Equal(got, want) {
		t.Errorf("denied with %d and %+v", answer.Code, got)
	}
	wantStatus(t, h, bob, 200)
	m.SetTime(second0.Add(time.Minute + time.Millisecond))
	wantStatus(t, h, ada, 200, 429)
}

// Several limiters are told in the headers, and who denies in the body.
func TestAllOf(t *testing.T) {
	_, limits := fake(t)
	h := check(t, httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: limits.ListLog("address", loader.PerMinute(2)), Key: httplimit.KeyByIP()},
		{Limiter: limits.SliceRing("service", []loader.Limit{loader.PerMinute(3), loader.PerHour(5)}),
			Key: httplimit.KeyOf("all"), Name: "everyone"},
	})).Handler(ok)
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit-Policy", `"address";q=2;w=60, "everyone-1m";q=3;w=61, "everyone-1h";q=5;w=3618`)
	wantHeader(t, answer, "RateLimit", `"address";r=1;t=60, "everyone-1m";r=2;t=61, "everyone-1h";r=4;t=3618`)
	wantStatus(t, h, ada, 200)
	answer = get(h, ada)
	wantHeader(t, answer, "RateLimit", `"address";r=0;t=60`)
	if p := problemOf(t, answer); answer.Code != 429 || !cmp.Equal(p.Violated, []string{"address"}) {
		t.Errorf("denied with %d, %+v", answer.Code, p)
	}
	must(t, limits.Flush(t.Context()))
	wantStatus(t, h, bob, 200)
	if p := problemOf(t, get(h, bob)); !cmp.Equal(p.Violated, []string{"everyone-1m"}) {
		t.Errorf("denied by %q", p.Violated)
	}
}

// The charges differ from request to request, and an error is 503.
func TestPerRequest(t *testing.T) {
	_, limits := fake(t)
	api := limits.ListLog("api", loader.PerMinute(1))
	h := check(t, httplimit.PerRequest(limits, func(r *http.Request) ([]httplimit.Charge, error) {
		if r.RemoteAddr == bob {
			return nil, errors.New("no such plan")
		}
		return []httplimit.Charge{{Limiter: api.With(loader.PerMinute(8)), Key: httplimit.KeyByIP(), N: 4}}, nil
	})).Handler(ok)
	wantStatus(t, h, ada, 200, 200, 429)
	wantStatus(t, h, bob, 503)
}

// A request without an API key is refused, skipped or shared as the key says, and LimiterBy is not asked about it.
func TestLimiterByWithoutKey(t *testing.T) {
	_, limits := fake(t)
	api := limits.ListLog("api", loader.PerMinute(1))
	for choice, want := range map[httplimit.Empty]int{
		httplimit.RefuseEmpty: 400, httplimit.SkipEmpty: 200, httplimit.ShareEmpty: 503,
	} {
		var results []httplimit.Result
		m := check(t, httplimit.New(api, httplimit.KeyByHeader("X-Api-Key").IfEmpty(choice), observed(&results),
			httplimit.LimiterBy(func(r *http.Request) loader.Limiter {
				if choice != httplimit.ShareEmpty {
					t.Errorf("%v: LimiterBy is called", choice)
				}
				return nil // no such plan
			})))
		answer := serve(m.Handler(ok), httptest.NewRequest(http.MethodGet, "/", nil))
		if answer.Code != want || want == 400 && results[0].Missing != "api" {
			t.Errorf("%v: %d, %+v", choice, answer.Code, results)
		}
	}
}

// LimiterBy and Cost choose for each request. What costs more than the limit has no time to come back.
func TestLimiterByAndCost(t *testing.T) {
	_, limits := fake(t)
	api := limits.ListLog("api", loader.PerMinute(1))
	h := check(t, httplimit.New(api, httplimit.KeyByIP(),
		httplimit.LimiterBy(func(*http.Request) loader.Limiter { return api.With(loader.PerMinute(5)) }),
		httplimit.Cost(func(r *http.Request) int64 { return int64(len(r.URL.Path)) }))).Handler(ok)
	for _, test := range []struct {
		path       string
		want       int
		limit      string
		retryAfter string
	}{
		{"/ab", 200, `"api";r=2;t=60`, ""}, {"/ab", 429, `"api";r=2;t=60`, "60"}, {"/abcde", 429, "", ""},
	} {
		answer := serve(h, httptest.NewRequest(http.MethodGet, test.path, nil))
		if answer.Code != test.want {
			t.Errorf("%s: %d, want %d", test.path, answer.Code, test.want)
		}
		wantHeader(t, answer, "RateLimit", test.limit)
		wantHeader(t, answer, "Retry-After", test.retryAfter)
	}
}

// A limit of 0 denies without a time to wait for.
func TestZeroLimit(t *testing.T) {
	_, limits := fake(t)
	h := httplimit.New(limits.ListLog("export", loader.Limit{}), httplimit.KeyByIP()).Handler(ok)
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit-Policy", `"export";q=0`)
	wantHeader(t, answer, "RateLimit", `"export";r=0`)
	wantHeader(t, answer, "Retry-After", "")
	if answer.Code != 429 {
		t.Errorf("%d, want 429", answer.Code)
	}
}

func TestSkip(t *testing.T) {
	_, limits := fake(t)
	health := httplimit.Skip(func(r *http.Request) bool { return r.URL.Path == "/health" })
	h := httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(), health, nil).Handler(ok)
	wantStatus(t, h, ada, 200, 429)
	r := httptest.NewRequest(http.MethodGet, "/health", nil)
	r.RemoteAddr = ada
	if answer := serve(h, r); answer.Code != 200 || answer.Header().Get("RateLimit") != "" {
		t.Errorf("skipped: %d, %v", answer.Code, answer.Header())
	}
}

// RetryJitter only ever adds, and each whole second up to the maximum comes up.
func TestRetryJitter(t *testing.T) {
	_, limits := fake(t)
	m := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(),
		httplimit.RetryJitter(2*time.Second)))
	h := m.Handler(ok)
	wantStatus(t, h, ada, 200)
	seen := map[string]int{}
	for range 300 {
		answer := get(h, ada)
		seen[answer.Header().Get("Retry-After")]++
		wantHeader(t, answer, "RateLimit", `"api";r=0;t=60`)
	}
	for after, n := range seen {
		if s, err := strconv.Atoi(after); err != nil || s < 60 || s > 62 {
			t.Errorf("Retry-After %q, %d times", after, n)
		}
	}
	if seen["61"] == 0 || seen["62"] == 0 {
		t.Errorf("Retry-After: %v", seen)
	}
}

// A middleware inside another one: the headers of both.
func TestNested(t *testing.T) {
	_, limits := fake(t)
	set := httplimit.Headers(httplimit.Draft11 | httplimit.XRateLimit)
	inner := httplimit.New(limits.ListLog("inner", loader.PerMinute(5)), httplimit.KeyByIP(), set)
	outer := httplimit.New(limits.ListLog("outer", loader.PerMinute(2)), httplimit.KeyByIP(), set)
	answer := get(outer.Handler(inner.Handler(ok)), ada)
	got := answer.Header()["Ratelimit"]
	if want := []string{`"outer";r=1;t=60`, `"inner";r=4;t=60`}; !cmp.Equal(got, want) {
		t.Errorf("RateLimit: %q, want %q", got, want)
	}
	wantHeader(t, answer, "X-RateLimit-Remaining", "1")
	wantHeader(t, answer, "X-RateLimit-Limit", "2")
}

func TestXRateLimit(t *testing.T) {
	m, limits := fake(t)
	ring := limits.SliceRing("api", []loader.Limit{loader.PerMinute(5), loader.PerHour(3)})
	h := httplimit.New(ring, httplimit.KeyByIP(), httplimit.Headers(httplimit.Draft11|httplimit.XRateLimit)).Handler(ok)
	m.SetTime(second0.Add(time.Microsecond))
	answer := get(h, ada)
	wantHeader(t, answer, "RateLimit", `"api-1m";r=4;t=61, "api-1h";r=2;t=3618`)
	wantHeader(t, answer, "X-RateLimit-Limit", "3")
	wantHeader(t, answer, "X-RateLimit-Remaining", "2")
	wantHeader(t, answer, "X-RateLimit-Reset", strconv.FormatInt(second0.Unix()+3618, 10))

	answer = get(httplimit.New(ring, httplimit.KeyOf("03"), httplimit.Headers(httplimit.Draft03)).Handler(ok), ada)
	wantHeader(t, answer, "RateLimit-Limit", "3")
	wantHeader(t, answer, "RateLimit-Remaining", "2")
	wantHeader(t, answer, "RateLimit-Reset", "3618")
	second := limits.SliceRing("second", []loader.Limit{loader.PerSecond(5)}) // counts for 1.005 s
	answer = get(httplimit.New(second, httplimit.KeyByIP()).Handler(ok), ada)
	wantHeader(t, answer, "RateLimit-Policy", `"second";q=5;w=1`)
	wantHeader(t, answer, "RateLimit", `"second";r=4;t=1`)

	slots := httplimit.Slots(limits.Concurrency("slots", 1, time.Minute), httplimit.KeyByIP())
	slotted := httplimit.New(ring, httplimit.KeyOf("all"), slots, httplimit.Headers(httplimit.XRateLimit)).Handler(ok)
	answer = get(slotted, ada)
	wantHeader(t, answer, "X-RateLimit-Remaining", "2") // a slot has no reset
	wantHeader(t, answer, "RateLimit", "")

	alone := func(name string, limit loader.Limit) func(http.Handler) http.Handler {
		return httplimit.New(limits.ListLog(name, limit), httplimit.KeyByIP(), httplimit.Headers(httplimit.XRateLimit)).Handler
	}
	both := limits.SliceRing("both", []loader.Limit{loader.PerMinute(1), loader.PerHour(1)}) // the hour is what counts
	answer = get(httplimit.New(both, httplimit.KeyByIP(), httplimit.Headers(httplimit.XRateLimit)).Handler(ok), ada)
	wantHeader(t, answer, "X-RateLimit-Reset", strconv.FormatInt(second0.Unix()+3618, 10))
	minute, hour := alone("minute", loader.PerMinute(2)), alone("hour", loader.PerHour(2))
	never := alone("never", loader.Limit{})
	later := strconv.FormatInt(second0.Unix()+3601, 10)
	wantHeader(t, get(hour(minute(ok)), ada), "X-RateLimit-Reset", later) // the inner one comes later
	wantHeader(t, get(minute(hour(ok)), ada), "X-RateLimit-Reset", later)
	wantHeader(t, get(alone("one", loader.PerMinute(1))(never(ok)), ada), "X-RateLimit-Reset", "")

	none := httplimit.New(limits.ListLog("none", loader.PerMinute(1)), httplimit.KeyByIP(), httplimit.Headers(0)).Handler(ok)
	if answer := get(none, ada); len(answer.Header()) != 0 {
		t.Errorf("headers: %v, want none", answer.Header())
	}
}

// A GCRA is described by its burst and the time that refills it.
func TestGCRAHeaders(t *testing.T) {
	_, limits := fake(t)
	for _, test := range []struct {
		limit          loader.Limit
		policy, limit1 string
	}{
		{loader.Limit{Permits: 60, Window: time.Minute}, `"api";q=60;w=60`, `"api";r=59;t=1`},
		{loader.Limit{Permits: 60, Window: time.Minute, Burst: 5}, `"api";q=5;w=5`, `"api";r=4;t=1`},
		{loader.Limit{Permits: 7, Window: time.Second, Burst: 20}, `"api";q=20;w=3`, `"api";r=19;t=1`},
		{loader.Limit{Permits: 1, Window: 366 * 24 * time.Hour, Burst: 142}, `"api";q=142;w=4490380800`,
			`"api";r=141;t=31622400`},
	} {
		answer := get(httplimit.New(limits.GCRA("api", test.limit), httplimit.KeyOf(test.policy)).Handler(ok), ada)
		wantHeader(t, answer, "RateLimit-Policy", test.policy)
		wantHeader(t, answer, "RateLimit", test.limit1)
	}
}

// What is wrong is found by Check, and no request gets through.
func TestCheck(t *testing.T) {
	_, limits := fake(t)
	exact, byIP := limits.ListLog("exact", loader.PerMinute(5)), httplimit.KeyByIP()
	for want, m := range map[string]*httplimit.Middleware{
		"the key is empty":            httplimit.New(exact, httplimit.Key{}),
		"IPv6Prefix 0: want 1 to 128": httplimit.New(exact, httplimit.KeyByIP(httplimit.IPv6Prefix(0))),
		`proxy "proxy": want`:         httplimit.New(exact, httplimit.KeyByIP(httplimit.TrustForwarded("proxy"))),
		"no proxies":                  httplimit.New(exact, httplimit.KeyByIP(httplimit.TrustForwarded())),
		"one of the two": httplimit.New(exact, httplimit.KeyByIP(httplimit.TrustForwarded("::1"),
			httplimit.TrustXForwardedFor("::1"))),
		"the function is nil": httplimit.PerRequest(limits, nil),
		"RetryJitter -1ns":    httplimit.New(exact, byIP, httplimit.RetryJitter(-1)),
		"want 0 to 24h":       httplimit.New(exact, byIP, httplimit.RetryJitter(math.MaxInt64)),
	} {
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check: %v, want %q", err, want)
		}
		wantStatus(t, m.Handler(ok), ada, 500)
	}
}

// What is wrong and New does not return is logged, once; so is what shows only at a request, each cause for itself.
func TestNewLogs(t *testing.T) {
	var out bytes.Buffer
	before, flags := slog.Default(), log.Flags()
	defer func() { slog.SetDefault(before); log.SetOutput(os.Stderr); log.SetFlags(flags) }()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	_, limits := fake(t)
	wantStatus(t, httplimit.New(limits.ListLog("x", loader.Limit{Permits: -1}), httplimit.KeyByIP()).Handler(ok), ada, 500, 500)
	httplimit.New(limits.ListLog("right", loader.PerMinute(1)), httplimit.KeyByIP())
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "x: permits -1: want 0 or more") {
		t.Errorf("logged %s", text)
	}
	out.Reset()
	var plans map[string]loader.ListLog // has the zero limiter for every plan
	wantStatus(t, check(t, httplimit.New(limits.ListLog("right", loader.PerMinute(1)), httplimit.KeyByIP(),
		httplimit.LimiterBy(func(*http.Request) loader.Limiter { return plans["gold"] }))).Handler(ok), ada, 500, 500)
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "httplimit: requests are refused") {
		t.Errorf("logged %s", text)
	}
	out.Reset()
	m := check(t, httplimit.New(limits.ListLog("right", loader.PerMinute(1)), httplimit.KeyByIP(),
		httplimit.LimiterBy(func(*http.Request) loader.Limiter { return nil }))).Handler(ok)
	for _, peer := range []string{ada, "@", "@x", "[::1]:1"} { // an unknown plan is a cause, and peers without an address
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		m.ServeHTTP(httptest.NewRecorder(), r)
	}
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "no limiter") {
		t.Errorf("logged %s", text)
	}
}

// The lines at the top of README are those of the example.
func TestReadme(t *testing.T) {
	var texts [2]string
	for i, file := range []string{"../README.md", "example_test.go"} {
		text, err := os.ReadFile(file)
		must(t, err)
		texts[i] = string(text)
	}
	_, rest, _ := strings.Cut(texts[0], "    limits := loader.New(rdb)\n")
	lines, _, _ := strings.Cut(rest, "\n\n")
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); !strings.Contains(texts[1], line) {
			t.Errorf("README has %s, the example has not", line)
		}
	}
	if strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "httplimit.New(") {
		t.Errorf("README has %q behind loader.New", lines)
	}
}
