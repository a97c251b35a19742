package policy_test

import (
	"context"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const benchFile = `
limits:
  plain:
    by: ip(request.ip, 64)
    rates: 1000000/1m
`

const benchCondition = `
limits:
  condition:
    when: request.method == "GET" && request.path.startsWith("/")
    by: ip(request.ip, 64)
    rates: 1000000/1m
`

// A decision of a policy beside calling its limiter by hand, on a server on this machine:
//
//	go test ./policy -run '^$' -bench Decide -benchmem -count 5
func BenchmarkDecide(b *testing.B) {
	limits := loader.New(redistest.Start(b).Client(b))
	ctx := context.Background()
	b.Run("by hand", func(b *testing.B) {
		limiter := limits.ListLog("plain", loader.PerMinute(1_000_000))
		for b.Loop() {
			if _, err := limiter.Allow(ctx, "192.0.2.7"); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, src := range map[string]string{"without an expression": benchFile, "with an expression": benchCondition} {
		policies := load(b, limits, src)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := policies.Decide(ctx, from("192.0.2.7")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Finding the policies that match, of which nothing is sent:
//
//	go test ./policy -run '^$' -bench Match -benchmem
func BenchmarkMatch(b *testing.B) {
	for name, src := range map[string]string{"without an expression": benchFile, "with an expression": benchCondition} {
		f := parse(b, src)
		b.Run(name, func(b *testing.B) {
			a := from("192.0.2.7")
			for b.Loop() {
				if m, err := f.Match(a); err != nil || len(m) != 1 {
					b.Fatal(m, err)
				}
			}
		})
	}
}
