package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// An override changes what one subject may do until its end, with every script, and what it was granted counts before,
// during and after.
func TestServerOverride(t *testing.T) {
	limits := loader.New(redistest.Start(t).Client(t))
	for script, second := range map[string]string{"list_log": "", "zset_log": "", "gcra": "", "slice_ring": ", 12/1h"} {
		t.Run(script, func(t *testing.T) {
			file := "limits: {" + script + ": {by: 'ip(request.ip, 64)', script: " + script + ", rates: [3/10m" + second + "]"
			path := writeFile(t, file+"}}")
			policies, err := policy.Load(limits, path, policy.ReloadEvery(0))
			must(t, err)
			call := func(ip string, at time.Time, want string) {
				t.Helper()
				a := from(ip)
				a.At = at
				d := decide(t, policies, a)
				if got := fmt.Sprint(d.Granted, " ", d.Remaining); got != want {
					t.Errorf("%s: %s, want %s", ip, got, want)
				}
			}
			reload := func(rates string) {
				t.Helper()
				src := fmt.Sprintf("%s, overrides: [{subject: '2001:db8:1:2::7', rates: [%s%s], until: %s}]}}", file, rates,
					second, t0.Format(time.RFC3339))
				must(t, os.WriteFile(path, []byte(src), 0o600))
				must(t, policies.Reload())
			}
			before := t0.Add(-time.Second)
			call("2001:db8:1:2::1", before, "true 2")
			call("2001:db8:1:2::2", before, "true 1")
			call("2001:db8:9::1", before, "true 2")
			reload("1/10m")
			call("2001:db8:1:2::1", before, "false 0")
			call("2001:db8:9::1", before, "true 1")
			call("2001:db8:1:2::1", t0, "true 0") // it has ended, without a reload
			call("2001:db8:1:2::1", t0, "false 0")
			reload("6/10m")
			if script == "gcra" { // its backlog is a time, which stays
				call("2001:db8:1:2::1", before, "false 0")
				return
			}
			call("2001:db8:1:2::1", before, "true 2")
			call("2001:db8:1:2::1", t0, "false 0")
		})
	}
}

// An override ends by the clock of the process if the call has no time.
func TestOverrideEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := parse(t, `limits: {x: {by: user.key, plan: user.plan, plans: {free: 3/1m, pro: [9/1m, 50/1h]}, overrides: [
			{subject: bob, rates: 0/1m, until: 2001-01-01T00:00:00Z},
			{subject: ada, rates: [20/1m, 90/1h], until: `+time.Now().Add(time.Hour).Format(time.RFC3339)+`, reason: of 81}]}}`)
		for _, want := range []string{"[{20 1m0s 0} {90 1h0m0s 0}] of 81", "[{3 1m0s 0}]"} {
			matches, err := f.Match(policy.Attributes{Values: map[string]string{"user.key": "ada", "user.plan": "free"}})
			must(t, err)
			got := fmt.Sprint(matches[0].Rates)
			if o := matches[0].Override; o != nil {
				got += " " + o.Reason
			}
			if got != want {
				t.Errorf("after %v: %s, want %s", time.Now(), got, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

// Limits of which an override has changed keep what they know in this process.
func TestOverrideKeepsState(t *testing.T) {
	server, limits := fakeRedis(t)
	policies := load(t, limits, "limits: {x: {by: user.key, rates: 3/1m, fail: local 1}}")
	server.Close()
	for n, overrides := range []string{"", "{subject: ada, rates: 5/1m, until: 2999-01-01T00:00:00Z}", ""} {
		file := parse(t, "limits: {x: {by: user.key, rates: 3/1m, fail: local 1, overrides: ["+overrides+"]}}")
		must(t, policies.Replace(file))
		for _, subject := range []string{"ada", "bob"} {
			if d := decide(t, policies, by("192.0.2.1", subject)); !d.Granted || d.Remaining != int64(2-n) {
				t.Errorf("call %d of %s: %+v", n, subject, d)
			}
		}
	}
}

// A subject is made of what a person types as `by` makes it of a call.
func TestSubject(t *testing.T) {
	for _, c := range []struct{ by, typed, want string }{
		{"user.key", "ada|2", "ada~12"},
		{"request.ip", "2001:DB8:0::7", "2001:db8::7"},
		{"ip(request.ip, 64)", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{"ip(request.ip, 64)", "2001:db8:1:2::/64", "2001:db8:1:2::/64"},
		{"ip(request.ip, 64)", "::ffff:192.0.2.7", "192.0.2.7"},
		{"ip(request.ip, 64)", "2001:db8::/32", `"2001:db8::/32": want an address, for ip(request.ip, 64)`},
		{"ip(request.ip, 64)", "ada", `"ada": want an address, for ip(request.ip, 64)`},
		{`request.header["x-user"].lowerAscii()`, "Ada", "ada"},
		{"ip(request.ip, 64); user.key", "2001:db8::1 a|b", "2001:db8::/64|a~1b"},
		{"ip(request.ip, 64); user.key", "2001:db8::1|a~1b", "2001:db8::/64|a~1b"},
		{"ip(request.ip, 64); user.key", "192.0.2.7",
			`"192.0.2.7": want one value for each of by: ip(request.ip, 64), user.key`},
	} {
		f := parse(t, "limits: {x: {empty: refuse, rates: 3/1m, by: ['"+strings.ReplaceAll(c.by, "; ", "', '")+"']}}")
		got, err := f.Policies[0].Subject(strings.Fields(c.typed)...)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.typed, c.by, got, c.want)
		}
	}
}
