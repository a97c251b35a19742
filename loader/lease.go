package loader

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// Bounds of leases.
const (
	maxLeaseSlices    = 500    // how many slices an age covers: half of what slice_ring_return reaches back
	defaultSubjects   = 10_000 // in memory, by default
	maxDefaultBlock   = 1000   // permits held for a subject, by default: at most
	defaultBlockShare = 10     // and at most the smallest limit divided by this
)

// LeaseAge lets the permits of a SliceRing be taken in blocks and spent up to d later: see SliceRing.Leased. It
// makes the windows that Redis counts longer by d for every caller of the limiter, leased or not, because a
// permit counted in one slice may be used d later; and it is a part of the key, so that callers with another
// age, or none, never share the state. From 1 ms to less than 500 slices, in whole microseconds.
func LeaseAge(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.requireKind("LeaseAge", &sliceRing)
		if d < time.Millisecond || d%time.Microsecond != 0 {
			s.setErr(s.errArgument("LeaseAge", d, "1ms or more, in whole microseconds"))
		}
		s.leaseAge = d
	}
}

// leasePart is the part of the key that tells ages apart.
func (s *settings) leasePart() string {
	if s.leaseAge == 0 {
		return ""
	}
	if s.slice > 0 && s.leaseAge/s.slice >= maxLeaseSlices {
		s.setErr(s.errArgument("LeaseAge", s.leaseAge, "less than 500 slices of "+s.slice.String()))
	}
	return ":" + strconv.FormatInt(s.leaseAge.Microseconds(), 10)
}

// LeaseOptions says how a process takes permits in blocks. The zero value is ready for use.
type LeaseOptions struct {
	// Block is the most permits that are held for a subject. Blocks begin with what is asked for,
	// double as long as they are used up, and shrink where little remains or is used. 0 means 1000, for then one
	// decision in a thousand reaches Redis and larger blocks save next to nothing; but a tenth of the smallest limit
	// at most, 1 at least, so that a process that holds a whole block leaves others nine tenths.
	Block int64

	// Idle is how long nobody asks for a subject until its permits are given back. 0 means a quarter of
	// LeaseAge.
	Idle time.Duration

	// Subjects is for how many subjects permits are held at once. Others are asked for in Redis one by one.
	// 0 means 10000.
	Subjects int
}

// Leased is a SliceRing of which this process takes permits in blocks and spends them without asking Redis.
// SliceRing.Leased makes it, Close ends it.
type Leased struct {
	ring  SliceRing
	lease LeaseOptions
	age   time.Duration // after the call for them was sent permits are no longer spent
	start time.Time     // of the clock that it counts by

	mu        sync.RWMutex
	bySubject map[string]*account // nil: closed

	refills sync.WaitGroup
	stop    chan struct{} // closed: no more sweeps
	stopped chan struct{}
}

// Leased returns the ring as a limiter that takes permits in blocks and spends them in this process. Use it for few
// subjects with very many decisions each: at a million decisions a second about one in a thousand reaches Redis. For
// many subjects with few decisions each it costs more than it saves: use the ring itself. The ring needs the option
// LeaseAge. Close the Leased where the program ends.
//
// The guarantee is the ring's, for the moments at which permits are spent: no window ever holds more than
// its limit. A permit is spent no later than LeaseAge after Redis counted it (by this process's monotonic clock,
// from before the call was sent, less a thousandth for clocks that run apart), and every caller of the
// limiter has its windows counted that much longer. So the limit is enforced as if its window were longer by
// the age and up to two slices: keep the age short against the window.
//
// Permits that are held here are missing elsewhere, up to Block a subject and process. What is not used is
// given back, exactly, when its subject is idle, when the age ends, and by Close. If the reply to a call for
// permits is lost, they are lost if they were granted; a return whose reply is lost may have been done. Neither
// is ever repeated, nothing of it is spent, and what stays counted comes free with its window, as do the
// permits of a process that dies.
//
// While Redis cannot be reached, what is held is spent until its age ends. After a Reset by another process, an
// eviction or a failover Redis no longer counts what is held here: it may be spent on top of the limit until
// its age ends, and what of it is given back into the slice in which the ring began anew is taken from others. So
// may be what a machine holds that is suspended, whose monotonic clock stands still.
//
// Cost: a goroutine, and about 300 bytes a subject that has been asked for within Idle.
func (r SliceRing) Leased(lease LeaseOptions) (*Leased, error) {
	if err := r.checkLease(&lease); err != nil {
		return nil, err
	}
	l := &Leased{
		ring: r, lease: lease, age: r.leaseAge - r.leaseAge/1000, start: time.Now(),
		bySubject: map[string]*account{}, stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go l.sweepUntilClosed()
	return l, nil
}

// checkLease refuses what cannot be, and fills in what was left out.
func (r SliceRing) checkLease(lease *LeaseOptions) error {
	if _, err := r.key("subject"); err != nil {
		return err
	}
	switch {
	case r.leaseAge == 0:
		return r.errArgument("Leased", "without LeaseAge", "a SliceRing with the option LeaseAge")
	case lease.Block < 0:
		return r.errArgument("LeaseOptions.Block", lease.Block, "0 or more")
	case lease.Idle < 0 || lease.Idle%time.Microsecond != 0:
		return r.errArgument("LeaseOptions.Idle", lease.Idle, "whole microseconds, 0 or more")
	case lease.Subjects < 0:
		return r.errArgument("LeaseOptions.Subjects", lease.Subjects, "0 or more")
	}
	if lease.Block == 0 {
		lease.Block = max(min(maxDefaultBlock, smallestLimit(r.core)/defaultBlockShare), 1)
	}
	if lease.Idle == 0 {
		lease.Idle = r.leaseAge / 4
	}
	if lease.Subjects == 0 {
		lease.Subjects = defaultSubjects
	}
	return nil
}

// Allow asks for one permit now. Use it for requests that are answered now or not at all. Cost: nothing is sent where a
// permit is held, else one round trip that is shared by all who wait for permits of the subject, and one or two more
// where a block is denied.
//
// Of a decision made here Remaining is what is held and what Redis had left when it was asked last, ResetAfter
// is as of then, and Now is the server's clock as reckoned from then, up to a round trip late.
func (l *Leased) Allow(ctx context.Context, subject string) (Decision, error) {
	return l.AllowN(ctx, subject, 1)
}

// AllowN is Allow for n permits, all or nothing. Use it where one request counts for several. More than could ever be
// granted is an error that is ErrExceedsLimit. Cost: as Allow.
func (l *Leased) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	if n < 1 {
		return Decision{}, errNoPermits(l.ring.name, n)
	}
	if d, ok := l.spend(subject, n); ok {
		return d, nil
	}
	return l.spendOrRefill(ctx, subject, question{method: "AllowN", permits: n})
}

