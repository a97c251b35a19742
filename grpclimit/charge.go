package grpclimit

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/loader"
)

// Charge is what a call costs one limiter.
type Charge struct {
	// Limiter is asked for N permits; 0 means 1.
	Limiter loader.Limiter
	N       int64

	// Key makes the subject.
	Key Key

	// Name is the name of the limit in QuotaFailure, which callers see; "" means the limiter's name.
	Name string

	// CountIf says by the code of the result whether the call counts; nil means that it always does. See the option
	// CountIf.
	CountIf func(codes.Code) bool

	// Shadow charges without refusing: see the option Shadow.
	Shadow bool
}

// check returns what is wrong with a charge, as far as that is known before there is a call.
func (c Charge) check() error {
	if c.Limiter == nil {
		return errors.New("grpclimit: the limiter is nil")
	}
	return errors.Join(c.Limiter.Check(), c.checkCall())
}

// checkCall returns what limiters do not find themselves when a call is charged.
func (c Charge) checkCall() error {
	if c.Limiter == nil {
		return errors.New("grpclimit: the limiter is nil")
	}
	if _, ok := c.Limiter.(loader.Returner); c.CountIf != nil && !ok {
		const text = "grpclimit: CountIf: %s cannot give permits back, ListLog, ZSetLog and SliceRing can: %w"
		return fmt.Errorf(text, c.name(), errors.ErrUnsupported)
	}
	return c.Key.Check()
}

// name returns the name of the limit.
func (c Charge) name() string {
	if c.Name != "" {
		return c.Name
	}
	return nameOf(c.Limiter)
}

// nameOf returns the name of a limiter, "default" if it has none.
func nameOf(limiter any) string {
	if named, ok := limiter.(interface{ Name() string }); ok && named.Name() != "" {
		return named.Name()
	}
	return "default"
}

// permits returns how many permits are asked for.
func (c Charge) permits() int64 {
	if c.N == 0 {
		return 1
	}
	return c.N
}
