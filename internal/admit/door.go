package admit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/clientaddr"
	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader"
)

// Door makes what is asked about requests of type R of what a program says. C is its type of a charge.
type Door[R, C any] struct {
	Package string // for errors
	Limits  *loader.Loader
	Charges []C
	Choose  func(R) ([]C, error) // nil: Charges are those of all requests
	Read    func(C) Keyed[R]
	Options Options[R]

	charges []Keyed[R] // Charges, with the options
	held    *Held
	made    bool // Init was called
	err     error
	log     *rarelog.Log // why all requests are refused
}

// Keyed is a charge whose subject is made by a key, unless it has one.
type Keyed[R any] struct {
	Charge
	Key Key[R]
}

// Options is what all doors offer.
type Options[R any] struct {
	LimiterBy func(R) loader.Limiter
	Cost      func(R) int64
	Skip      func(R) bool
	CountIf   func(outcome int) bool
	Ban       loader.Limiter
	Delay     time.Duration
	MaxHeld   int64
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
func (d *Door[R, C]) Init() {
	d.made, d.log, d.held = true, rarelog.New(nil), &Held{Max: cmp.Or(d.Options.MaxHeld, MaxHeld)}
	for _, c := range d.Charges {
		keyed := d.Read(c)
		d.complete(&keyed.Charge)
		d.charges = append(d.charges, keyed)
	}
	if err := cmp.Or(d.Options.Err, d.check()); err != nil {
		d.err = &configError{fmt.Errorf("%s: %w", d.Package, err)}
	}
}

// complete applies the options to a charge.
func (d *Door[R, C]) complete(c *Charge) {
	if c.CountIf == nil {
		c.CountIf = d.Options.CountIf
	}
	if c.Ban == nil {
		c.Ban = d.Options.Ban
	}
	c.Delay = cmp.Or(c.Delay, d.Options.Delay)
	c.Shadow = c.Shadow || d.Options.Shadow
	c.N = cmp.Or(c.N, 1)
}

// Decide decides about a request. The caller calls q.Release, whether it goes on or not.
func (d *Door[R, C]) Decide(ctx context.Context, q *Request, r R, parts Part) {
	q.ctx, q.Limits, q.Shadow, q.Wait, q.Held = ctx, d.Limits, d.Options.Shadow, parts&Waiting != 0, d.held
	if !d.made || d.err != nil {
		q.Outcome, q.Err = admission.Misconfigured, d.Check() // in shadow too
		return
	}
	var err error
	if parts&Charges != 0 {
		err = d.charge(q, r)
	}
	if parts&Resources != 0 && err == nil && len(d.Options.Slots)+len(d.Options.Budgets) > 0 {
		d.hold(q, r)
	}
	switch {
	case err != nil:
		q.fail(err)
	case q.Outcome == admission.Allowed:
		q.Decide(ctx)
	}
	if q.Outcome == admission.Misconfigured || errors.Is(q.Err, admission.ErrNoLimiter) {
		d.Complain(q.Err)
	}
}

// unmade is the log of doors that nobody made.
var unmade rarelog.Log

// Complain logs why requests are refused whatever Redis says: each cause once a minute, with the number left out.
func (d *Door[R, C]) Complain(err error) {
	about := err.Error() // says what the program says
	if argument, ok := errors.AsType[*loader.ArgumentError](err); ok {
		about = argument.Limiter + " " + argument.Argument // the value may be a request's
	} else if _, ok := errors.AsType[*clientaddr.PeerError](err); ok {
		about = "peer"
	}
	cmp.Or(d.log, &unmade).Error(cmp.Or(d.Package, "sluice")+": requests are refused until the program is mended", about, err)
}

// charge finds the charges of a request.
func (d *Door[R, C]) charge(q *Request, r R) error {
	if d.Choose == nil {
		return d.chargeFixed(q, r)
	}
	charges, err := d.Choose(r)
	if charges == nil || err != nil {
		return cmp.Or(err, fmt.Errorf("%s: %w", d.Package, admission.ErrNoLimiter))
	}
	q.Charges = make([]Charge, 0, len(charges))
	for _, c := range charges {
		keyed := d.Read(c)
		d.complete(&keyed.Charge)
		if err := d.add(q, &keyed, r); err != nil {
			return err
		}
	}
	return nil
}

// chargeFixed finds the charges of a request where the limiters are the same for all requests, or the option LimiterBy
// chooses one.
func (d *Door[R, C]) chargeFixed(q *Request, r R) error {
	q.Charges = make([]Charge, 0, len(d.charges))
	for _, keyed := range d.charges {
		if d.Options.Cost != nil {
			keyed.N = d.Options.Cost(r)
			if keyed.N == 0 {
				return nil
			}
		}
		if d.Options.LimiterBy != nil {
			if keyed.Err == nil && !d.hasSubject(q, &keyed, r) { // who has no key has no plan either
				continue
			}
			keyed.Limiter = d.Options.LimiterBy(r)
		}
		if err := d.add(q, &keyed, r); err != nil {
			return err
		}
	}
	return nil
}

// add adds a charge to those of a request, if it has a subject. A request that is refused without one is NoKey.
func (d *Door[R, C]) add(q *Request, c *Keyed[R], r R) error {
	if c.Err != nil {
		q.Charges = append(q.Charges, c.Charge)
		return nil
	}
	if isNil(c.Limiter) {
		return fmt.Errorf("%s: %w", d.Package, admission.ErrNoLimiter)
	}
	err := d.checkUse(c)
	if q.Wait && (c.CountIf != nil || c.Ban != nil) {
		err = errors.New("CountIf and Ban are for servers: a client has waited for its permits")
	}
	if err != nil {
		return &configError{fmt.Errorf("%s: %w", d.Package, err)}
	}
	if c.Name == "" {
		c.Name = NameOf(c.Limiter)
	}
	if d.hasSubject(q, c, r) {
		q.Charges = append(q.Charges, c.Charge)
	}
	return nil
}

// hasSubject finds the subject of a charge. A request that is refused without one is NoKey.
func (d *Door[R, C]) hasSubject(q *Request, c *Keyed[R], r R) bool {
	if c.Subject == "" {
		c.Subject = subjectOf(q, c.Key, r, cmp.Or(c.Name, NameOf(c.Limiter)), c.Shadow)
	}
	return c.Subject != ""
}

// subjectOf returns the subject of a request by a key, "" if it has none. If it is refused for that, q says so.
func subjectOf[R any](q *Request, key Key[R], r R, policy string, shadow bool) string {
	subject, choice := key.Subject(r)
	if choice != RefuseEmpty || shadow || q.Outcome != admission.Allowed {
		return subject
	}
	q.Outcome, q.Missing = admission.NoKey, policy
	if err := key.faultOf(r); err != nil {
		q.Outcome, q.Err = admission.Misconfigured, err
	}
	return ""
}

// hold finds the slots and budgets of a request.
func (d *Door[R, C]) hold(q *Request, r R) {
	for _, s := range d.Options.Slots {
		if subject := subjectOf(q, s.Key, r, "", q.Shadow); subject != "" {
			q.Slots = append(q.Slots, Hold{s.Limiter, subject})
		}
	}
	for _, b := range d.Options.Budgets {
		n := b.Estimate(r)
		if n == 0 {
			continue
		}
		if subject := subjectOf(q, b.Key, r, "", q.Shadow); subject != "" {
			q.Budgets = append(q.Budgets, Estimate{b.Budget, subject, n})
		}
	}
}

// checkUse returns what is wrong with how a limiter is used. It is quick: it is called for each request.
func (d *Door[R, C]) checkUse(c *Keyed[R]) error {
	if c.CountIf != nil {
		if _, err := returner(c.Limiter); err != nil {
			return fmt.Errorf("CountIf: %w", err)
		}
		if d.Options.NoCount != "" {
			return errors.New("CountIf: " + d.Options.NoCount)
		}
	}
	if c.Delay < 0 || c.Delay%time.Microsecond != 0 {
		return fmt.Errorf("delay %v: want whole microseconds, 0 or more", c.Delay)
	}
	if !IsPrintable(c.Name) {
		return fmt.Errorf("name %q: want printable ASCII characters", c.Name)
	}
	return c.Key.err
}

// isNil reports whether there is no limiter: nil, or what a map of pointers has for an unknown plan.
func isNil(limiter loader.Limiter) bool {
	value := reflect.ValueOf(limiter)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}
