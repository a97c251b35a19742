package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// Metrics and /subjects tell which limits are applied, which are near, and who is refused. No label has a value of a
// request, and a limit that stays goes on counting.
func TestLimitsInForce(t *testing.T) {
	theirs := "domain: d\ndescriptors:\n  - {key: a, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	sources := map[string]string{
		"file.yaml": theirs + "  - {key: b, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}",
		"web.yaml":  "limits:\n  web: {by: request.ip, plan: request.method, plans: {GET: [1/1m, 9/1h], default: 3/1m}}",
	}
	s, _ := newService(t, sources)
	for range 4 {
		_, err := s.answer(context.Background(), request(t, "a="+strings.Repeat("x", 300)))
		must(t, err)
		s.serveAuth(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/auth/web", nil))
	}
	wants := func(wants ...string) {
		t.Helper()
		text := scrape(t, s.metrics)
		for _, want := range wants {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("want %s in\n%s", want, text)
			}
		}
	}
	wants(`sluiced_limit_info{domain="d",limit="a",mode="enforce",rates="2/minute"} 1`,
		`sluiced_limit_info{domain="d",limit="b",mode="shadow",rates="9/hour"} 1`,
		`sluiced_limit_info{domain="web",limit="web",mode="enforce",rates="GET:1/1m,9/1h default:3/1m"} 1`,
		`sluiced_limit_calls_total{domain="d",limit="a"} 4`, `sluiced_limit_calls_total{domain="d",limit="b"} 0`,
		`sluiced_limit_calls_total{domain="web",limit="web"} 4`, `sluiced_near_limit_total{domain="d",limit="a"} 1`,
		`sluiced_near_limit_total{domain="web",limit="web"} 1`)
	if text := scrape(t, s.metrics); !strings.Contains(text, "\ngo_goroutines ") || !strings.Contains(text, "\nprocess_") {
		t.Error("no metrics of the process")
	}
	w := httptest.NewRecorder()
	s.metrics.serveSubjects(w, nil)
	for _, want := range []string{
		`"limit": "web",` + "\n   " + `"subject": "192.0.2.1",` + "\n   " + `"at_least": 3,`, `"limit": "a",`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("want %s in\n%s", want, w.Body)
		}
	}
	read, err := parseFiles(map[string][]byte{"file.yaml": []byte(theirs)})
	must(t, err)
	must(t, s.limits.apply(read))
	wants(`sluiced_limit_calls_total{domain="d",limit="a"} 4`)
	if text := scrape(t, s.metrics); strings.Contains(text, `limit_calls_total{domain="web"`) {
		t.Errorf("a limit that is gone: %s", text)
	}
}

// A list of subjects is bounded, and has those that come often, however many others come once. Who has left it and
// comes again is not counted for fewer than it was.
func TestSubjects(t *testing.T) {
	var s subjects
	limit := limitKey{"d", "a"}
	for i := range 10_000 {
		s.add(limit, fmt.Sprint("once", i), 1)
		if i%10 == 0 {
			s.add(limit, "often", 0.9)
		}
	}
	list := s.list()
	if first := list[0]; len(list) != maxSubjects || first.Subject != "often" || first.Used != 90 ||
		first.AtLeast > 1000 || first.AtMost < 1000 {
		t.Errorf("%d subjects, the first %+v", len(list), first)
	}
	s.add(limit, "once0", 1)
	for _, one := range s.list() {
		if one.Subject == "once0" && (one.AtLeast != 1 || one.AtMost < 2) {
			t.Errorf("counted twice: %+v", one)
		}
	}
	s.since = s.since.Add(-2 * listTime)
	s.add(limitKey{"d", "a"}, strings.Repeat("x", 300), 1)
	if list := s.list(); len(list) != 1 || list[0].Subject != strings.Repeat("x", maxShown)+".." {
		t.Errorf("a list that begins anew: %+v", list)
	}
}

