package loader

import (
	"context"
	"reflect"
	"time"
)

// Limiter is what all limiters have. A subject has 1 to 65536 bytes. The n permits of one call are granted together or
// not at all; n is at least 1 and at most the limit.
//
// One of your own, such as a fake in a test, may stand where a limiter is asked by itself: in your code, and in the
// New, LimiterBy and PerRequest of httplimit and grpclimit. Batch and All, and so what is charged together, take only
// limiters that the same Loader made; another one is an *ArgumentError.
type Limiter interface {
	// Allow asks for one permit now. Use it to refuse what is over the limit.
	Allow(ctx context.Context, subject string) (Decision, error)

	// AllowN is Allow for n permits. More than the limit is an error that is ErrExceedsLimit.
	AllowN(ctx context.Context, subject string, n int64) (Decision, error)

	// Wait blocks until one permit may be used. Use it in workers that would rather be late than refused.
	Wait(ctx context.Context, subject string) error

	// WaitN is Wait for n permits. It returns a *WaitError at once if the context's deadline or MaxWait
	// cannot be met, and the context's error as soon as the context ends.
	WaitN(ctx context.Context, subject string, n int64) error

	// Peek returns what could be granted now, and changes nothing. Use it for dashboards and quota pages.
	Peek(ctx context.Context, subject string) (Decision, error)

	// Reset gives the subject its whole limit back. Use it to unblock a customer.
	Reset(ctx context.Context, subject string) error

	// Name returns the limiter's name. Middleware shows it to clients.
	Name() string

	// Check returns what is wrong with the limiter's name, limit and options. Call it once, when the program starts. It
	// sends nothing.
	Check() error
}

// Reserver is a Limiter that can book permits ahead: all but SliceRing, Quota and Ahead.
type Reserver interface {
	Limiter

	// Reserve books one permit for the earliest time at which it may be used. Use it to plan work ahead.
	Reserve(ctx context.Context, subject string) (*Reservation, error)

	// ReserveN is Reserve for n permits.
	ReserveN(ctx context.Context, subject string, n int64) (*Reservation, error)

	// ReserveWithin is ReserveN that books at most maxWait ahead.
	ReserveWithin(ctx context.Context, subject string, n int64, maxWait time.Duration) (*Reservation, error)
}

// Returner is a Limiter that can take permits back: ListLog, ZSetLog, SliceRing, Quota and Ahead. (An Ahead only takes
// back what Redis granted, and in an All it asks Redis.)
type Returner interface {
	Limiter

	// GiveBack gives back n of the permits that the decision granted. Use it for permits that were certainly not used:
	// to charge only what failed, say. Give it context.WithoutCancel of a request's context.
	GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error)
}

// IsSame reports whether two limiters count alike: of one Loader, one script, name and limit, with the same fallback if
// they have one, though they were made apart. Use it before an All, which takes each limiter once about a subject. An
// Ahead is only the same as itself; limiters of your own are compared by reflect.DeepEqual. Cost: nothing is sent.
func IsSame(a, b Limiter) bool {
	if c, ok := baseOf(a); ok {
		d, ok := baseOf(b)
		return ok && c.isSame(d)
	}
	if _, ok := a.(*Ahead); ok {
		return a == b
	}
	return reflect.DeepEqual(a, b)
}
