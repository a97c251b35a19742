package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/policy"
)

// answer is the status that a handler answers with.
func answer(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// get calls a handler from an address; headers are "Name: value".
func get(h http.Handler, path, ip string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = ip + ":4711"
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// statuses is what a handler answers to so many calls.
func statuses(n int, call func() *http.Response) (got []int) {
	for range n {
		got = append(got, call().StatusCode)
	}
	return got
}

func wantStatuses(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", what, diff)
	}
}

func TestMiddleware(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, `
limits:
  address: {by: request.ip, rates: 3/1m}
  account: {by: 'request.header["x-user"]', rates: [2/1m, 5/1h], empty: refuse}
  page: {by: [request.query.page, request.cookie.sid], rates: 1/1m, empty: skip}
  tried: {by: request.host, rates: 1/1m, empty: shared, mode: shadow}
`)
	h := policies.Middleware(nil).Handler(answer(http.StatusOK))
	ada := func() *http.Response { return get(h, "/", "192.0.2.1", "X-User: ada") }
	first := ada()
	if got := first.Header.Get("RateLimit"); first.StatusCode != 200 || !strings.Contains(got, `"account-`) {
		t.Errorf("the first call: %d, RateLimit: %s", first.StatusCode, got)
	}
	wantStatuses(t, "ada", statuses(2, ada), 200, 429)
	must(t, limits.Flush(context.Background()))
	wantStatuses(t, "bob", statuses(2, func() *http.Response { return get(h, "/", "192.0.2.1", "X-User: bob") }), 200, 429)
	wantStatuses(t, "nobody", statuses(1, func() *http.Response { return get(h, "/", "192.0.2.1") }), 400)
	wantStatuses(t, "a page", statuses(2, func() *http.Response {
		return get(h, "/?page=1", "192.0.2.2", "X-User: eve", "Cookie: sid=1")
	}), 200, 429)
}

