package loader

import (
	"context"
	"fmt"
)

// Planned is a limiter that looks the subject's limit up for each call, as With would have it: see the Plan methods. A
// limit of 0 denies without asking Redis. An error of the look-up is the call's error, and nothing is asked then, nor
// does a policy answer. Wait looks it up once, before it begins. Reset needs no limit. A Batch takes no Planned
// limiter: give it With(limit). The zero Planned is not ready for use.
type Planned struct {
	core core
	with func(ctx context.Context, subject string) (core, error)
}

// PlannedReserver is a Planned limiter that books ahead.
type PlannedReserver struct{ Planned }

// Plan returns the limiter with a limit that is looked up for each call: by the plan that the subject has paid for.
// The look-up is called by as many goroutines as call the limiter. Cost: the look-up.
func (b ListLog) Plan(limitOf func(ctx context.Context, subject string) (Limit, error)) PlannedReserver {
	return b.planned(limitOf)
}

// Plan returns the limiter with a limit that is looked up for each call: see ListLog.Plan.
func (b ZSetLog) Plan(limitOf func(ctx context.Context, subject string) (Limit, error)) PlannedReserver {
	return b.planned(limitOf)
}

// Plan returns the limiter with a limit that is looked up for each call: see ListLog.Plan.
func (b GCRA) Plan(limitOf func(ctx context.Context, subject string) (Limit, error)) PlannedReserver {
	return b.planned(limitOf)
}

// Plan returns the limiter with windows that are looked up for each call: see ListLog.Plan. All of them share the
// slices of this one.
func (r SliceRing) Plan(limitsOf func(ctx context.Context, subject string) ([]Limit, error)) Planned {
	return planned(r.core, limitsOf, r.withWindows)
}

func (b booker) planned(limitOf func(context.Context, string) (Limit, error)) PlannedReserver {
	return PlannedReserver{planned(b.core, limitOf, b.with)}
}

// planned is c with what is looked up.
func planned[L any](c core, lookUp func(context.Context, string) (L, error), with func(L) core) Planned {
	return Planned{core: c, with: func(ctx context.Context, subject string) (core, error) {
		limit, err := lookUp(ctx, subject)
		if err != nil {
			return core{}, fmt.Errorf("loader: looking up the limit: %w", err)
		}
		return with(limit), nil
	}}
}

// of is the subject's limiter.
func (p Planned) of(ctx context.Context, subject string) (core, error) {
	if _, err := p.core.key(subject); err != nil {
		return core{}, err
	}
	return p.with(ctx, subject)
}

// Allow asks for one permit now. Cost: the look-up and one round trip.
func (p Planned) Allow(ctx context.Context, subject string) (Decision, error) {
	c, err := p.of(ctx, subject)
	if err != nil {
		return Decision{}, err
	}
	return c.Allow(ctx, subject)
}

// AllowN asks for n permits now, all or nothing. Cost: the look-up and one round trip.
func (p Planned) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	c, err := p.of(ctx, subject)
	if err != nil {
		return Decision{}, err
	}
	return c.AllowN(ctx, subject, n)
}

// Wait is WaitN for one permit.
func (p Planned) Wait(ctx context.Context, subject string) error { return p.WaitN(ctx, subject, 1) }

// WaitN returns when it has n permits that may be used, under the limit that it found when it began. Cost: the
// look-up and one round trip a sleep.
func (p Planned) WaitN(ctx context.Context, subject string, n int64) error {
	c, err := p.of(ctx, subject)
	if err != nil {
		return err
	}
	return c.WaitN(ctx, subject, n)
}

// Peek looks and changes nothing. Cost: the look-up and one round trip.
func (p Planned) Peek(ctx context.Context, subject string) (Decision, error) {
	c, err := p.of(ctx, subject)
	if err != nil {
		return Decision{}, err
	}
	return c.Peek(ctx, subject)
}

// Reset makes the subject's limiter as new. Cost: one round trip, UNLINK.
func (p Planned) Reset(ctx context.Context, subject string) error { return p.core.Reset(ctx, subject) }

// Reserve is ReserveN for one permit.
func (p PlannedReserver) Reserve(ctx context.Context, subject string) (*Reservation, error) {
	return p.ReserveN(ctx, subject, 1)
}

// ReserveN books n permits for as soon as they may be used. Cost: the look-up and one round trip.
func (p PlannedReserver) ReserveN(ctx context.Context, subject string, n int64) (*Reservation, error) {
	c, err := p.of(ctx, subject)
	if err != nil {
		return nil, err
	}
	return booker{c}.ReserveN(ctx, subject, n)
}
