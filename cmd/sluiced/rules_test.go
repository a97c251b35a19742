package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
	"github.com/sluice-redis/sluice/policy"
)

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

// What is malformed is refused with a sentence on why, and charges nothing.
func TestMalformed(t *testing.T) {
	s, _ := newService(t, map[string]string{"api.yaml": "limits:\n  api: {by: descriptor.a, empty: skip, rates: 9/1m}",
		"file.yaml": "domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 1}}]"})
	for want, change := range map[string]func(*ratelimitv3.RateLimitRequest){
		"the domain is empty":         func(r *ratelimitv3.RateLimitRequest) { r.Domain = "" },
		"no descriptors":              func(r *ratelimitv3.RateLimitRequest) { r.Descriptors = nil },
		"descriptor 0 has no entries": func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].Entries = nil },
		"an entry without a key":      func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].Entries[0].Key = "" },
		"lets more through":           func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].IsNegativeHits = true },
		"hits_addend 4294967295":      func(r *ratelimitv3.RateLimitRequest) { r.HitsAddend = 1<<32 - 1 },
		"descriptors [0 1]: 2000000000 hits in all": func(r *ratelimitv3.RateLimitRequest) {
			r.Descriptors[0].HitsAddend = wrapperspb.UInt64(1_000_000_000)
			r.Descriptors = append(r.Descriptors, r.Descriptors[0])
		},
		"want at most 8192": func(r *ratelimitv3.RateLimitRequest) {
			r.Descriptors[0].Entries[0].Value = strings.Repeat("x", 8193)
		},
		"hits_addend 1000000001": func(r *ratelimitv3.RateLimitRequest) { r.Descriptors[0].HitsAddend = wrapperspb.UInt64(1_000_000_001) },
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
	s.log = rarelog.New(slog.New(slog.NewTextHandler(out, nil)))
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
			got = shown(response)
			if got != want {
				t.Errorf("%s: %s, want %s", fail, got, want)
			}
		} else if want != "" || err.Error() != "no decision: Redis does not answer" {
			t.Errorf("%s: %v, want %q", fail, err, want)
		}
		if fail == "local 1/4" { // 2 of 8
			_, _ = s.answer(context.Background(), request(t, "a=1"))
			response, err := s.answer(context.Background(), request(t, "a=1"))
			must(t, err)
			if shown(response) != "OVER" || response.Statuses[0].DurationUntilReset.GetSeconds() < 1 {
				t.Errorf("the third: %v", response)
			}
		}
	}
}

