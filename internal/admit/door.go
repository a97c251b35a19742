package admit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/sluice-redis/sluice/loader"
)

// Door makes what is asked about requests of type R from what a program says. O is the type of their results.
type Door[R, O any] struct {
	Package string // for errors
	Limits  *loader.Loader
	Charges []Charge[R, O]
	Choose  func(R) ([]Charge[R, O], error) // nil: Charges are those of all requests
	Options Options[R, O]
	made    bool // Init was called
	err     error
}

// Charge is what a request costs one limiter.
type Charge[R, O any] struct {
	Limiter loader.Limiter
	N       int64 // 0 means 1
	Key     Key[R]
	Name    string       // that clients see; "" means the limiter's name
	CountIf func(O) bool // nil: it always counts
	Shadow  bool
}

// Options is what all doors offer.
type Options[R, O any] struct {
	LimiterBy func(R) loader.Limiter
	Cost      func(R) int64
	Skip      func(R) bool
	CountIf   func(O) bool
	Shadow    bool
	Slots     []Slots[R]
	Budgets   []Budget[R]
	NoCount   string // why there can be no CountIf; "": there can
	Err       error  // what is wrong with an option
}

// Slots is a concurrency limiter of which a request holds a slot.
type Slots[R any] struct {
	Limiter loader.Concurrency
	Key     Key[R]
}

// Budget is a budget that a request reserves an estimate of.
type Budget[R any] struct {
	Budget   loader.Budget
	Key      Key[R]
	Estimate func(R) int64
}

// Part is what a Door asks about: a stream holds its slots, and its messages are charged.
type Part int

// The parts.
const (
	Charges   Part = 1 << iota
	Resources      // slots and budgets
	Waiting        // as a client: see Request.Wait
)

// Init applies the options to the charges, and checks all. Call it before anything else.
func (d *Door[R, O]) Init() {
	d.made = true
	d.Charges = append([]Charge[R, O](nil), d.Charges...)
	for i := range d.Charges {
		d.complete(&d.Charges[i])
	}
	if err := cmp.Or(d.Options.Err, d.check()); err != nil {
		d.err = &configError{fmt.Errorf("%s: %w", d.Package, err)}
	}
}

var errNotMade = &configError{errors.New("not ready for use: want one that New, AllOf or PerRequest made")}

// Check returns what is wrong. A door that nobody made must not let requests through.
func (d *Door[R, O]) Check() error {
	if !d.made {
		return errNotMade
	}
	return d.err
}

// Skips reports whether a request goes on without asking a limiter.
func (d *Door[R, O]) Skips(r R) bool { return d.Options.Skip != nil && d.Options.Skip(r) }

func (d *Door[R, O]) complete(c *Charge[R, O]) {
	if c.CountIf == nil {
		c.CountIf = d.Options.CountIf
	}
	c.Shadow = c.Shadow || d.Options.Shadow
	c.N = cmp.Or(c.N, 1)
}

