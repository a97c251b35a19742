package policy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/policy"
)

const calendarFile = `
zone: Europe/Berlin
limits:
  api:
    by: user.key
    plan: user.plan
    plans: {free: [2/1m, 3/month], pro: [9/1m], metered: [4/month]}
    overrides:
      - {subject: bob, rates: [2/1m, 2/month], until: 2999-01-01T00:00:00Z}
`

// A rate by calendar is a policy of its own, of the plans that have one.
func TestCalendarParts(t *testing.T) {
	f := parse(t, calendarFile)
	var got []string
	for _, p := range f.Policies {
		text := p.Name + " " + p.Script + " " + p.Period + " " + p.Zone.String()
		for _, plan := range p.Plans {
			text += " " + plan.Name + ":" + p.Show(plan.Rates)
		}
		got = append(got, text+" bob:"+p.Show(p.Overrides[0].Rates))
	}
	want := []string{
		"api list_log  Europe/Berlin free:2/1m pro:9/1m metered: bob:2/1m",
		"api-month quota month Europe/Berlin free:3/month pro: metered:4/month bob:2/month",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A window and a month are all or none, and a denial of the month waits until it ends in its zone.
func TestCalendarDecides(t *testing.T) {
	server, limits := fakeRedis(t)
	now := time.Now()
	server.SetTime(now)
	policies := load(t, limits, calendarFile)
	of := func(user, plan string) policy.Attributes {
		return policy.Attributes{Values: map[string]string{"user.key": user, "user.plan": plan}}
	}
	for n, test := range []struct{ user, plan, want string }{
		{"ada", "free", "api +1 api-month +2"},
		{"ada", "free", "api +0 api-month +1"},
		{"ada", "free", "api -0"},
		{"ada", "pro", "api +6"},
		{"ada", "metered", "api-month +1"},
		{"ada", "metered", "api-month +0"},
		{"ada", "free", "api -0 api-month -0"}, // its windows are longer now: nine may be in a minute of pro
		{"bob", "free", "api +1 api-month +1"},
	} {
		if got := written(decide(t, policies, of(test.user, test.plan))); got != test.want {
			t.Errorf("call %d of %s: %q, want %q", n, test.user, got, test.want)
		}
		must(t, limits.Flush(context.Background())) // of a denial the others give back later
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	y, m, _ := now.In(berlin).Date()
	wait := time.Date(y, m+1, 1, 0, 0, 0, 0, berlin).Sub(now.Truncate(time.Microsecond))
	if d := decide(t, policies, of("ada", "metered")); d.Granted || d.Wait != wait || d.Limit.Window.Hours() < 28*24 {
		t.Errorf("a full month: %+v, want a wait of %v", d, wait)
	}
}
