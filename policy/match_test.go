package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// asked is what a test compares of a Match.
type asked struct {
	Name, Script, Subject, Plan string
	Rates                       []loader.Limit
	Cost                        int64
	Refused                     bool
}

func TestMatchExample(t *testing.T) {
	f, err := policy.ParseFile("examples/api.yaml")
	must(t, err)
	code := asked{Name: "send-code", Script: "slice_ring", Subject: "192.0.2.7|ada", Cost: 1,
		Rates: []loader.Limit{loader.PerMinute(3), {Permits: 20, Window: 24 * time.Hour}}}
	api := asked{Name: "api", Script: "slice_ring", Subject: "k1", Plan: "free", Cost: 1,
		Rates: []loader.Limit{loader.PerMinute(60)}}
	a := policy.Attributes{
		Request: &policy.Request{Method: "POST", Path: "/code", IP: "::ffff:192.0.2.7",
			Header: map[string][]string{"X-User": {"ada"}}},
		Values: map[string]string{"user.key": "k1", "user.plan": "free"},
	}
	for method, want := range map[string][]asked{"POST": {code, api}, "GET": {api}} {
		a.Request.Method = method
		matches, err := f.Match(a)
		must(t, err)
		var got []asked
		for _, m := range matches {
			got = append(got, asked{m.Policy.Name, m.Policy.Script, m.Subject, m.Plan, m.Rates, m.Cost, m.Refused})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", method, diff)
		}
	}
}

