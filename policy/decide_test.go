package policy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

const twoLimits = `
limits:
  address: {by: request.ip, rates: 3/1m}
  account: {by: user.key, rates: 2/1m}
`

// by is a request of a user from an address.
func by(ip, user string) policy.Attributes {
	a := from(ip)
	a.Values = map[string]string{"user.key": user}
	return a
}

// The answer has what each policy says, in the file's order.
func TestDecisionPolicies(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, twoLimits+"  tried: {by: request.ip, rates: 1/1m, mode: shadow}\n")
	a := by("192.0.2.1", "ada")
	for n, want := range []string{
		"address +2 account +1 (tried +0)", "address +1 account +0 (tried -0)", "account -0",
	} {
		d := decide(t, policies, a)
		if got := written(d); got != want || d.Policy != "account" {
			t.Errorf("call %d: got %q by %s, want %q", n, got, d.Policy, want)
		}
	}
}

// written is the policies of a decision, with + or - and what remains; those in shadow in parentheses.
func written(d policy.Decision) string {
	var words []string
	for _, one := range d.Policies {
		word := one.Policy + map[bool]string{true: " +", false: " -"}[one.Granted] + string(rune('0'+one.Remaining))
		if one.Shadow {
			word = "(" + word + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestDecideNothingMatches(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, twoLimits)
	d := decide(t, policies, policy.Attributes{Values: map[string]string{"user.key": "ada"}})
	if !d.Granted || d.Policy != "account" {
		t.Errorf("outside a request: %+v", d)
	}
	policies = load(t, limits, "limits: {address: {by: request.ip, rates: 3/1m}}")
	if d := decide(t, policies, policy.Attributes{}); !d.Granted || d.Policy != "" || d.Policies != nil {
		t.Errorf("no policy matches: %+v", d)
	}
}

func TestDecideErrors(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, twoLimits)
	_, err := policies.Decide(context.Background(), from("192.0.2.1"))
	if !errors.Is(err, policy.ErrEmptyKey) || !strings.Contains(err.Error(), "account") {
		t.Errorf("without a user: %v", err)
	}

	// A policy in shadow that cannot be applied refuses nobody.
	policies = load(t, limits, "limits: {tried: {by: user.key, rates: 3/1m, mode: shadow}}")
	d := decide(t, policies, from("192.0.2.1"))
	if !d.Granted || len(d.Policies) != 1 || !errors.Is(d.Policies[0].Err, policy.ErrEmptyKey) {
		t.Errorf("in shadow, without a user: %+v", d)
	}
}

func TestDecideEmptyKey(t *testing.T) {
	server, limits := fakeRedis(t)
	policies := load(t, limits, `
limits:
  address: {by: request.ip, rates: 1/1m}
  account: {by: user.key, rates: 1/1m, empty: refuse}
`)
	if d := decide(t, policies, from("192.0.2.1")); d.Granted || !d.Refused || d.Policy != "account" {
		t.Errorf("refuse: %+v", d)
	}
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("a refused call has charged %v", keys)
	}
	policies = load(t, limits, "limits: {tried: {by: user.key, rates: 1/1m, empty: refuse, mode: shadow}}")
	if d := decide(t, policies, from("192.0.2.1")); !d.Granted || d.Refused || d.Policies != nil {
		t.Errorf("refuse in shadow: %+v", d)
	}
}

// A subject whose plan changes keeps what it was granted.
func TestDecidePlans(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, `
limits:
  api: {by: user.key, plan: user.plan, plans: {free: 2/1m, pro: [5/1m, 50/1h], none: 0/1m, default: 1/1m}}
`)
	for n, c := range []struct {
		plan      string
		granted   bool
		remaining int64
	}{
		{"free", true, 1}, {"free", true, 0}, {"free", false, 0}, {"pro", true, 2}, {"free", false, 0},
		{"pro", true, 1}, {"other", false, 0}, {"none", false, 0},
	} {
		d := decide(t, policies, policy.Attributes{Values: map[string]string{"user.key": "ada", "user.plan": c.plan}})
		if d.Granted != c.granted || d.Remaining != c.remaining {
			t.Errorf("call %d, %s: granted %v, %d left; want %v, %d", n, c.plan, d.Granted, d.Remaining, c.granted,
				c.remaining)
		}
		if c.plan == "none" && d.Wait != loader.Never {
			t.Errorf("nothing is allowed: wait %v", d.Wait)
		}
	}
}

