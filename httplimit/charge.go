package httplimit

import (
	"errors"
	"fmt"

	"github.com/sluice-redis/sluice/loader"
)

// Charge is what a request costs one limiter.
type Charge struct {
	// Limiter is asked for N permits; 0 means 1.
	Limiter loader.Limiter
	N       int64

	// Key makes the subject.
	Key Key

	// Name is the name of the policy in headers and bodies, which clients see; "" means the limiter's name. It has
	// printable ASCII characters only.
	Name string

	// CountIf says by the status of the response whether the request counts; nil means that it always does. See the
	// option CountIf.
	CountIf func(status int) bool

	// Shadow charges without refusing: see the option Shadow.
	Shadow bool
}

// check returns what is wrong with a charge, as far as that is known before there is a request.
func (c Charge) check() error {
	if err := c.checkUse(); err != nil {
		return err
	}
	return errors.Join(c.Limiter.Check(), c.Key.Check())
}

// checkUse returns what is wrong with how the limiter is used. It is quick: PerRequest calls it for each request.
func (c Charge) checkUse() error {
	if c.Limiter == nil {
		return errors.New("httplimit: the limiter is nil")
	}
	if _, ok := c.Limiter.(loader.Returner); c.CountIf != nil && !ok {
		const text = "httplimit: CountIf: %s cannot give permits back, ListLog, ZSetLog and SliceRing can: %w"
		return fmt.Errorf(text, c.policy(), errors.ErrUnsupported)
	}
	if c.Key.err != nil {
		return c.Key.err
	}
	return checkName(c.Name)
}

// checkName returns what is wrong with the name of a policy.
func checkName(name string) error {
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("httplimit: name %q: want printable ASCII characters", name)
		}
	}
	return nil
}

// policy returns the name of the policy.
func (c Charge) policy() string {
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