// A call about several limits that nobody decides is an error of each of them.
func TestUndecidedTogether(t *testing.T) {
	s, stop := newService(t, map[string]string{"file.yaml": "domain: d\ndescriptors:\n" +
		"  - {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}\n" +
		"  - {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}"})
	stop()
	_, err := s.answer(context.Background(), request(t, "a=1 ; b=1"))
	if text := scrape(t, s.metrics); err == nil || strings.Count(text, `,outcome="error"} 1`) != 2 ||
		strings.Contains(text, "not_asked") {
		t.Errorf("%v, %s", err, text)
	}
}

// hung is a Redis that answers nobody. It notes until when callers wait.
type hung struct {
	mu    sync.Mutex
	until []time.Time
}

func (h *hung) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hung) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error { return h.wait(ctx) }
}

func (h *hung) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, _ []redis.Cmder) error { return h.wait(ctx) }
}

func (h *hung) wait(ctx context.Context) error {
	until, _ := ctx.Deadline()
	h.mu.Lock()
	h.until = append(h.until, until)
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// One time bounds a call of forward auth, also one that asks Redis again, about a limit in shadow.
func TestAuthIsBounded(t *testing.T) {
	server, err := embedded.Start()
	must(t, err)
	defer server.Close()
	rdb, none := server.Client(), &hung{}
	rdb.AddHook(none)
	const timeout = 400 * time.Millisecond
	s, _ := newService(t, map[string]string{"web.yaml": "limits:\n  a: {by: request.ip, rates: 9/1m, fail: open}\n" +
		"  b: {by: request.ip, rates: 9/1m, mode: shadow}"}, func(l *limits) {
		l.authLoader = loader.New(rdb, loader.Timeout(timeoutOfRedis(timeout)))
	})
	s.authTimeout = timeout
	w := httptest.NewRecorder()
	s.serveAuth(w, httptest.NewRequest(http.MethodGet, "/auth/web", nil))
	none.mu.Lock() // a question that timed out may still be about to wait
	defer none.mu.Unlock()
	if first, last := none.until[0], none.until[len(none.until)-1]; w.Code != http.StatusOK || len(none.until) < 2 ||
		last.Sub(first) > timeout/2 {
		t.Errorf("%d, waited until %v", w.Code, none.until)
	}
}

// Headers of draft-03 may have other names, in the answers of all doors.
func TestHeaderNamesOfDraft03(t *testing.T) {
	sent, err := settings{headers: "draft-03", headerNames: "X-L,X-Rest,x-Reset"}.headerSet()
	must(t, err)
	s, _ := newService(t, map[string]string{"file.yaml": fmt.Sprintf(oneRule, 3), "web.yaml": "limits:\n" +
		"  web: {by: request.ip, rates: 1/1m}"}, func(l *limits) { l.headers = sent })
	s.headers = sent
	r, err := s.answer(context.Background(), request(t, "a=1"))
	must(t, err)
	got := fmt.Sprint(r.ResponseHeadersToAdd)
	for range 2 {
		w := httptest.NewRecorder()
		s.serveAuth(w, httptest.NewRequest(http.MethodGet, "/auth/web", nil))
		got += fmt.Sprint(w.Code, w.Header())
	}
	for _, want := range []string{`key:"X-L" value:"3"`, `key:"X-Rest" value:"2"`, `key:"x-Reset" value:"61"`,
		"200 map[X-L:[1] X-Rest:[0] x-Reset:[60]]", "Retry-After:[60] X-L:[1] X-Rest:[0] x-Reset:[60]]"} {
		if !strings.Contains(strings.ReplaceAll(got, "  ", " "), want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
	for headers, names := range map[string]string{"draft-11": "A,B,C", "draft-03": "A,B"} {
		if _, err := (settings{headers: headers, headerNames: names}).headerSet(); err == nil {
			t.Errorf("%s with names %s: no error", headers, names)
		}
	}
}
