// Package door is what package policy says of a call to package policygrpc and to its own middleware.
package door

import (
	"context"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Call is a call with what the policies that match charge it.
type Call struct {
	Asks []Ask
	Err  error                               // why a policy that is enforced could not be applied
	End  func(context.Context, admit.Result) // tells the observers
}

// Ask is what one policy asks.
type Ask struct {
	Limiter loader.Limiter
	N       int64
	Key     []string // nil: the call is refused, because its key is empty
	Name    string
	Shadow  bool
	CountIf func(status int) bool // nil: it always counts
}

// Charges returns what a call costs, for a door whose results have these statuses.
func Charges[R, O any](c *Call, status func(O) int) ([]admit.Charge[R, O], error) {
	charges := make([]admit.Charge[R, O], len(c.Asks))
	for i, ask := range c.Asks {
		key := admit.KeyOf[R](ask.Key...).IfEmpty(admit.ShareEmpty)
		if ask.Key == nil {
			key = admit.KeyOf[R]("")
		}
		charges[i] = admit.Charge[R, O]{Limiter: ask.Limiter, N: ask.N, Key: key, Name: ask.Name, Shadow: ask.Shadow}
		if ask.CountIf != nil {
			charges[i].CountIf = func(result O) bool { return ask.CountIf(status(result)) }
		}
	}
	return charges, c.Err
}
