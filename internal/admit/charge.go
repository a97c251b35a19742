package admit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Charge asks a limiter for N permits about a subject. The engine writes the answer into it.
type Charge struct {
	Limiter loader.Limiter
	Subject string
	N       int64
	Name    string                 // for Decision.Policy
	CountIf func(outcome int) bool // by the status or code of the request's result; nil: it always counts
	Shadow  bool
	Ban     loader.Limiter // of refusals by Limiter: while it is full, everything about the subject is refused; nil: none
	Delay   time.Duration  // for which the request is held until Limiter grants
	Kind    Kind
	Quota   bool // it refuses a request only if all quotas of the request deny; it is asked by itself

	Answered bool
	Denied   bool // the limiter has denied; it has not if it failed
	Decision loader.Decision
	Err      error // of a charge that is not asked yet: why it cannot be

	charged loader.Decision // by the limiter: Decision may show a ban, or the end of a delay

	sum int64   // N, and the N of later charges about the same limiter and subject
	in  *Charge // has this one in its sum; nil: this one is asked
}

// Kind is how a limiter is asked.
type Kind int

// The kinds.
const (
	Take   Kind = iota // for permits
	Look               // whether there is one, which charges nothing
	Report             // nothing: N are charged whatever the limit says; the limiter is a Reporter
)

// Reporter is a limiter that can be told of permits that were used already.
type Reporter interface {
	loader.Limiter
	Report(ctx context.Context, subject string, n int64) (loader.Decision, error)
}

// isSame reports whether two charges are about the same limiter and subject.
func (c *Charge) isSame(d *Charge) bool {
	return c.Subject == d.Subject && c.N > 0 && d.N > 0 && loader.IsSame(c.Limiter, d.Limiter)
}

// NameOf returns the name of a limiter, "default" if it is empty.
func NameOf(limiter interface{ Name() string }) string { return cmp.Or(limiter.Name(), "default") }

// returner returns the limiter as one that can give back.
func returner(limiter loader.Limiter) (loader.Returner, error) {
	if r, ok := limiter.(loader.Returner); ok {
		return r, nil
	}
	const text = "%s cannot give permits back, ListLog, ZSetLog, SliceRing and Quota can: %w"
	return nil, fmt.Errorf(text, NameOf(limiter), errors.ErrUnsupported)
}
