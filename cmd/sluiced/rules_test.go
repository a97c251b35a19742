package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// newService returns a service over these files, on an embedded Redis whose clock stands still, and what stops that.
func newService(t *testing.T, sources map[string]string, opts ...func(*limits)) (*service, func()) {
	t.Helper()
	server, err := embedded.Start()
	must(t, err)
	t.Cleanup(server.Close)
	server.SetTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	made, err := newMetrics()
	must(t, err)
	limiters := loader.New(server.Client(), loader.Timeout(time.Second), loader.Observe(made.observer))
	l := &limits{loader: limiters, metrics: made}
	l.authLoader = l.loader
	for _, opt := range opts {
		opt(l)
	}
	must(t, l.loader.Preload(context.Background()))
	texts := map[string][]byte{}
	for name, text := range sources {
		texts[name] = []byte(text)
	}
	read, err := parseFiles(texts)
	must(t, err)
	must(t, l.apply(read))
	return &service{
		limits: l, timeout: time.Second, calls: make(chan struct{}, 100), metrics: made, log: newComplaints(discard),
	}, server.Close
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each rule of testdata/rules.yaml holds for the requests that show it.
func TestRules(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("testdata", "rules.yaml"))
	must(t, err)
	var rules []struct {
		Rule, File string
		Calls      []string
	}
	must(t, yaml.Load(src, &rules))
	for _, rule := range rules {
		t.Run(rule.Rule, func(t *testing.T) {
			s, _ := newService(t, map[string]string{"file.yaml": rule.File})
			for _, line := range rule.Calls {
				ask, want, _ := strings.Cut(line, " -> ")
				response, err := s.answer(context.Background(), request(t, ask))
				must(t, err)
				must(t, s.limits.loader.Flush(context.Background()))
				if got := shown(response); !matchesShown(got, want) {
					t.Errorf("%s: got %s, want %s", ask, got, want)
				}
			}
		})
	}
}

// matchesShown compares answers; "any" stands for any status.
func matchesShown(got, want string) bool {
	a, b := strings.Split(got, " ; "), strings.Split(want, " ; ")
	for i := range b {
		if i >= len(a) || a[i] != b[i] && b[i] != "any" {
			return false
		}
	}
	return len(a) == len(b)
}

// request reads descriptors as "a=1,b=2 own=0 limit=2/HOUR ; c=3 hits=2".
func request(t *testing.T, text string) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: "d"}
	for part := range strings.SplitSeq(text, " ; ") {
		words := strings.Fields(part)
		d := &commonv3.RateLimitDescriptor{}
		for pair := range strings.SplitSeq(words[0], ",") {
			key, value, _ := strings.Cut(pair, "=")
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			number, unit, _ := strings.Cut(value, "/")
			n, err := strconv.ParseUint(number, 10, 32)
			must(t, err)
			switch name {
			case "hits":
				r.HitsAddend = uint32(n)
			case "own":
				d.HitsAddend = wrapperspb.UInt64(n)
			case "limit":
				d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[unit]),
				}
			}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// shown writes an answer as the calls of rules.yaml do. It checks what holds for all answers.
func shown(r *ratelimitv3.RateLimitResponse) string {
	over := ratelimitv3.RateLimitResponse_OVER_LIMIT
	parts, denies := make([]string, len(r.Statuses)), false
	for i, s := range r.Statuses {
		parts[i] = "OK"
		if s.Code == over {
			parts[i], denies = "OVER", true
		}
		switch limit := s.CurrentLimit; {
		case limit != nil:
			parts[i] += fmt.Sprintf(" %d/%s %d", limit.RequestsPerUnit, limit.Unit, s.LimitRemaining)
			if s.DurationUntilReset.GetSeconds() < 1 && (s.Code == over || s.LimitRemaining < limit.RequestsPerUnit) {
				parts[i] += " without a reset"
			}
		case s.LimitRemaining == 1<<32-1:
			parts[i] += " unlimited"
		}
	}
	text := strings.Join(parts, " ; ")
	switch {
	case r.OverallCode == ratelimitv3.RateLimitResponse_UNKNOWN:
		text = "overall UNKNOWN: " + text
	case denies && r.OverallCode != over:
		text = "allowed: " + text
	case !denies && r.OverallCode == over:
		text = "denied: " + text
	}
	return text
}