// Wait is WaitN for one permit. Use it for workers that would rather be late than refused. Cost: as WaitN.
func (l *Leased) Wait(ctx context.Context, subject string) error { return l.WaitN(ctx, subject, 1) }

// WaitN returns when it has n permits that may be used. It sleeps and asks again, as that of a SliceRing. Cost: as
// AllowN, once for each sleep.
func (l *Leased) WaitN(ctx context.Context, subject string, n int64) error {
	return l.ring.waiter(ctx, subject, n, nil, func(ctx context.Context, q question) (Decision, error) {
		return l.spendOrRefill(ctx, subject, q)
	}).run(ctx)
}

// Peek looks and changes nothing. Use it to show what is left. Remaining includes what is held here. Cost: one round
// trip.
func (l *Leased) Peek(ctx context.Context, subject string) (Decision, error) {
	d, err := l.ring.Peek(ctx, subject)
	h := l.account(subject)
	if h == nil || err != nil {
		return d, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.spendable(l.clock()); held > 0 {
		d.Remaining, d.Wait = d.Remaining+held, 0
	}
	return d, nil
}

// Reset removes what was granted to the subject, and drops what is held here. Use it to unblock someone. Other
// processes keep what they hold. Cost: one round trip.
func (l *Leased) Reset(ctx context.Context, subject string) error {
	err := l.ring.Reset(ctx, subject)
	if h := l.account(subject); h != nil {
		h.discard()
	}
	return err
}

// LeaseStats says what a Leased holds.
type LeaseStats struct {
	Subjects int   // with permits here, now
	Idle     int64 // permits that are counted in Redis and not spent, now
	MaxIdle  int64 // as many as that can be: Block for each of LeaseOptions.Subjects
}

// Stats returns what is held. Use it for metrics, once in some seconds. Cost: nothing is sent; it locks every subject
// that is held for a moment.
func (l *Leased) Stats() LeaseStats {
	s := LeaseStats{MaxIdle: l.lease.Block * int64(l.lease.Subjects)}
	for _, h := range l.accounts() {
		h.mu.Lock()
		s.Idle += h.unspent()
		h.mu.Unlock()
		s.Subjects++
	}
	return s
}

// Close gives back all permits that are held. Use it where the program ends, with a deadline. It returns what went
// wrong: permits of a call that failed stay counted until their window is over. Calls after it are decided by Redis one
// by one. Cost: one round trip a block that is held, sixteen at a time.
func (l *Leased) Close(ctx context.Context) error {
	l.mu.Lock()
	subjects := l.bySubject
	l.bySubject = nil
	l.mu.Unlock()
	if subjects == nil {
		return nil
	}
	close(l.stop)
	for _, h := range subjects {
		h.retire()
	}
	err := l.ring.limits.tasks.await(ctx, func() error {
		<-l.stopped
		l.refills.Wait()
		return nil
	})
	if err != nil {
		err = failed(&sluice.SliceRingV1, err)
	}
	return errors.Join(err, l.giveBackAll(ctx, leftovers(subjects)))
}
