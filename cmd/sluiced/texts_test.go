package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// No text of a request outlives its call: with texts of 200 KB that are all different, in every place that a caller can
// fill, memory and series stay as they are. Values that a file wants in its metrics are short, and hide no other limit.
func TestTextsOfRequests(t *testing.T) {
	const size, rounds, mostBytes = 200 << 10, 100, 8 << 20
	s, _ := newService(t, map[string]string{
		"any.yaml": "limits:\n" + `  any: {when: hits > 0, by: 'descriptor["user"]', empty: shared, rates: 9999/1m}` + "\n" +
			`  web: {by: [request.ip, 'request.header["x-key"]'], empty: shared, rates: 9999/1m}`,
		"file.yaml": "domain: d\ndescriptors:\n" +
			"  - {key: t, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1000}}\n" +
			"  - {key: w, value: '*', detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1000}}\n",
	})
	s.metadata, s.headers.HeaderSet = true, 3
	long := func(what string, i int) string {
		return fmt.Sprintf("%s-%d-%s", what, i, strings.Repeat("x", size))
	}
	series := func() int { return strings.Count(scrape(t, s.metrics), "\n") }
	round := func(i int) {
		ask := func(domain, key, value string) {
			r := request(t, "user=1")
			r.Domain = domain
			r.Descriptors[0].Entries[0] = &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value}
			_, _ = s.answer(context.Background(), r)
		}
		ask(long("domain", i), "user", "1")
		ask("e", long("key", i), "1")
		ask("e", "user", long("value", i))
		ask("d", "t", long("detail", i%2))
		ask("d", long("w_key", i%2), "1")
		for _, body := range []string{
			fmt.Sprintf(`{"domain": "d", %q: 1}`, long("field", i)),
			fmt.Sprintf(`{"domain": "d", "descriptors": [{"entries": [{"key": "t"}], "hitsAddend": %q}]}`, long("hits", i)),
		} {
			s.serveJSON(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
		}
		r := httptest.NewRequest(http.MethodGet, "/auth/any/"+long("path", i)+"?"+long("query", i), nil)
		r.Method, r.Host = long("METHOD", i), long("host", i)
		for _, name := range []string{"X-Key", "User-Agent", "Cookie", long("X-Name", i)} {
			r.Header.Set(name, long("header", i))
		}
		s.serveAuth(httptest.NewRecorder(), r)
		for _, name := range []string{"X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Method", "X-Forwarded-For"} {
			r.Header.Set(name, long("/said", i))
		}
		s.serveAuth(httptest.NewRecorder(), r)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range 4 {
		round(i)
	}
	bytes, lines := heap(), series()
	for i := range rounds {
		round(4 + i)
	}
	if got := heap(); got > bytes+mostBytes {
		t.Errorf("%d MB more after %d calls of each kind", (got-bytes)>>20, rounds)
	}
	if got := series(); got != lines {
		t.Errorf("%d lines of metrics, want %d as before\n%.2000s", got, lines, scrape(t, s.metrics))
	}

	rule := s.limits.current.Load().domains["d"].file.Rules[0]
	for i := range 2 * maxDetails {
		s.metrics.decisions.Add(context.Background(), 1, s.metrics.set(labels{"d", fmt.Sprintf("t_%d", i), "ok"}, rule))
	}
	s.metrics.decisions.Add(context.Background(), 1, s.metrics.set(labels{"d", "real", "ok"}, nil))
	text := scrape(t, s.metrics)
	for _, want := range []string{`limit="real",outcome="ok"} 1`, `limit="t",outcome="ok"} `} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s", want)
		}
	}
	if strings.Contains(text, "otel_metric_overflow") || strings.Contains(text, strings.Repeat("x", 600)) {
		t.Error("values of requests hide limits, or are long")
	}
}