// What is malformed is refused with a sentence on why, and charges nothing.
func TestMalformed(t *testing.T) {
	s, _ := newService(t, map[string]string{"file.yaml": "domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 1}}]"})
	for want, change := range map[string]func(*ratelimitv3.RateLimitRequest){
		"the domain is empty":         func(r *ratelimitv3.RateLimitRequest) { r.Domain = "" },
		"no descriptors":              func(r *ratelimitv3.RateLimitRequest) { r.Descriptors = nil },
		"descriptor 0 has no entries": func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].Entries = nil },
		"an entry without a key":      func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].Entries[0].Key = "" },
		"lets more through":           func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].IsNegativeHits = true },
		"hits_addend 1000000001":      func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].HitsAddend = wrapperspb.UInt64(1_000_000_001) },
		"the limit has the unit UNKNOWN": func(r *ratelimitv3.RateLimitRequest) {
			r.Descriptors[0].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
		},
		"101 descriptors": func(r *ratelimitv3.RateLimitRequest) {
			for range 100 {
				r.Descriptors = append(r.Descriptors, r.Descriptors[0])
			}
		},
	} {
		r := request(t, "a=1")
		change(r)
		_, err := s.answer(context.Background(), r)
		if _, bad := errors.AsType[*malformed](err); !bad || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	response, err := s.answer(context.Background(), request(t, "a=1"))
	must(t, err)
	if got := shown(response); got != "OK 1/MINUTE 0" {
		t.Errorf("after what was refused: %s", got)
	}
}

// Calls that no limit is about are counted, and a domain that no file has is logged.
func TestUnmatched(t *testing.T) {
	const file = "domain: e\ndescriptors: [{key: a, rate_limit: {unlimited: true}}]"
	s, _ := newService(t, map[string]string{"file.yaml": file})
	out := &output{}
	s.log = newComplaints(slog.New(slog.NewTextHandler(out, nil)))
	for _, domain := range []string{"d", "d", "e"} {
		for _, key := range []string{"a=1", "b=secret"} {
			r := request(t, key)
			r.Domain = domain
			_, err := s.answer(context.Background(), r)
			must(t, err)
		}
	}
	text := scrape(t, s.metrics)
	for _, want := range []string{`{reason="domain"} 4`, `{reason="descriptor"} 1`} {
		if !strings.Contains(text, "sluiced_unmatched_total"+want) {
			t.Errorf("want %s in %s", want, text)
		}
	}
	got := out.String()
	if strings.Count(got, "no file has the domain") != 1 || !strings.Contains(got, `the files have [\"e\"]`) {
		t.Error(got)
	}
}

// Without Redis the answer is what --fail says, within the timeout.
func TestOutage(t *testing.T) {
	file := map[string]string{"file.yaml": "domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 8}}]"}
	for fail, want := range map[string]string{"closed": "", "open": "OK", "local 1/4": "OK"} {
		s, stop := newService(t, file, func(l *limits) {
			option, err := settings{fail: fail}.failOption()
			must(t, err)
			l.fail = option
		})
		stop()
		if s.limits.survives() != (want != "") {
			t.Errorf("%s: ready without Redis: %t", fail, want == "")
		}
		response, err := s.answer(context.Background(), request(t, "a=1"))
		if got := ""; err == nil {
			if got = shown(response); got != want {
				t.Errorf("%s: %s, want %s", fail, got, want)
			}
		} else if want != "" || err.Error() != "no decision: Redis does not answer" {
			t.Errorf("%s: %v, want %q", fail, err, want)
		}
		if fail == "local 1/4" { // 2 of 8
			_, _ = s.answer(context.Background(), request(t, "a=1"))
			response, err := s.answer(context.Background(), request(t, "a=1"))
			if must(t, err); shown(response) != "OVER" || response.Statuses[0].DurationUntilReset.GetSeconds() < 1 {
				t.Errorf("the third: %v", response)
			}
		}
	}
}

