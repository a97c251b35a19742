package loader

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-redis/sluice"
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

// Reserver is a Limiter that can book permits ahead: all but SliceRing and Ahead.
type Reserver interface {
	Limiter

	// Reserve books one permit for the earliest time at which it may be used. Use it to plan work ahead.
	Reserve(ctx context.Context, subject string) (*Reservation, error)

	// ReserveN is Reserve for n permits.
	ReserveN(ctx context.Context, subject string, n int64) (*Reservation, error)
}

// Returner is a Limiter that can take permits back: ListLog, ZSetLog, SliceRing and Ahead. (An Ahead only takes
// back what Redis granted, and in an All it asks Redis.)
type Returner interface {
	Limiter

	// GiveBack gives back n of the permits that the decision granted. Use it for permits that were certainly not used:
	// to charge only what failed, say. Give it context.WithoutCancel of a request's context.
	GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error)
}

// algorithm is what limiters of one script have in common.
type algorithm struct {
	name           string // "GCRA"
	amount         string // for errors: what a caller calls the permits, "" for n
	largerLimiters string // for errors: which limiters take a larger limit
	largerCalls    string // for errors: which limiters grant more in one call
	script         *sluice.Script
	code           string
	hasIDs         bool // a call has an id: it may be repeated
	canBook        bool // a max_wait is possible
	capacity       func(core) int64
	checkID        func(s *settings, id string) error         // nil: ids have been checked
	makeWords      func(c core, key string, q question) []any // the command
	moreFields     int                                        // of the reply, for that
	keys           func(c core, key string) []string          // what Reset removes

	// detail adds to a decision what only this script replies; nil if that is nothing.
	detail func(c core, d Decision, keys []any, reply []int64) Decision

	// makeReturn makes the command that gives back n permits of a grant; nil if the script cannot.
	makeReturn func(c core, key string, d Decision, n int64) (*sluice.Script, []any)
}

// core is a limiter: the settings that it shares with its copies, and what a copy has for itself.
type core struct {
	*settings
	limit    Limit
	ring     ring // of a SliceRing or a Budget, in place of limit
	id       string
	limitErr error // what is wrong with the limit
	idErr    error // what is wrong with the id
}

// itself is how a Batch finds what a limiter is made of.
func (c core) itself() core { return c }

// Allow asks for one permit now. Cost: one round trip.
func (c core) Allow(ctx context.Context, subject string) (Decision, error) {
	return c.decide(ctx, subject, question{method: "Allow", permits: 1, id: c.callID()})
}

// AllowN asks for n permits now, all or nothing. More than could ever be granted is ErrExceedsLimit. Cost: one round
// trip.
func (c core) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	return c.decide(ctx, subject, question{method: "Allow", permits: n, id: c.callID()})
}

// Peek returns what could be granted now, and changes nothing: Remaining is the number of permits, Wait the time until
// one permit comes free. Cost: one round trip.
func (c core) Peek(ctx context.Context, subject string) (Decision, error) {
	return c.decide(ctx, subject, question{method: peek})
}

// Reset gives the subject its whole limit back, by removing its keys. Cost: one round trip, UNLINK.
func (c core) Reset(ctx context.Context, subject string) error {
	key, err := c.key(subject)
	if err != nil {
		return err
	}
	keys := c.algorithm.keys(c, key)
	defer c.forgetDenials(key)
	err = c.limits.await(ctx, c.timeout(), func(ctx context.Context) error {
		return c.limits.rdb.Unlink(ctx, keys...).Err()
	})
	if err != nil {
		return fmt.Errorf("loader: Reset: %w", err)
	}
	return nil
}

// Name returns the limiter's name. It is empty for a zero limiter. Cost: nothing.
func (c core) Name() string { return c.limiterName() }

// Check returns what is wrong with the limiter's name, limit and options, or with its Loader's options. Call it once,
// when the program starts. Cost: nothing is sent.
func (c core) Check() error {
	_, err := c.key("any")
	return err
}

// maxArgument returns the maximum of the first of these arguments that the script has, math.MaxInt64 if it has none.
func (k *algorithm) maxArgument(arguments ...string) int64 {
	for i := range k.script.Args {
		if slices.Contains(arguments, k.script.Args[i].Name) {
			return k.script.Args[i].Max
		}
	}
	return math.MaxInt64
}

// callID returns the id of one call: the caller's own or, if the script takes ids, a new one.
func (c core) callID() string {
	if c.id != "" || c.settings == nil || !c.algorithm.hasIDs {
		return c.id
	}
	return newID()
}

// with returns the limiter with another limit.
func (c core) with(limit Limit) core {
	if c.limit = limit; c.settings != nil {
		c.limitErr = c.checkLimit(limit)
	}
	return c
}

// onlyKey returns the key of a limiter that has one key for each subject.
func onlyKey(_ core, key string) []string { return []string{key} }

// limitCapacity is the capacity of a limiter that grants up to its limit at once.
func limitCapacity(c core) int64 { return c.limit.Permits }

// unknownCapacity is the capacity if the limit is not known.
const unknownCapacity = math.MaxInt64

// storedCapacity is the capacity of a limiter whose limit is stored in Redis. A limit of 0 denies all the same.
func storedCapacity(c core) int64 {
	if c.limit.Permits == 0 {
		return 0
	}
	return unknownCapacity
}

// newID returns 22 characters, of 128 random bits.
func newID() string {
	var bits [16]byte
	var id [22]byte
	_, _ = rand.Read(bits[:]) // never fails
	base64.RawURLEncoding.Encode(id[:], bits[:])
	return string(id[:])
}
