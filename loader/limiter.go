package loader

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-redis/sluice"
)

// Limiter is what all limiters have. Subjects are never empty; permits are asked for all together or
// not at all, and n is at least 1 and at most the limit.
type Limiter interface {
	// Allow asks for one permit now.
	Allow(ctx context.Context, subject string) (Decision, error)

	// AllowN asks for n permits now. More than the limit is an error that is ErrExceedsLimit.
	AllowN(ctx context.Context, subject string, n int64) (Decision, error)

	// Wait returns when it has a permit that may be used.
	Wait(ctx context.Context, subject string) error

	// WaitN is Wait for n permits. It returns a *WaitError at once if the context's deadline or MaxWait
	// cannot be met, and the context's error as soon as the context ends.
	WaitN(ctx context.Context, subject string, n int64) error

	// Peek looks and changes nothing.
	Peek(ctx context.Context, subject string) (Decision, error)

	// Reset makes the subject's limiter as new.
	Reset(ctx context.Context, subject string) error

	// Check says what is wrong with the limiter's name, limit and options. It sends nothing.
	Check() error
}

// Reserver is a Limiter that books permits ahead: all but SliceRing.
type Reserver interface {
	Limiter

	// Reserve books one permit for as soon as it may be used.
	Reserve(ctx context.Context, subject string) (*Reservation, error)

	// ReserveN is Reserve for n permits.
	ReserveN(ctx context.Context, subject string, n int64) (*Reservation, error)
}

// kind is what limiters of one script have in common.
type kind struct {
	name     string // "GCRA"
	more     string // who holds more permits than it does, for errors
	atOnce   string // and who grants more at once
	script   *sluice.Script
	code     string
	ids      bool // a call carries an id: it may be repeated and given back
	books    bool // a max_wait is possible
	capacity func(core) int64
	ask      func(c core, key string, q question) (call, error)
	keys     func(s *settings, key string) []string // what Reset removes
}

// Methods: the one that asks for no permits, and the one that books.
const (
	peek    = "Peek"
	reserve = "ReserveN"
)

// question is one call to a script.
type question struct {
	method  string // for errors, "AllowN"
	permits int64  // 0 looks
	maxWait time.Duration
	id      string
}

// core is a limiter: what it shares with its copies, and what a copy has for itself.
type core struct {
	*settings
	limit   Limit
	windows []SliceRingV1Window // of a SliceRing, instead of limit
	id      string
	bad     error        // what is wrong with the limit
	badID   error        // what is wrong with the id
	seen    *observation // that its decisions are a part of
}

// Allow asks for one permit now. Cost: one round trip.
func (c core) Allow(ctx context.Context, subject string) (Decision, error) {
	return c.decide(ctx, subject, question{method: "Allow", permits: 1, id: c.callID()})
}

// AllowN asks for n permits now, all or nothing. More than could ever be granted is an error that is
// ErrExceedsLimit. Cost: one round trip.
func (c core) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	return c.decide(ctx, subject, question{method: "AllowN", permits: n, id: c.callID()})
}

// Peek looks and changes nothing: Remaining is what could be granted now, Wait what one permit would
// have to wait. Cost: one round trip.
func (c core) Peek(ctx context.Context, subject string) (Decision, error) {
	return c.decide(ctx, subject, question{method: peek})
}

// Reset makes the subject's limiter as new by removing its keys. A config that an operator set for a
// TokenBucket stays. Cost: one round trip, UNLINK.
func (c core) Reset(ctx context.Context, subject string) error {
	key, err := c.key(subject)
	if err != nil {
		return err
	}
	keys := c.kind.keys(c.settings, key)
	defer c.denials.forget(key)
	err = c.limits.await(ctx, c.timeout(), func(ctx context.Context) error {
		return c.limits.rdb.Unlink(ctx, keys...).Err()
	})
	if err != nil {
		return fmt.Errorf("loader: Reset: %w", err)
	}
	return nil
}

// consult asks the script, unless what is asked for needs no server to answer.
func (c core) consult(ctx context.Context, subject string, q question) (Decision, error) {
	asked, err := c.ask(subject, q)
	switch {
	case err != nil:
		return Decision{}, err
	case asked.script == nil:
		return denial(), nil
	}
	if c.denials != nil {
		return c.denials.decide(ctx, c, asked, q)
	}
	return c.answer(ctx, asked, q)
}

// ask is the call that decides, without a script where a limit of 0 has decided already.
func (c core) ask(subject string, q question) (call, error) {
	key, err := c.key(subject)
	if err != nil {
		return call{}, err
	}
	if q.permits < 1 && q.method != peek {
		return call{}, errNoPermits(c.name, q.permits)
	}
	capacity := c.kind.capacity(c)
	if capacity == 0 {
		return call{}, nil
	}
	if err := c.tooMany(q, capacity); err != nil {
		return call{}, err
	}
	asked, err := c.kind.ask(c, key, q)
	if err != nil {
		return call{}, err
	}
	asked.seen, asked.timeout = c.seen, c.timeout()
	if q.permits > 0 && q.maxWait == 0 && !c.kind.ids {
		asked.share(q.permits, capacity)
	}
	return asked, nil
}

// tooMany is the error of a call for more permits than could ever be granted.
func (c core) tooMany(q question, capacity int64) error {
	aCall, why := c.kind.max("permits"), ""
	if aCall < capacity {
		capacity, why = aCall, " of one call to a "+c.kind.name+c.kind.atOnce
	}
	if q.permits <= capacity {
		return nil
	}
	return fmt.Errorf("loader: %s: %s(n=%d) %w %d%s", c.name, q.method, q.permits, ErrExceedsLimit, capacity, why)
}

// max is the most that the script takes as one of these arguments, the first that it has. Without any it is unbounded.
func (k *kind) max(arguments ...string) int64 {
	for i := range k.script.Args {
		if slices.Contains(arguments, k.script.Args[i].Name) {
			return k.script.Args[i].Max
		}
	}
	return math.MaxInt64
}

// key is the subject's key, if nothing is wrong with it or with the limiter.
func (c core) key(subject string) (string, error) {
	switch {
	case c.settings == nil:
		return "", &ArgumentError{Argument: "limiter", Want: "one that a method of Loader made"}
	case c.err != nil:
		return "", c.err
	case c.bad != nil:
		return "", c.bad
	case c.badID != nil:
		return "", c.badID
	case subject == "":
		return "", errEmptySubject(c.name)
	}
	return c.head + escape(subject) + c.tail, nil
}

// callID is the id of one call: the caller's, or a new one where the script takes them.
func (c core) callID() string {
	if c.id != "" || c.settings == nil || !c.kind.ids {
		return c.id
	}
	return newID()
}

// with is the limiter with another limit.
func (c core) with(limit Limit) core {
	if c.limit = limit; c.settings != nil {
		c.bad = c.check(limit)
	}
	return c
}

// one is the only key of most limiters.
func one(_ *settings, key string) []string { return []string{key} }

// permitsOf is the capacity of a limiter that grants up to its limit at once.
func permitsOf(c core) int64 { return c.limit.Permits }

// unknownCapacity is more than anyone asks for.
const unknownCapacity = math.MaxInt64

// unbounded is the capacity of a limiter whose limit only the server knows; a limit of 0 denies all
// the same.
func unbounded(c core) int64 {
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