// Metadata and headers are as the flags say, and metrics name no value of a request.
func TestAnswerBesides(t *testing.T) {
	s, _ := newService(t, map[string]string{"file.yaml": "domain: d\ndescriptors:\n" +
		"  - {key: a, metadata: {tier: gold}, rate_limit: {unit: minute, requests_per_unit: 1}}"})
	s.metadata, s.headers = true, 3
	for i, wantCode := range []string{"OK", "OVER_LIMIT"} {
		r, err := s.answer(context.Background(), request(t, "a=secret-value"))
		must(t, err)
		headers := map[string]string{}
		for _, h := range r.ResponseHeadersToAdd {
			headers[h.Key] = h.Value
		}
		if r.OverallCode.String() != wantCode || headers["Ratelimit-Policy"] != `"a";q=1;w=61` || (headers["Retry-After"] != "") != (i == 1) {
			t.Errorf("%v %v", r.OverallCode, headers)
		}
		fields := r.DynamicMetadata.AsMap()
		if _, found := fields["metadata"]; fields["domain"] != "d" || found != (i == 0) {
			t.Errorf("metadata %v", fields)
		}
	}
	text := scrape(t, s.metrics)
	if strings.Contains(text, "secret-value") || !strings.Contains(text, `sluiced_decisions_total{domain="d",limit="a",outcome="over_limit"} 1`) {
		t.Error(text)
	}
}

// check tells all mistakes of all files, of both kinds, with their places.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	write("ours.yaml", "limits:\n  api: {by: request.ipp, rates: 3/1m}\n")
	write("theirs.yaml", "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: minite, requests_per_unit: 1}\n")
	var out, errs bytes.Buffer
	a := app{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	if status := a.run(context.Background(), []string{"check", dir}); status != exitFailed {
		t.Errorf("exit status %d, want %d", status, exitFailed)
	}
	for _, want := range []string{`ours.yaml:2:13: by: `, `theirs.yaml:4:24: unknown unit "minite"`, "did you mean minute?"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%s: want %s", errs.String(), want)
		}
	}
	write("ours.yaml", "limits:\n  api: {by: request.ip, rates: 3/1m,\n"+
		"    overrides: [{subject: 192.0.2.7, rates: 9/1m, until: 2001-01-01T00:00:00Z}]}\n")
	write("theirs.yaml", "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: minute, requests_per_unit: 4000000000}\n")
	if status := a.run(context.Background(), []string{"check", dir}); status != exitDone {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
	for _, want := range []string{
		"a limit of 4000000000: 1000000000 is applied", "api: the override of 192.0.2.7 has ended, at 2001-01-01T00:00:00Z",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: want %s", out.String(), want)
		}
	}
	write("ours.yaml", "limits:\n"+gcraLimit)
	errs.Reset()
	if status := a.run(context.Background(), []string{"check", dir}); status != exitFailed ||
		!strings.Contains(errs.String(), "ours.yaml:2:3: gcra cannot give back what a limit of another file denies") {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
}

const gcraLimit = "  g: {when: 'keys == \"a\"', by: descriptor.a, empty: shared, rates: 1/1m, script: gcra}\n"

// A gcra is decided by itself, because it cannot give back: two at once are refused with the cure.
func TestGCRA(t *testing.T) {
	s, _ := newService(t, map[string]string{"file.yaml": "limits:\n" + gcraLimit})
	for ask, want := range map[string]string{"a=1": "OK 1/MINUTE 0", "a=2 ; b=1": "OK 1/MINUTE 0 ; OK"} {
		response, err := s.answer(context.Background(), request(t, ask))
		must(t, err)
		if got := shown(response); got != want {
			t.Errorf("%s: got %s, want %s", ask, got, want)
		}
	}
	_, err := s.answer(context.Background(), request(t, "a=3 ; a=4"))
	if _, bad := errors.AsType[*malformed](err); !bad || !strings.Contains(err.Error(), "want one descriptor") {
		t.Errorf("two at once: %v", err)
	}
}