// What matches is written as "name subject plan cost", "refused", or the error.
func TestMatch(t *testing.T) {
	for _, c := range []struct{ words, values, want string }{
		{"by: request.ip", "request.ip=192.0.2.7", "192.0.2.7 1"},
		{"by: 'ip(request.ip, 64)'", "request.ip=2001:db8::7", "2001:db8::/64 1"},
		{"by: 'ip(request.ip, 128)'", "request.ip=2001:db8::7", "2001:db8::7 1"},
		{"by: 'ip(request.ip, 56)'", "request.ip=fe80::1%eth0", "fe80::/56 1"},
		{"by: 'ip(request.ip, 64)'", "request.ip=::ffff:192.0.2.7", "192.0.2.7 1"},
		{"by: 'ip(request.header.x, 64)', empty: skip", "request.header.x=unknown",
			`policy: x: by: ip("unknown"): not an address`},
		{"by: 'ip(\"\" + request.header.x, 64)', empty: skip", "request.header.x=unknown",
			`policy: x: by: ip("unknown"): not an address`},
		{"by: '\"all\"'", "request.ip=192.0.2.7", "all 1"},
		{"by: '\"a|b\"'", "", "a~1b 1"},
		{"by: [user.key, user.plan]", "user.key=a user.plan=b", "a|b 1"},
		{"by: 'user.key + \":\" + user.plan'", "user.key=a user.plan=b", "a:b 1"},

		// What the application does not pass is an error, or the choice.
		{"by: user.key", "user.plan=b", "policy: x: by: the key is empty: user.key is not set"},
		{"by: [user.plan, user.key]", "user.plan=b", "policy: x: by: the key is empty: user.key is not set"},
		{"by: 'user.key + \":\" + user.plan'", "user.plan=b", "policy: x: by: the key is empty: user.key is not set"},
		{"by: user.key, empty: refuse", "", "refused"},
		{"by: user.key, empty: skip", "", ""},
		{"by: user.key, empty: shared", "", "~ 1"},
		{"by: user.key, empty: shared", "user.key=~", "~0 1"},
		{"by: 'ip(request.ip, size(request.path))'", "request.path=/", "policy: x: by: the key is empty"},
		{"by: request.ip", "request.path=/", "policy: x: by: the key is empty: request.ip is not set"},
		{"by: 'user.key == \"\" ? request.ip : user.key'", "request.ip=192.0.2.7", "192.0.2.7 1"},
		{"by: 'user.key == \"\" ? request.ip : user.key'", "user.key=a request.path=/", "a 1"},
		{"by: '(user.key + user.plan).lowerAscii()'", "user.key=A user.plan=B", "ab 1"},
		{"by: 'string(size(user.key)) + user.plan'", "user.plan=b", "0b 1"},
		{"by: 'ip(request.ip, size(user.key)) + user.plan'", "user.plan=b request.ip=192.0.2.7",
			"policy: x: by: ip(.., 0): want a prefix of 1 to 128 bits"},

		// What the client leaves out is the choice, unless something else is there.
		{"by: 'request.header[\"x-user\"]', empty: refuse", "request.header.x-user=ada", "ada 1"},
		{"by: 'request.header[\"x-user\"]', empty: refuse", `request.header["x-user"]=ada`, "ada 1"},
		{"by: 'request.header[\"x-user\"]', empty: refuse", "request.ip=192.0.2.7", "refused"},
		{"by: request.cookie.sid, empty: skip", "request.ip=192.0.2.7", ""},
		{"by: request.query.user, empty: shared", "request.ip=192.0.2.7", "~ 1"},
		{"by: [request.ip, request.query.user]", "request.ip=192.0.2.7", "192.0.2.7|~ 1"},
		{"by: request.host, empty: shared", "request.host=Admin.Example.COM.:8080", "admin.example.com:8080 1"},
		{"by: request.host, empty: shared, when: 'request.host == \"example.com\"'", "request.host=EXAMPLE.com.", "example.com 1"},
		{"by: [request.ip, request.host]", "request.ip=192.0.2.7", "192.0.2.7|~ 1"},
		{"by: [request.query.user, request.host], empty: shared", "request.ip=192.0.2.7", "~|~ 1"},
		{"by: 'request.query.a + request.query.b', empty: skip", "request.query.b=c", "c 1"},

		// Plans.
		{"by: user.key, plan: user.plan", "user.key=a user.plan=pro", "a pro 1"},
		{"by: user.key, plan: user.plan", "user.key=a user.plan=none", `policy: x: plan: unknown plan "none"`},
		{"by: user.key, plan: user.plan", "user.key=a", `policy: x: plan: unknown plan ""`},
		{"by: user.key, plan: 'user.plan == \"\" ? \"pro\" : user.plan'", "user.key=a", "a pro 1"},

		// Costs.
		{"by: user.key, cost: 2", "user.key=a", "a 2"},
		{"by: user.key, cost: int(request.query.n)", "user.key=a request.query.n=2", "a 2"},
		{"by: user.key, cost: int(request.query.n)", "user.key=a request.query.n=0", ""},
		{"by: user.key, cost: int(request.query.n)", "user.key=a request.query.n=-1",
			"policy: x: cost: the cost is -1: want 0 or more"},
		{"by: user.key, cost: int(request.query.n)", "user.key=a request.query.n=two",
			"policy: x: cost: type conversion error from 'string' to 'int'"},

		// Conditions, with each function and variable.
		{"by: user.key, when: request.method == 'POST'", "user.key=a request.method=POST", "a 1"},
		{"by: user.key, when: \"request.method in ['GET', 'HEAD']\"", "user.key=a request.method=HEAD", "a 1"},
		{"by: user.key, when: '\"x-a\" in request.header'", "user.key=a request.header.X-A=1", "a 1"},
		{"by: user.key, when: '\"x-a\" in request.header'", "user.key=a request.path=/", ""},
		{"by: user.key, when: '!(\"q\" in request.query) && !(\"c\" in request.cookie)'", "user.key=a request.path=/", "a 1"},
		{"by: user.key, when: request.host.lowerAscii().endsWith('example.com')",
			"user.key=a request.host=API.Example.COM", "a 1"},
		{"by: user.key, when: request.path.startsWith('/a') && request.path.contains('b')",
			"user.key=a request.path=/ab", "a 1"},
		{"by: user.key, when: \"request.path.matches('^/a/[0-9]+$')\"", "user.key=a request.path=/a/12", "a 1"},
		{"by: user.key, when: size(request.path) + 1 > int('3') * 2 - 4 / 2 % 3",
			"user.key=a request.path=/a/12", "a 1"},
		{"by: user.key, when: request.cookie.c == string(-7) || user.plan != ''",
			"user.key=a request.cookie.c=-7", "a 1"},
		{"by: user.key, when: \"request.query[request.query.q] == 'z'\"",
			"user.key=a request.query.q=q2 request.query.q2=z", "a 1"},
		{"by: user.key, when: \"matches(request.path, '^/a') && size(request.path) == 2\"",
			"user.key=a request.path=/a", "a 1"},
		{"by: user.key, when: request.header == request.header", "user.key=a request.path=/", "a 1"},

		// Outside a request.
		{"by: user.key, when: request.path == ''", "user.key=a", ""},
		{"by: request.ip", "user.key=a", ""},
		{"by: user.key", "user.key=a", "a 1"},
	} {
		rates := "rates: [3/1m]"
		if strings.Contains(c.words, "plan: ") {
			rates = "plans: {free: [3/1m], pro: [5/1m]}"
		}
		src := "limits:\n  x: {" + c.words + ", " + rates + "}"
		if got := matchOf(t, parse(t, src), c.values); got != c.want {
			t.Errorf("%s\nwith %s: got %q, want %q", c.words, c.values, got, c.want)
		}
	}
}