func TestDecideCost(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, "limits: {api: {by: request.ip, rates: 5/1m, cost: 'size(request.path)'}}")
	for n, c := range []struct {
		path    string
		granted bool
		wait    time.Duration
	}{{"/abc", true, 0}, {"/a", false, time.Minute}, {"/", true, 0}, {"/abcdef", false, loader.Never}} {
		a := from("192.0.2.1")
		a.Request.Path = c.path
		if d := decide(t, policies, a); d.Granted != c.granted || d.Wait != c.wait {
			t.Errorf("call %d: granted %v, wait %v", n, d.Granted, d.Wait)
		}
	}
}

// What count does not charge is given back.
func TestFinish(t *testing.T) {
	_, limits := fakeRedis(t)
	policies := load(t, limits, `
limits:
  failed: {by: request.ip, rates: 2/1m, count: response.status >= 400}
  all: {by: request.ip, rates: 9/1m}
`)
	for n, c := range []struct {
		status  int
		granted bool
		written string
	}{
		{200, true, "failed +1 all +8"}, {200, true, "failed +1 all +7"}, {401, true, "failed +1 all +6"},
		{200, true, "failed +0 all +5"}, {500, true, "failed +0 all +4"}, {200, false, "failed -0"},
	} {
		d := decide(t, policies, from("192.0.2.1"))
		if got := written(d); got != c.written || d.Granted != c.granted {
			t.Errorf("call %d: got %q, want %q", n, got, c.written)
		}
		must(t, d.Finish(context.Background(), c.status))
	}
}

func TestDecideRedisDown(t *testing.T) {
	for words, want := range map[string]string{
		"": "error", "fail: closed": "error", "fail: open": "granted granted granted",
		"fail: local 1/2": "granted denied denied",
	} {
		server, limits := fakeRedis(t)
		policies := load(t, limits, "limits:\n  x:\n    by: request.ip\n    rates: 2/1h\n    "+words)
		server.Close()
		var got []string
		for range 3 {
			d, err := policies.Decide(context.Background(), from("192.0.2.1"))
			switch {
			case err != nil:
				got = []string{"error"}
				if !strings.HasPrefix(err.Error(), "policy: x: ") {
					t.Errorf("the error does not name the policy: %v", err)
				}
				continue
			case !d.Degraded || d.Cause == nil || d.Policy != "x":
				t.Errorf("%s: %+v is not marked", words, d)
			case d.Granted:
				got = append(got, "granted")
			default:
				got = append(got, "denied")
			}
			if err := d.Finish(context.Background(), 200); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q: %s", words, diff)
		}
	}
}

