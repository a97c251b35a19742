//go:build unix

package soak

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/sluice-redis/sluice/loader"
)

// giveBack asks for permits, and gives every second grant back.
func (a *answer) giveBack(ctx context.Context) {
	a.decided, a.err = a.limiter.AllowN(ctx, a.subject, a.permits)
	if a.err != nil || !a.decided.Granted || rand.IntN(2) == 0 {
		return
	}
	returner, _ := a.limiter.(loader.Returner) // the mode has no others
	var returned int64
	if returned, a.err = returner.GiveBack(ctx, a.subject, a.decided, a.permits); a.err != nil {
		return
	}
	_, repeated := a.limiter.(loader.ZSetLog)
	a.unsure = repeated && returned < a.permits // the first of two calls may have given back, and its reply was lost
	if a.ledger && !a.unsure && returned < a.permits {
		a.err = errNotReturned
	}
	if !a.unsure {
		a.permits -= returned
	}
}

// errNotReturned is of no kind that a fault explains: a ledger forgets nothing.
var errNotReturned = errors.New("permits of a grant were not given back")

// askAll asks all or none.
func askAll(ctx context.Context, l *limits, answers []answer) {
	all := l.All()
	for _, a := range answers {
		all.AllowN(a.limiter.(loader.Returner), a.subject, a.permits)
	}
	d, err := all.Do(ctx)
	for i := range answers {
		if answers[i].err = err; d.Granted {
			answers[i].decided = d.Parts[i].Decision
		}
	}
}