// matchOf is the only match for attributes that are written name=value.
func matchOf(t *testing.T, f *policy.File, values string) string {
	t.Helper()
	var a policy.Attributes
	for _, value := range strings.Fields(values) {
		name, value, _ := strings.Cut(value, "=")
		must(t, f.Set(&a, name, value))
	}
	matches, err := f.Match(a)
	switch {
	case err != nil:
		var attribute *policy.AttributeError
		if !errors.As(err, &attribute) || attribute.Policy != "x" {
			t.Errorf("the error is no AttributeError: %v", err)
		}
		return err.Error()
	case len(matches) == 0:
		return ""
	case matches[0].Refused:
		return "refused"
	}
	m := matches[0]
	return strings.Join(strings.Fields(m.Subject+" "+m.Plan+" "+string(rune('0'+m.Cost))), " ")
}

func TestMatchErrors(t *testing.T) {
	f := parse(t, "limits: {x: {by: user.key, plan: user.plan, plans: {free: 3/1m}}}")
	_, err := f.Match(policy.Attributes{})
	if !errors.Is(err, policy.ErrEmptyKey) {
		t.Errorf("got %v, want ErrEmptyKey", err)
	}
	_, err = f.Match(policy.Attributes{Values: map[string]string{"user.key": "a"}})
	if !errors.Is(err, policy.ErrUnknownPlan) {
		t.Errorf("got %v, want ErrUnknownPlan", err)
	}
}

// A text that is longer than was assumed when the costs were estimated is not looked at.
func TestMatchLongText(t *testing.T) {
	for _, words := range []string{
		"by: request.path", "by: '\"x\" + request.path'", "by: request.ip, when: request.path == '/'",
		"by: request.header.a, empty: skip", "by: request.ip, when: request.header.a == ''",
		"by: request.query.a, empty: skip", "by: request.cookie.a, empty: skip",
		"by: request.ip, when: '\"a\" in request.query'",
	} {
		f := parse(t, "limits: {x: {"+words+", rates: 3/1m}}")
		for n, want := range map[int]bool{8192: true, 8193: false} {
			long := "/" + strings.Repeat("a", n-1)
			a := policy.Attributes{Request: &policy.Request{
				IP: "192.0.2.7", Path: long, Header: map[string][]string{"A": {long}},
				Query: map[string][]string{"a": {long}}, Cookie: map[string][]string{"a": {long}},
			}}
			if _, err := f.Match(a); (err == nil) != want {
				t.Errorf("%s with %d bytes: %v", words, n, err)
			}
		}
	}
}

// A policy that cannot be applied does not keep the others from it.
func TestMatchGoesOn(t *testing.T) {
	f := parse(t, "limits: {x: {by: 'ip(user.key, 64)', rates: 3/1m}, y: {by: user.key, rates: 3/1m}}")
	matches, err := f.Match(policy.Attributes{Values: map[string]string{"user.key": "ada"}})
	if err == nil || len(matches) != 1 || matches[0].Policy.Name != "y" || matches[0].Subject != "ada" {
		t.Errorf("got %+v, %v", matches, err)
	}
}