// check returns what is wrong with the charges and the options, by themselves and together.
func (d *Door[R, O]) check() error {
	o := d.Options
	var errs []error
	for _, c := range d.Charges {
		if isNil(c.Limiter) {
			return errors.New("the limiter is nil")
		}
		errs = append(errs, c.Limiter.Check(), cmp.Or(c.Key.Check(), d.checkUse(c)))
	}
	for _, s := range o.Slots {
		errs = append(errs, s.Limiter.Check(), s.Key.Check())
	}
	for _, b := range o.Budgets {
		if errs = append(errs, b.Budget.Check(), b.Key.Check()); b.Estimate == nil {
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

// checkUse returns what is wrong with how a limiter is used. It is quick: it is called for each request.
func (d *Door[R, O]) checkUse(c Charge[R, O]) error {
	if c.CountIf != nil {
		if _, err := returner(c.Limiter); err != nil {
			return fmt.Errorf("CountIf: %w", err)
		}
		if d.Options.NoCount != "" {
			return errors.New("CountIf: " + d.Options.NoCount)
		}
	}
	for _, b := range []byte(c.Name) {
		if b < ' ' || b > '~' {
			return fmt.Errorf("name %q: want printable ASCII characters", c.Name)
		}
	}
	return c.Key.err
}

// isNil reports whether there is no limiter: nil, or what a map of pointers has for an unknown plan.
func isNil(limiter loader.Limiter) bool {
	value := reflect.ValueOf(limiter)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}

// returner returns the limiter as one that can give back.
func returner(limiter loader.Limiter) (loader.Returner, error) {
	if r, ok := limiter.(loader.Returner); ok {
		return r, nil
	}
	const text = "%s cannot give permits back, ListLog, ZSetLog and SliceRing can: %w"
	return nil, fmt.Errorf(text, NameOf(limiter), errors.ErrUnsupported)
}

// checkTogether returns what is wrong with asking several limiters at once: those that are enforced, and those in
// shadow.
func (d *Door[R, O]) checkTogether() error {
	if len(d.Charges) < 2 {
		return nil
	}
	all, enforced, batch, errs := d.Limits.All(), 0, d.Limits.Batch(), []error(nil)
	for i, c := range d.Charges {
		if !c.Shadow {
			limiter, err := returner(c.Limiter)
			if errs = append(errs, err); err == nil {
				all.AllowN(limiter, strconv.Itoa(i), c.N) // whether subjects are the same is not known yet
				enforced++
			}
			continue
		}
		if wrong, ok := errors.AsType[*loader.ArgumentError](batch.AllowN(c.Limiter, "any", c.N).Err); ok {
			errs = append(errs, wrong)
		}
	}
	if enforced > 1 {
		errs = append(errs, all.Check())
	}
	return errors.Join(errs...)
}

// Admit decides about a request. The caller calls a.Release, whether it goes on or not.
func (d *Door[R, O]) Admit(ctx context.Context, a *Admission[O], r R, parts Part) {
	a.ctx = ctx
	q := Request[O]{Limits: d.Limits, Shadow: d.Options.Shadow, Wait: parts&Waiting != 0}
	a.request = q
	wrong := d.Check()
	err := wrong
	if wrong == nil {
		err = d.ask(&q, r, parts)
	}
	switch {
	case wrong != nil:
		a.Outcome, a.Err = Misconfigured, wrong // in shadow too
	case err == errNoKey:
		a.Outcome = NoKey
	case err != nil:
		a.fail(err)
	default:
		a.Decide(ctx, q)
	}
}

// errNoKey says that a request has no value for a key that refuses such requests.
var errNoKey = errors.New("no value for a key")

// ask finds what is asked about a request.
func (d *Door[R, O]) ask(q *Request[O], r R, parts Part) error {
	var err error
	if parts&Charges != 0 {
		err = d.askCharges(q, r)
	}
	if parts&Resources == 0 || err != nil && err != errNoKey {
		return err
	}
	for _, s := range d.Options.Slots {
		if subject, ok := d.subject(s.Key, r, q.Shadow, &err); ok {
			q.Slots = append(q.Slots, Hold{s.Limiter, subject})
		}
	}
	for _, b := range d.Options.Budgets {
		if n := b.Estimate(r); n != 0 {
			if subject, ok := d.subject(b.Key, r, q.Shadow, &err); ok {
				q.Budgets = append(q.Budgets, Estimate{b.Budget, subject, n})
			}
		}
	}
	return err
}

// subject returns the subject of a request, if it has one, and sets err if it is refused without.
func (d *Door[R, O]) subject(key Key[R], r R, shadow bool, err *error) (subject string, ok bool) {
	subject, choice := key.Subject(r)
	if choice == RefuseEmpty && !shadow {
		*err = errNoKey
	}
	return subject, choice == ShareEmpty
}

// askCharges finds the charges of a request.
func (d *Door[R, O]) askCharges(q *Request[O], r R) error {
	charges, err := d.chargesOf(r)
	if err != nil {
		return err
	}
	q.Asks = make([]Ask[O], 0, len(charges))
	for _, c := range charges {
		if d.Choose != nil {
			d.complete(&c)
		}
		if isNil(c.Limiter) {
			return fmt.Errorf("%s: %w", d.Package, ErrNoLimiter)
		}
		wrong := d.checkUse(c)
		if c.CountIf != nil && q.Wait {
			wrong = errors.New("CountIf is for servers: a client has waited for its permits")
		}
		if wrong != nil {
			return &configError{fmt.Errorf("%s: %w", d.Package, wrong)}
		}
		if subject, ok := d.subject(c.Key, r, c.Shadow, &err); ok {
			q.Asks = append(q.Asks, Ask[O]{c.Limiter, subject, c.N, cmp.Or(c.Name, NameOf(c.Limiter)), c.CountIf, c.Shadow})
		}
	}
	return err
}

// chargesOf returns the charges of a request.
func (d *Door[R, O]) chargesOf(r R) ([]Charge[R, O], error) {
	o := d.Options
	if d.Choose != nil {
		charges, err := d.Choose(r)
		if charges == nil && err == nil {
			err = fmt.Errorf("%s: %w", d.Package, ErrNoLimiter)
		}
		return charges, err
	}
	if o.LimiterBy == nil && o.Cost == nil {
		return d.Charges, nil
	}
	c := d.Charges[0]
	if o.LimiterBy != nil {
		c.Limiter = o.LimiterBy(r)
	}
	if o.Cost != nil {
		if c.N = o.Cost(r); c.N == 0 {
			return nil, nil
		}
	}
	return []Charge[R, O]{c}, nil
}
