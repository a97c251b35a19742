package policy_test

import (
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

func matchesOf(t *testing.T, f *policy.File, a policy.Attributes) (all []asked) {
	t.Helper()
	matches, err := f.Match(&a)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range matches {
		all = append(all, asked{m.Name, m.Script, m.Subject, m.Plan, m.Rates, m.Cost, m.Refused})
	}
	return all
}

func TestMatchIssue(t *testing.T) {
	f, err := policy.ParseFile("testdata/issue.yaml")
	if err != nil {
		t.Fatal(err)
	}
	code := asked{Name: "send-code", Script: "slice_ring", Subject: "192.0.2.7|ada", Cost: 1,
		Rates: []loader.Limit{{Permits: 3, Window: time.Minute}, {Permits: 20, Window: 24 * time.Hour}}}
	api := asked{Name: "api", Script: "slice_ring", Subject: "k1", Plan: "free", Cost: 1,
		Rates: []loader.Limit{{Permits: 60, Window: time.Minute}}}
	a := policy.Attributes{
		Request: &policy.Request{Method: "POST", Path: "/code", IP: "::ffff:192.0.2.7",
			Header: map[string][]string{"X-User": {"ada"}}},
		Values: map[string]string{"user.key": "k1", "user.plan": "free"},
	}
	if diff := cmp.Diff([]asked{code, api}, matchesOf(t, f, a)); diff != "" {
		t.Error(diff)
	}
	a.Request.Method = "GET"
	if diff := cmp.Diff([]asked{api}, matchesOf(t, f, a)); diff != "" {
		t.Error(diff)
	}
}