// Metadata and headers are as the flags say, and metrics name no value of a request.
func TestAnswerBesides(t *testing.T) {
	s, _ := newService(t, map[string]string{"file.yaml": "domain: d\ndescriptors:\n" +
		"  - {key: a, metadata: {tier: gold}, rate_limit: {unit: minute, requests_per_unit: 1}}"})
	s.metadata, s.headers.HeaderSet = true, 3
	for i, wantCode := range []string{"OK", "OVER_LIMIT"} {
		r, err := s.answer(context.Background(), request(t, "a=secret-value"))
		must(t, err)
		headers := headersOf(r)
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

// A value that a header cannot have leaves out the limit of its name, and no other.
func TestHeaderNames(t *testing.T) {
	s, _ := newService(t, map[string]string{"file.yaml": "domain: d\ndescriptors:\n" +
		"  - {key: t, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 2}}\n" +
		"  - {key: a, rate_limit: {unit: minute, requests_per_unit: 3}}"})
	s.headers.HeaderSet = httplimit.Draft11 | httplimit.XRateLimit
	r, err := s.answer(context.Background(), request(t, "t=Zürich ; a=1"))
	must(t, err)
	headers := headersOf(r)
	if headers["Ratelimit-Policy"] != `"a";q=3;w=61` || !strings.HasPrefix(headers["Ratelimit"], `"a";r=2;t=`) ||
		headers["X-Ratelimit-Remaining"] != "1" {
		t.Errorf("%v", headers)
	}
}

// check tells all mistakes of all files, of both kinds, with their places.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	write("ours.yaml", "limits:\n  api: {by: request.ipp, rates: 3/1m}\n")
	write("theirs.yaml", "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: minite, requests_per_unit: 1}\n")
	must(t, os.Mkdir(filepath.Join(dir, "x"), 0o700))
	for _, name := range []string{"two.yaml", "x/two.yml"} {
		write(name, "limits:\n  b: {by: request.ip, rates: 3/1m}\n")
	}
	var out, errs bytes.Buffer
	a := app{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	if status := a.run(context.Background(), []string{"check", dir, dir + "/x"}); status != exitFailed {
		t.Errorf("exit status %d, want %d", status, exitFailed)
	}
	for line := range strings.Lines(errs.String()) { // as a problem matcher of CI finds it
		if !regexp.MustCompile("^" + regexp.QuoteMeta(dir) + `/[a-z/]+\.ya?ml:\d+:\d+: `).MatchString(line) {
			t.Errorf("%s: want file:line:column at the beginning", line)
		}
	}
	for _, want := range []string{`ours.yaml:2:13: by: `, `theirs.yaml:4:24: unknown unit "minite"`,
		"two.yml:1:1: two policy files of the name two", "did you mean minute?"} {
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
		!strings.Contains(errs.String(), dir+"/ours.yaml:2:3: gcra cannot give back what a limit of another file denies") {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
}

// What a client sends and no expression can read is the client's error: refused with 400, neither logged nor counted as
// an error of the limit.
func TestClientErrors(t *testing.T) {
	out := &output{}
	s, _ := newService(t, map[string]string{
		"x.yaml": "proxies: [192.0.2.1]\nlimits:\n  a: {by: request.header.a, empty: skip, rates: 9/1m}\n" +
			"  n: {by: request.ip, when: 'int(request.query.n) > 0', rates: 9/1m}\n" +
			"  s: {by: request.header.s, empty: skip, rates: 9/1m, mode: shadow}\n",
		"d.yaml": "limits:\n  d: {by: descriptor.a, empty: skip, rates: 9/1m}\n" +
			"  e: {when: keys == \"e\", by: descriptor.e, empty: refuse, rates: 9/1m}\n",
	}, func(l *limits) { l.opts = []policy.Option{policy.Logger(slog.New(slog.NewTextHandler(out, nil)))} })
	s.log = rarelog.New(slog.New(slog.NewTextHandler(out, nil)))
	long := strings.Repeat("x", 15_000)
	for _, ask := range []struct {
		uri, header string
		want        int
	}{{"/?n=1", "a", 400}, {"/?n=one", "b", 400}, {"/?n=1", "s", 200}, {"/?n=1&n=2", "b", 400}} {
		r, w := httptest.NewRequest("GET", "/auth/x", nil), httptest.NewRecorder()
		r.Header.Set("X-Forwarded-Uri", ask.uri)
		r.Header.Set(ask.header, long)
		if s.handler().ServeHTTP(w, r); w.Code != ask.want {
			t.Errorf("%+v: %d %s", ask, w.Code, w.Body)
		}
	}
	_, err := s.answer(context.Background(), request(t, "a="+long))
	if _, bad := errors.AsType[*malformed](err); !bad {
		t.Errorf("a descriptor: %v", err)
	}
	if r, err := s.answer(context.Background(), request(t, "e=")); err != nil || r.OverallCode.String() != "OVER_LIMIT" {
		t.Errorf("a descriptor without a key: %v, %v", r, err)
	}
	s.handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/json", strings.NewReader("{")))
	text := scrape(t, s.metrics)
	if strings.Contains(text, `outcome="error"`) || !strings.Contains(text, `sluiced_refusals_total{reason="no_key"} 4`) ||
		!strings.Contains(text, `sluiced_refusals_total{reason="malformed"} 2`) ||
		!strings.Contains(text, `limit="s",outcome="shadow_over_limit"} 1`) || out.String() != "" {
		t.Errorf("logged %s; %s", out, text)
	}
}

// Of each file it is told which hash it has and had.
func TestHashesSince(t *testing.T) {
	got := hashes{"a": "1", "b": "2", "c": "3"}.since(hashes{"b": "1", "c": "3", "d": "4"})
	if want := []string{"a 1, new", "b 2, was 1", "c 3, unchanged", "d gone, was 4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// check tells what the proxy has to pass for each file that asks about requests.
func TestCheckTellsWhatIsPassed(t *testing.T) {
	folder, out := t.TempDir(), &output{}
	for name, text := range map[string]string{
		"all.yaml": "proxies: [unix]\nlimits:\n  a:\n" +
			"    by: [request.method + request.host, 'request.header[request.cookie.sid]']\n" +
			"    when: '\"Authorization\" in request.header && request.query.q == \"\" && request.path != \"/\"'\n" +
			"    rates: 3/1m\n",
		"few.yaml": "proxies: [unix]\nlimits:\n" +
			"  b: {by: request.ip, plan: 'request.header[\"X-Plan\"]', plans: {default: 3/1m}}\n",
		"none.yaml": "limits:\n  c: {by: descriptor.a, empty: skip, rates: 3/1m}\n",
	} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	a := app{stdout: out, stderr: out}
	if status := a.run(context.Background(), []string{"check", folder}); status != exitDone {
		t.Errorf("exit status %d", status)
	}
	want := "all.yaml: the proxy has to pass cookie sid (Cookie), header of each name, header authorization, " +
		"host (X-Forwarded-Host), method (X-Forwarded-Method), path and query (X-Forwarded-Uri)\n" +
		"few.yaml: the proxy has to pass header x-plan, address (X-Forwarded-For)\nno mistakes, files: 3\n"
	if out.String() != want {
		t.Errorf("got %s, want %s", out, want)
	}
}

// What a policy file asks for and sluiced never has is a mistake with its place and the cure.
func TestFileForApplication(t *testing.T) {
	read := func(words string) error {
		_, err := parseFiles(map[string][]byte{"api.yaml": []byte(words)})
		return err
	}
	for words, want := range map[string]string{
		"  a: {by: request.ip, rates: 3/1m, count: response.status == 401}": "api.yaml:2:43: count: sluiced never sees the " +
			"application's answer: want no count: the application asks at /json, with hits_addend 0",
		"  a: {by: 'hits > 1 ? user.key : keys', rates: 3/1m}": "api.yaml:2:23: by: user.key: sluiced has no values of an " +
			`application: want what the proxy passes: request.header["x-user"]`,
		"  a: {by: user.plan.lowerAscii(), rates: 3/1m}": "api.yaml:2:11: by: user.plan: sluiced has no values",
		"  a: {by: email, rates: 3/1m}\nattributes: [email]": "api.yaml:2:11: by: email: sluiced has no values of an " +
			"application: want what the proxy passes: request.header[\"x-user\"], say, or an entry of a descriptor\n" +
			"api.yaml:3:13: attributes: sluiced has no values of an application",
		"  a: {by: request.ip, plan: user.plan, plans: {default: 3/1m}}": "api.yaml:2:29: plan: user.plan: sluiced has no",
		`  a: {by: request.ip, plan: 'request.header["x-plan"]', plans: {free: 3/1m}}`: "api.yaml:2:29: a plan that the " +
			"client names, and may not be there: want a plan default",
		`  a: {by: request.ip, plan: 'request.path == "/a" ? "free" : request.host', plans: {free: 3/1m}}`:     "a plan default",
		`  a: {by: request.ip, plan: 'request.path == "/a" ? "free" : "pro"', plans: {free: 3/1m, pro: 9/1m}}`: "",
		`  a: {by: request.ip, plan: 'request.header["x-plan"]', plans: {free: 3/1m, default: 3/1m}}`:          "",
		`  a: {by: keys, plan: 'descriptor["plan"]', plans: {free: 3/1m}}`:                                     "",
	} {
		err := read("limits:\n" + words)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", words, err, want)
		}
	}
}

const gcraLimit = "  g: {when: 'keys == \"a\"', by: descriptor.a, empty: shared, rates: 1/1m, script: gcra}\n"

// What a policy granted ahead of Redis is counted when the process ends, also if its file was removed just before.
func TestClosesRemovedPolicies(t *testing.T) {
	server, err := embedded.Start()
	must(t, err)
	defer server.Close()
	rdb := server.Client()
	s, _ := newService(t, map[string]string{
		"a.yaml": "limits:\n  a: {by: keys, rates: 100/1m, ahead: {processes: 1, error: 100%}}",
	}, func(l *limits) { l.loader = loader.New(rdb); l.authLoader = l.loader })
	for range 5 {
		_, err := s.answer(context.Background(), request(t, "x=1"))
		must(t, err)
	}
	rdb.AddHook(slowReports{})
	must(t, s.limits.apply(files{policies: map[string]*policy.File{}}))
	s.limits.close(context.Background())
	ring := loader.New(rdb).SliceRing("a", []loader.Limit{loader.PerMinute(100)})
	if d, err := ring.Peek(context.Background(), "x"); err != nil || d.Remaining != 95 {
		t.Errorf("%d left, %v; want 95", d.Remaining, err)
	}
}

// slowReports is a hook that delays what is sent.
type slowReports struct{}

func (slowReports) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slowReports) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(50 * time.Millisecond)
		return next(ctx, cmd)
	}
}

func (slowReports) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(50 * time.Millisecond)
		return next(ctx, cmds)
	}
}

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
