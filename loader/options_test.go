package loader_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// booking are the limiters that can book.
const booking = "GCRA ListLog ZSetLog TokenBucket"

// limiterOptions are all of them, each with values that a limiter takes.
var limiterOptions = []struct {
	name   string
	make   func() loader.LimiterOption
	takers string // the limiters that take it; "": all
}{
	{"MaxWait", func() loader.LimiterOption { return loader.MaxWait(time.Second) }, booking + " SliceRing Quota Concurrency"},
	{"RememberDenials", func() loader.LimiterOption { return loader.RememberDenials(9) }, booking + " SliceRing Quota"},
	{"FailOpen", loader.FailOpen, ""},
	{"FailLocal", func() loader.LimiterOption { return loader.FailLocal(0.5) }, booking + " SliceRing Budget"},
	{"Slice", func() loader.LimiterOption { return loader.Slice(time.Second) }, "SliceRing Budget"},
	{"SettleWithin", func() loader.LimiterOption { return loader.SettleWithin(time.Hour) }, "Budget"},
	{"ClientID", func() loader.LimiterOption { return loader.ClientID("me") }, "TokenBucket"},
	{"PerClient", loader.PerClient, "TokenBucket"},
}

// TestOptionPairs gives every limiter all pairs of options in both orders: Check tells what one of the two would not
// do, and what both cannot.
func TestOptionPairs(t *testing.T) {
	limits, limit := loader.New(neverAsked(t)), loader.PerMinute(3)
	checks := map[string]func(...loader.LimiterOption) error{
		"GCRA":        func(o ...loader.LimiterOption) error { return limits.GCRA("x", limit, o...).Check() },
		"ListLog":     func(o ...loader.LimiterOption) error { return limits.ListLog("x", limit, o...).Check() },
		"ZSetLog":     func(o ...loader.LimiterOption) error { return limits.ZSetLog("x", limit, o...).Check() },
		"TokenBucket": func(o ...loader.LimiterOption) error { return limits.TokenBucket("x", limit, o...).Check() },
		"SliceRing": func(o ...loader.LimiterOption) error {
			return limits.SliceRing("x", []loader.Limit{limit}, o...).Check()
		},
		"Budget": func(o ...loader.LimiterOption) error {
			return limits.Budget("x", []loader.Limit{limit}, o...).Check()
		},
		"Quota": func(o ...loader.LimiterOption) error {
			return limits.Quota("x", 3, loader.Daily(time.UTC), o...).Check()
		},
		"Concurrency": func(o ...loader.LimiterOption) error { return limits.Concurrency("x", 3, time.Minute, o...).Check() },
	}
	for limiter, check := range checks {
		takes := func(i int) bool {
			takers := limiterOptions[i].takers
			return takers == "" || strings.Contains(" "+takers+" ", " "+limiter+" ")
		}
		for i, first := range limiterOptions {
			for j, second := range limiterOptions {
				want := ""
				pair := first.name + " " + second.name
				switch {
				case !takes(i):
					want = first.name + " is"
				case i == j:
					want = first.name + " twice: want each option once"
				case !takes(j):
					want = second.name + " is"
				case pair == "FailOpen FailLocal" || pair == "FailLocal FailOpen":
					want = first.name + " with " + second.name + ": want one of the two"
				}
				err := check(first.make(), second.make())
				if want == "" && err == nil {
					continue
				}
				if want == "" || err == nil || !strings.HasPrefix(err.Error(), "loader: x: "+want) {
					t.Errorf("%s, %s: %v, want %q", limiter, pair, err, want)
				}
			}
		}
	}
	_, err := limits.SliceRing("x", []loader.Limit{permits(1000, time.Minute)}, loader.RememberDenials(9)).
		Ahead(loader.AheadOptions{Processes: 1, Error: 0.05})
	wantError(t, err, "loader: x: RememberDenials with Ahead: want one of the two")
}

// TestLoaderOptionsOnce gives New each option twice. A wrong one is the error of Preload, too.
func TestLoaderOptionsOnce(t *testing.T) {
	for name, option := range map[string]loader.Option{
		"Prefix": loader.Prefix("p"), "Timeout": loader.Timeout(time.Second), "Breaker": loader.Breaker(5, time.Second),
		"Logger": loader.Logger(slog.Default()),
	} {
		limits := loader.New(neverAsked(t), option, loader.Observe(nil), loader.Observe(nil), option)
		wantError(t, limits.Preload(background), fmt.Sprintf("loader: %s twice: want each option once", name))
		wantError(t, limits.ListLog("x", loader.PerMinute(3)).Check(), "loader: "+name+" twice: want each option once")
	}
	wantError(t, loader.New(neverAsked(t), loader.Prefix("")).Preload(background),
		`loader: prefix "": want letters, digits, dot, underscore and dash, at least one`)
}