func TestCounts(t *testing.T) {
	f := parse(t, `
limits:
  always: {by: request.ip, rates: 3/1m}
  failed: {by: request.ip, rates: 3/1m, count: 'response.status >= 400 && request.path == "/login"'}
`)
	for status, want := range map[int]bool{200: false, 400: true} {
		a := policy.Attributes{Request: &policy.Request{Path: "/login"}, Status: status}
		for i, want := range []bool{true, want} {
			if got, err := f.Policies[i].Counts(a); got != want || err != nil {
				t.Errorf("%s with %d: %v, %v", f.Policies[i].Name, status, got, err)
			}
		}
	}
	if got, err := f.Policies[1].Counts(policy.Attributes{Status: 200}); !got || err != nil {
		t.Errorf("outside a request: %v, %v", got, err)
	}
}

func TestSetErrors(t *testing.T) {
	f := parse(t, "attributes: [email]\nlimits: {x: {by: email, rates: 3/1m}}")
	known := "request.method, request.path, request.host, request.ip, request.header.NAME, request.query.NAME, " +
		"request.cookie.NAME, domain, descriptor.NAME, hits, user.key, user.plan, response.status, email"
	for name, want := range map[string]string{
		"request.methd":   `policy: unknown attribute "request.methd": want ` + known + ": did you mean request.method?",
		"request.header":  `policy: unknown attribute "request.header": want ` + known,
		"request.path.x":  `policy: unknown attribute "request.path.x": want ` + known,
		"emial":           `policy: unknown attribute "emial": want ` + known + ": did you mean email?",
		"response.status": `policy: response.status is "x": want a number of three digits`,
	} {
		if err := f.Set(&policy.Attributes{}, name, "x"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestFailString(t *testing.T) {
	for words, want := range map[string]string{
		"closed": "closed", "open": "open", "local 1/8": "local 0.125", "local 1": "local 1",
	} {
		p := parse(t, "limits: {x: {by: user.key, rates: 3/1m, fail: "+words+"}}").Policies[0]
		if got := p.Fail.String(); got != want {
			t.Errorf("%s: got %s, want %s", words, got, want)
		}
	}
}

// The script is the smallest that keeps the promise, and the limiter that it makes is right.
func TestScript(t *testing.T) {
	_, limits := fakeRedis(t)
	for words, want := range map[string]string{
		"rates: 3/1m":                                          "list_log",
		"rates: 1000000/366d":                                  "list_log",
		"rates: 1000001/1m":                                    "slice_ring",
		"rates: [3/1m, 20/24h]":                                "slice_ring",
		"rates: [1/1ms, 9000/9999ms]":                          "slice_ring",
		"rates: 3/1m, script: zset_log":                        "zset_log",
		"rates: 3/1m, script: gcra":                            "gcra",
		"rates: 3/1m, script: slice_ring":                      "slice_ring",
		"rates: 1000000000/1d, fail: open":                     "slice_ring",
		"rates: 3/1m, fail: local 0.125":                       "list_log",
		"plan: user.plan, plans: {a: 3/1m}":                    "list_log",
		"plan: user.plan, plans: {a: 3/1m, b: 5/60s, c: 0/1h}": "list_log",
		"plan: user.plan, plans: {a: 3/1m, b: 5/1h}":           "slice_ring",
		"plan: user.plan, plans: {a: 3/1m, b: [2/1m, 9/1d]}":   "slice_ring",
	} {
		p := parse(t, "limits: {x: {by: user.key, "+words+"}}").Policies[0]
		if p.Script != want {
			t.Errorf("%s: got %s, want %s", words, p.Script, want)
		}
		rates := p.Rates
		for _, plan := range p.Plans {
			rates = plan.Rates
		}
		if err := (policy.Match{Policy: p, Rates: rates}).Limiter(limits).Check(); err != nil {
			t.Errorf("%s: %v", words, err)
		}
	}
}