func TestObserve(t *testing.T) {
	_, limits := fakeRedis(t)
	var told []string
	observe := func(_ context.Context, d policy.Decision, err error) {
		switch {
		case err != nil:
			told = append(told, "error")
		case d.Refused:
			told = append(told, "refused by "+d.Policy)
		default:
			told = append(told, d.Policy+": "+written(d))
		}
	}
	policies := load(t, limits, `
limits:
  address: {by: request.ip, rates: 2/1m, empty: refuse}
  account: {by: user.key, rates: 1/1m}
`, policy.Observe(observe))
	for _, a := range []policy.Attributes{
		by("192.0.2.1", "ada"), by("192.0.2.1", "ada"), by("", "ada"), from("192.0.2.1"),
	} {
		_, _ = policies.Decide(context.Background(), a) // the observer is what is tested
	}
	want := []string{"account: address +1 account +0", "account: account -0", "refused by address", "error"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func TestLoadErrors(t *testing.T) {
	_, limits := fakeRedis(t)
	if _, err := policy.Load(limits, "testdata/none.yaml"); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
	var mistakes policy.Mistakes
	if _, err := policy.Load(limits, writeFile(t, "limits: []")); !errors.As(err, &mistakes) {
		t.Errorf("a wrong file: %v", err)
	}
	if _, err := policy.Load(nil, "examples/api.yaml"); err == nil {
		t.Error("no Loader: no error")
	}
	wrong := loader.New(nil)
	if _, err := policy.Load(wrong, "examples/api.yaml"); err == nil || !strings.Contains(err.Error(), "api.yaml:4") {
		t.Errorf("a wrong Loader: %v", err)
	}
}

// Limits that are ahead of Redis report when the file no longer has them, and at the end; a limit that stays goes on.
// Redis decides about a subject with an override.
func TestDecideAhead(t *testing.T) {
	_, limits := fakeRedis(t)
	const file = `limits: {api: {by: '"all"', rates: 1000/1m, ahead: {processes: 1, error: 10%}}}`
	policies := load(t, limits, file)
	take := func(ahead bool) {
		t.Helper()
		if d := decide(t, policies, policy.Attributes{}); !d.Granted || d.Ahead != ahead {
			t.Errorf("%+v, want ahead %t", d, ahead)
		}
	}
	counted := func(want int64) {
		t.Helper()
		ring := limits.SliceRing("api", []loader.Limit{loader.PerMinute(1000)})
		d, err := ring.Peek(context.Background(), "all")
		if err != nil || d.Remaining != 1000-want {
			t.Errorf("%d counted, %v; want %d", 1000-d.Remaining, err, want)
		}
	}
	take(false)
	take(true)
	must(t, policies.Replace(parse(t, file)))
	take(true)
	const override = "}, overrides: [{subject: all, rates: 900/1m, until: 2999-01-01T00:00:00Z}]}}"
	must(t, policies.Replace(parse(t, strings.TrimSuffix(file, "}}}")+override)))
	take(false)
	take(false)
	must(t, policies.Replace(parse(t, strings.ReplaceAll(file, "10%", "20%"))))
	take(false)
	take(true)
	must(t, policies.Close())
	counted(7)
	take(false)
}

// A limit that is strictly ahead is lower in Redis for all who are not ahead of it too: for its overrides, plans and
// tools.
func TestDecideAheadStrict(t *testing.T) {
	_, limits := fakeRedis(t)
	file := parse(t, `limits:
  api:
    by: user.key
    plan: user.plan
    plans: {free: [1000/1m], pro: [2000/1m], none: [0/1m], default: [400/1m]}
    ahead: {processes: 2, error: 10%, strict: true}
    overrides:
      - {subject: ada, rates: 1500/1m, until: 2999-01-01T00:00:00Z}
      - {subject: bob, rates: 30/1m, until: 2999-01-01T00:00:00Z}
`)
	policies, err := policy.New(limits, file)
	must(t, err)
	for _, test := range []struct {
		user, plan string
		want       int64
	}{
		{"eve", "free", 900}, {"eve", "pro", 1800}, {"eve", "none", 0}, {"eve", "", 360}, {"ada", "free", 1352},
		{"bob", "free", 30},
	} {
		attributes := policy.Attributes{Values: map[string]string{"user.key": test.user, "user.plan": test.plan}}
		d := decide(t, policies, attributes)
		if d.Limit.Permits != test.want || d.Granted != (test.want > 0) {
			t.Errorf("%+v: %+v", test, d)
		}
	}
	if got := file.Policies[0].Enforced([]loader.Limit{loader.PerMinute(1000)}); got[0].Permits != 900 {
		t.Errorf("%v, want 900", got)
	}
}

// A call is held in place of a refusal, and who was refused is banned.
func TestDelayAndBan(t *testing.T) {
	_, limits := fakeRedis(t) // whose clock stands still
	policies := load(t, limits, `
limits:
  held: {by: user.key, rates: 1/10ms, delay: 1s}
  tried: {by: user.plan, rates: 1/1m, ban: 1/1h}
`)
	held := policy.Attributes{Values: map[string]string{"user.key": "ada", "user.plan": "x"}}
	if d := decide(t, policies, held); !d.Granted {
		t.Errorf("the first: %+v", d)
	}
	if d := decide(t, policies, held); d.Granted || d.Policy != "tried-ban" || d.Wait != time.Hour {
		t.Errorf("the second: %+v, want a ban", d)
	}
	policies = load(t, limits, "limits: {alone: {by: user.key, rates: 1/10ms, delay: 1s}}")
	for range 3 {
		if d := decide(t, policies, held); !d.Granted || d.Wait != 0 {
			t.Errorf("%+v, want it to be held until it is granted", d)
		}
	}
}
