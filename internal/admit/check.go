package admit

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/sluice-redis/sluice/loader"
)

// configError is an error that Check returns, or would return for the charges of a request.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

var errNotMade = &configError{errors.New("not ready for use: want one that New, AllOf or PerRequest made")}

// Check returns what is wrong. A door that nobody made must not let requests through.
func (d *Door[R, C]) Check() error {
	if !d.made {
		return errNotMade
	}
	return d.err
}

// check returns what is wrong with the charges and the options, by themselves and together.
func (d *Door[R, C]) check() error {
	o := d.Options
	var errs []error
	for i := range d.charges {
		c := &d.charges[i]
		if c.Err != nil {
			errs = append(errs, c.Err)
			continue
		}
		if isNil(c.Limiter) {
			return errors.New("the limiter is nil")
		}
		err := d.checkUse(c)
		if c.Subject == "" {
			err = cmp.Or(c.Key.Check(), err)
		}
		errs = append(errs, c.Limiter.Check(), err)
		if c.Ban != nil {
			errs = append(errs, c.Ban.Check())
		}
	}
	for _, s := range o.Slots {
		errs = append(errs, s.Limiter.Check(), s.Key.Check())
	}
	for _, b := range o.Budgets {
		errs = append(errs, b.Budget.Check(), b.Key.Check())
		if b.Estimate == nil {
			errs = append(errs, errors.New("the function of Budgets is nil"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	one := d.Choose == nil && len(d.Charges) == 1
	switch {
	case !one && (o.LimiterBy != nil || o.Cost != nil):
		return errors.New("LimiterBy and Cost are options for one limiter")
	case d.Choose == nil && len(d.Charges)+len(o.Slots)+len(o.Budgets) == 0:
		return errors.New("no charges, no Slots and no Budgets: want a limiter")
	case d.Limits == nil && (d.Choose != nil || len(d.Charges) > 1):
		return errors.New("the Loader is nil")
	}
	return d.checkTogether()
}

// checkTogether returns what is wrong with asking several limiters at once: the enforced ones, and the ones in shadow.
func (d *Door[R, C]) checkTogether() error {
	if len(d.charges) < 2 {
		return nil
	}
	all, enforced, batch, errs := d.Limits.All(), 0, d.Limits.Batch(), []error(nil)
	for i, c := range d.charges {
		if !c.Shadow {
			limiter, err := returner(c.Limiter)
			errs = append(errs, err)
			if err == nil {
				all.AllowN(limiter, strconv.Itoa(i), c.N) // whether subjects are the same is not known yet
				enforced++
			}
			continue
		}
		result := batch.AllowN(c.Limiter, "any", c.N)
		if argument, ok := errors.AsType[*loader.ArgumentError](result.Err); ok {
			errs = append(errs, argument)
		}
	}
	if enforced > 1 {
		errs = append(errs, all.Check())
	}
	return errors.Join(errs...)
}