// Where a client sends several values, or one that net/http leaves out, an application may go by another one than the
// limit. Only a limit that asks for it refuses.
func TestSeveralValues(t *testing.T) {
	for _, test := range []struct {
		by, path, headers string
		want              int
	}{
		{"request.query.id", "/?id=a&id=b", "", 400},
		{"request.query.id", "/?id=a&id=a&x=1&x=2", "", 200},
		{"request.query.id", "/?id=%zz", "", 400},
		{"request.query.id", "/?x=1;id=a", "", 400},
		{"request.cookie.id", "/", "Cookie: id=a; id=b", 400},
		{"request.cookie.id", "/", "Cookie: id=a\nCookie: x=1;id=b", 400},
		{"request.cookie.id", "/", `Cookie: id=a; x=1; x=2; id="a"`, 200},
		{"request.cookie.id", "/?%zz", `Cookie: id=a\`, 200}, // not taken for absent
		{`request.header["x-id"]`, "/", "X-Id: a\nX-Id: b", 400},
		{`request.header["x-id"]`, "/", "X-Id: a\nX-Id: ", 400},
		{`request.header["x-id"]`, "/", "X-Id: a\nX-Id: a\nX-Y: 1\nX-Y: 2", 200},
		{`"x-id" in request.header ? "a" : ""`, "/", "X-Id: a\nX-Id: b", 400},
	} {
		_, limits := fakeRedis(t)
		policies := load(t, limits, "limits: {x: {by: '"+test.by+"', rates: 1/1m, empty: skip}}")
		h, headers := policies.Middleware(nil).Handler(answer(200)), strings.Split(test.headers, "\n")
		got := statuses(2, func() *http.Response { return get(h, test.path, "192.0.2.1", headers...) })
		next := map[int]int{200: 429, 400: 400}[test.want]
		wantStatuses(t, fmt.Sprintf("%+v", test), got, test.want, next)
	}
}

// The client's address is told by the proxies of the file only.
func TestMiddlewareProxies(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, "proxies: [10.0.0.0/8]\nlimits: {x: {by: 'ip(request.ip, 64)', rates: 1/1m}}")
	h := policies.Middleware(nil).Handler(answer(200))
	from := func(ip, forwarded string) []int {
		return statuses(1, func() *http.Response { return get(h, "/", ip, "X-Forwarded-For: "+forwarded) })
	}
	wantStatuses(t, "by a proxy", from("10.0.0.1", "198.51.100.9, 192.0.2.1"), 200)
	wantStatuses(t, "another left-most address", from("10.0.0.2", "198.51.100.8, 192.0.2.1"), 429)
	wantStatuses(t, "not by a proxy", from("192.0.2.2", "192.0.2.1"), 200)
	wantStatuses(t, "not by a proxy, and forged", from("192.0.2.2", "192.0.2.3"), 429)
}

// A connection without an address is not the client's fault, whatever the file says of empty keys; a header without one
// is.
func TestMiddlewarePeers(t *testing.T) {
	for _, test := range []struct {
		file, peer string
		want       int
	}{
		{"limits: {x: {by: request.ip, rates: 9/1m, empty: refuse}}", "@", 500},
		{"limits: {x: {by: 'ip(request.ip, 64)', rates: 9/1m}}", "testclient", 500},
		{"limits: {x: {by: request.ip, rates: 9/1m, empty: shared}}", "@", 200},
		{"proxies: [unix]\nlimits: {x: {by: request.ip, rates: 9/1m, empty: refuse}}", "@", 400},
	} {
		_, limits := fakeRedis(t)
		h := load(t, limits, test.file).Middleware(nil).Handler(answer(200))
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.RemoteAddr = test.peer
		r.Header.Set("X-Forwarded-For", "nobody")
		if h.ServeHTTP(w, r); w.Code != test.want {
			t.Errorf("%s from %q: %d, want %d", test.file, test.peer, w.Code, test.want)
		}
	}
}

func TestMiddlewareErrors(t *testing.T) {
	_, limits := fakeRedis(t)
	var told []string
	policies := load(t, limits, `
limits:
  account: {by: user.key, rates: 2/1m}
  token: {by: 'request.header["x-token"]', rates: 2/1m, empty: refuse}
  tried: {when: 'int(request.query.n) > 0', by: user.key, rates: 2/1m, mode: shadow}
`, policy.Observe(func(_ context.Context, d policy.Decision, err error) {
		told = append(told, fmt.Sprintf("%v %s %v %v", d.Granted, d.Policy, d.Refused, errors.Is(err, policy.ErrEmptyKey)))
		for _, one := range d.Policies {
			if one.Err != nil {
				told = append(told, one.Policy+": "+one.Err.Error())
			}
		}
	}))
	var values map[string]string
	h := policies.Middleware(func(*http.Request) map[string]string { return values }).Handler(answer(200))
	wantStatuses(t, "no user", statuses(1, func() *http.Response { return get(h, "/?n=1", "192.0.2.1") }), 503)
	values = map[string]string{"user.key": "ada"}
	wantStatuses(t, "no token", statuses(1, func() *http.Response { return get(h, "/?n=1", "192.0.2.1") }), 400)
	wantStatuses(t, "shadow fails", statuses(1, func() *http.Response {
		return get(h, "/?n=one", "192.0.2.1", "X-Token: a")
	}), 200)
	want := []string{"false  false true", "false token true false", "true account false false",
		"tried: policy: tried: when: type conversion error from 'string' to 'int'"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

// The methods of examples/methods.yaml: an argument, the address, two properties of the user; ten in 60 seconds, and a
// body of {code, message, data}.
func TestExampleMethods(t *testing.T) {
	server, limits := fakeRedis(t)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	policies, err := policy.Load(limits, "examples/methods.yaml", policy.ReloadEvery(0), policy.Observe(
		func(ctx context.Context, d policy.Decision, err error) {
			if d.Degraded {
				logger.WarnContext(ctx, "let through without Redis", "policy", d.Policy, "cause", d.Cause)
			}
		}))
	must(t, err)
	values := func(r *http.Request) map[string]string {
		id, email, _ := r.BasicAuth()
		return map[string]string{"email": r.FormValue("email"), "user.id": id, "user.email": email}
	}
	h := policies.Middleware(values, httplimit.Refuse(writeBody)).Handler(answer(200))

	for _, c := range []struct{ name, first, second, third string }{
		{"an argument", "/code?email=ada@example.com", "/code?email=bob@example.com", "/code"},
		{"the address", "/search 192.0.2.1", "/search 192.0.2.2", ""},
		{"two properties of the user", "/order 7 ada@example.com", "/order 7 bob@example.com", "/order 7"},
	} {
		wantStatuses(t, c.name, statuses(11, func() *http.Response { return call(h, c.first) }),
			200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 429)
		wantStatuses(t, c.name+", another one", statuses(1, func() *http.Response { return call(h, c.second) }), 200)
		if c.third != "" {
			wantStatuses(t, c.name+", none", statuses(1, func() *http.Response { return call(h, c.third) }), 503)
		}
	}

	denied := call(h, "/search 192.0.2.1")
	var body struct {
		Code    int
		Message string
		Data    any
	}
	if err := json.NewDecoder(denied.Body).Decode(&body); err != nil || body.Code != 429 || body.Message == "" {
		t.Errorf("the body %+v: %v", body, err)
	}

	// Outside a request nothing is asked: not even a missing key is an error.
	keys := len(server.Keys())
	if d := decide(t, policies, policy.Attributes{}); !d.Granted || len(server.Keys()) != keys {
		t.Errorf("outside a request: %+v", d)
	}
	if _, err := policies.Decide(context.Background(), policy.Attributes{
		Request: &policy.Request{Path: "/code"},
	}); !errors.Is(err, policy.ErrEmptyKey) {
		t.Errorf("a null key: %v", err)
	}

	server.Close()
	wantStatuses(t, "Redis is down", statuses(1, func() *http.Response { return call(h, "/search 192.0.2.1") }), 200)
	if got := log.String(); !strings.Contains(got, `msg="let through without Redis" policy=search`) {
		t.Errorf("the log: %s", got)
	}
}

// call is a path, then an address or a user's id and email.
func call(h http.Handler, words string) *http.Response {
	path, rest, _ := strings.Cut(words, " ")
	ip, header := "192.0.2.9", "Accept: */*"
	if id, email, isUser := strings.Cut(rest, " "); isUser || rest == "7" {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.SetBasicAuth(id, email)
		header = "Authorization: " + r.Header.Get("Authorization")
	} else if rest != "" {
		ip = rest
	}
	return get(h, path, ip, header)
}

// writeBody answers as the application does everywhere.
func writeBody(w http.ResponseWriter, r *http.Request, result httplimit.Result) {
	if result.Outcome != httplimit.Denied {
		httplimit.WriteProblem(w, r, result)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(result.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"code": result.Status, "message": "too many requests: try again later", "data": nil,
	})
}

// A call that a policy cannot be applied to is logged, but not each, and at once after a change of the file.
func TestMiddlewareComplains(t *testing.T) {
	_, limits := fakeRedis(t)
	var log strings.Builder
	policies := load(t, limits, "attributes: [email]\nlimits:\n  mail: {by: email, rates: 1/1m}\n",
		policy.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	h := policies.Middleware(nil).Handler(answer(200))
	call := func() *http.Response { return get(h, "/", "192.0.2.7") }
	wantStatuses(t, "calls without an e-mail", statuses(3, call), 503, 503, 503)
	const want = "mail: by: the key is empty: email"
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
		t.Errorf("logged:\n%s", text)
	}
	must(t, policies.Reload())
	call()
	if text := log.String(); strings.Count(text, want) != 2 {
		t.Errorf("after the file was read again, logged:\n%s", text)
	}
}

// The names in headers are those by which a file refuses the same name for another limit.
func TestMiddlewareWindowNames(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, "limits: {api: {by: request.ip, rates: [60/90s, 1000/1h]}}")
	r := get(policies.Middleware(nil).Handler(answer(200)), "/", "192.0.2.7")
	const want = `"api-1m30s";q=60;w=91, "api-1h";q=1000;w=3618`
	if got := r.Header.Get("RateLimit-Policy"); got != want {
		t.Errorf("RateLimit-Policy %s, want %s", got, want)
	}
}

// Check finds a wrong option, with which every request is refused.
func TestMiddlewareWrongOption(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, oneLimit)
	if err := policies.Middleware(nil, httplimit.Headers(httplimit.XRateLimit)).Check(); err != nil {
		t.Errorf("a right option: %v", err)
	}
	wrong := policies.Middleware(nil, httplimit.Cost(func(*http.Request) int64 { return 2 }))
	for _, m := range []*policy.Middleware{wrong, new(policy.Middleware)} {
		if m.Check() == nil {
			t.Error("Check finds nothing wrong")
		}
		h := m.Handler(answer(200))
		wantStatuses(t, "a wrong option", statuses(1, func() *http.Response { return get(h, "/", "192.0.2.7") }), 500)
	}
}

// What a policy counts is decided by the headers that the client sent, whatever the handler has made of them.
func TestMiddlewareCountsByTheClientsHeaders(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, `
limits:
  x: {by: request.ip, rates: 2/1m, count: 'response.status == 200 && request.header["x-user"] != ""'}
`)
	h := policies.Middleware(nil).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header.Del("X-User")
	}))
	call := func() *http.Response { return get(h, "/", "192.0.2.7", "X-User: ada") }
	wantStatuses(t, "calls by ada", statuses(3, call), 200, 200, 429)
}

// A request that is on its way while the file changes is decided by one of the two files, not by half of each.
func TestMiddlewareWhileTheFileChanges(t *testing.T) {
	_, limits := fakeRedis(t)
	path := writeFile(t, "limits:\n  x: {by: 'request.header[\"x\"]', rates: 1/1m, empty: skip}\n")
	policies, err := policy.Load(limits, path, policy.ReloadEvery(0), policy.Logger(slog.New(slog.DiscardHandler)))
	must(t, err)
	change := func(*http.Request) map[string]string {
		const next = "limits:\n  x: {by: request.query.u, rates: 1/1m, empty: skip}\n"
		if err := errors.Join(os.WriteFile(path, []byte(next), 0o600), policies.Reload()); err != nil {
			t.Error(err)
		}
		return nil
	}
	h := policies.Middleware(change).Handler(answer(200))
	call := func() *http.Response { return get(h, "/?u=1", "192.0.2.7", "X: 1") }
	wantStatuses(t, "calls of one subject in both files", statuses(2, call), 200, 429)
}

// The client is told by so many proxies, whatever their addresses.
func TestHops(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, "hops: 2\nlimits: {x: {by: request.ip, rates: 1/1m}}")
	handler := policies.Middleware(nil).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range []struct {
		forwarded string
		want      int
	}{{"192.0.2.1, 10.0.0.2", 200}, {"198.51.100.9, 192.0.2.1, 10.0.0.3", 429}, {"192.0.2.2, 10.0.0.2", 200}} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("X-Forwarded-For", test.forwarded)
		if handler.ServeHTTP(w, r); w.Code != test.want {
			t.Errorf("%s: %d, want %d", test.forwarded, w.Code, test.want)
		}
	}
}
