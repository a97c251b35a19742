package loader

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// Bounds of leases.
const (
	maxLeaseSlices    = 500    // slices in a LeaseAge: half of what slice_ring_return reaches back
	defaultSubjects   = 10_000 // LeaseOptions.MaxSubjects
	maxDefaultBlock   = 1000   // LeaseOptions.Block is this by default,
	defaultBlockShare = 10     // or the smallest limit divided by this, if that is less
)

// LeaseAge allows a SliceRing to be leased: see SliceRing.Leased. Permits may then be spent up to d after Redis counted
// them: 1 ms to less than 500 slices of all windows together, in whole microseconds.
//
// Redis counts d more in every window of the limiter, for leased and other callers alike. The age is a part of the key,
// so that callers with different lease ages use different keys.
func LeaseAge(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.requireAlgorithm("LeaseAge", &sliceRing)
		if d < time.Millisecond || d%time.Microsecond != 0 {
			s.setErr(s.errArgument("LeaseAge", d, "1ms or more, in whole microseconds"))
		}
		s.leaseAge = d
	}
}

// leasePart is the part of the key that names the LeaseAge.
func (s *settings) leasePart() string {
	if s.leaseAge == 0 {
		return ""
	}
	return ":" + strconv.FormatInt(s.leaseAge.Microseconds(), 10)
}

// LeaseOptions sets how a process takes permits in blocks. The zero value gives the defaults.
type LeaseOptions struct {
	// Block is the maximum number of permits held for one subject: 0 or more. The first block is as large as the first
	// request; blocks double while they are used up, and get smaller when little remains or is used.
	//
	// 0 means 1000, or a tenth of the smallest limit if that is less, but at least 1. With 1000 one decision in a
	// thousand reaches Redis. With a tenth, a process with a full block leaves nine tenths to the others.
	Block int64

	// Idle is the time without requests for a subject after which its permits are given back: 0 or more, in whole
	// microseconds. 0 means a quarter of LeaseAge.
	Idle time.Duration

	// MaxSubjects is the maximum number of subjects for which permits are held: 0 or more. Requests for further subjects
	// go to Redis one by one. 0 means 10000.
	MaxSubjects int
}

// Leased is a SliceRing from which this process takes permits in blocks, to spend them without asking Redis.
// SliceRing.Leased makes it. Close it when the program ends. It is safe for concurrent use.
type Leased struct {
	ring  SliceRing
	lease LeaseOptions
	age   time.Duration // permits are spent at most this long after the refill was sent
	start time.Time     // zero of clock

	mu        sync.RWMutex
	bySubject map[string]*account // nil: closed

	refills sync.WaitGroup
	stop    chan struct{} // closed by Close: no more sweeps
	stopped chan struct{} // closed when the last sweep has ended
}

// Leased returns the ring as a limiter that takes permits in blocks and spends them in this process. Use it for few
// subjects with very many decisions each: at a million decisions a second about one in a thousand reaches Redis. The
// ring needs the option LeaseAge. Close the Leased when the program ends.
//
// The guarantee is the ring's, for the times at which permits are spent. A permit is spent at most LeaseAge after Redis
// counted it, by this process's monotonic clock, and Redis counts windows that are longer by LeaseAge. So the limit is
// enforced as if its window were longer by the age and up to two slices: keep the age short compared to the window.
//
// Permits that one process holds are not available to the others: up to Block for each subject. Unused permits are
// given back when their subject is idle, when the age ends, and by Close. Permits that are lost with a reply or a
// process stay counted until their window is over.
//
// While Redis is down, held permits are spent until their age ends. After a Reset by another process, an eviction, a
// failover or a suspension of this machine, Redis may no longer count the permits held here: until their age ends they
// may be spent on top of the limit, and giving them back may free permits of others.
//
// Cost: one goroutine, and about 300 bytes for each subject that is not idle.
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

// checkLease returns what is wrong with the ring and the options, and fills in the defaults.
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
	case lease.MaxSubjects < 0:
		return r.errArgument("LeaseOptions.MaxSubjects", lease.MaxSubjects, "0 or more")
	}
	if lease.Block == 0 {
		lease.Block = max(min(maxDefaultBlock, smallestLimit(r.core)/defaultBlockShare), 1)
	}
	if lease.Idle == 0 {
		lease.Idle = r.leaseAge / 4
	}
	if lease.MaxSubjects == 0 {
		lease.MaxSubjects = defaultSubjects
	}
	return nil
}

// Allow asks for one permit now. Use it to refuse what is over the limit. If a permit is held, nothing is sent.
//
// Remaining is what is held and what Redis had left at the last refill. ResetAfter is as of that refill. Now is the
// server's clock, computed from that refill, up to one round trip late.
//
// Cost: nothing is sent if enough permits are held. Otherwise one round trip, shared by all callers who need permits of
// the subject, and one or two more if Redis denies a block.
func (l *Leased) Allow(ctx context.Context, subject string) (Decision, error) {
	return l.AllowN(ctx, subject, 1)
}

// AllowN asks for n permits now, all or nothing. Use it where one request counts for several. More than could ever be
// granted is an error that is ErrExceedsLimit. Cost: as Allow.
func (l *Leased) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	if n < 1 {
		return Decision{}, errNoPermits(l.ring.name, "", n)
	}
	if d, ok := l.spend(subject, n); ok {
		return d, nil
	}
	return l.spendOrRefill(ctx, subject, question{method: "Allow", permits: n})
}

// Wait is WaitN for one permit.
func (l *Leased) Wait(ctx context.Context, subject string) error { return l.WaitN(ctx, subject, 1) }

// WaitN blocks until n permits may be used. Use it in workers that would rather be late than refused. As with a
// SliceRing it sleeps and asks again, so it is not first come, first served. Cost: as AllowN, once for each sleep.
func (l *Leased) WaitN(ctx context.Context, subject string, n int64) error {
	return l.ring.waitHere(ctx, subject, n, nil, l.spendOrRefill)
}

// Peek returns what could be granted now, and changes nothing. Use it for dashboards and quota pages. Remaining
// includes the permits held here. Cost: one round trip.
func (l *Leased) Peek(ctx context.Context, subject string) (Decision, error) {
	d, err := l.ring.Peek(ctx, subject)
	a := l.account(subject)
	if a == nil || err != nil {
		return d, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if held := a.spendable(l.clock()); held > 0 {
		d.Remaining, d.Wait = d.Remaining+held, 0
	}
	return d, nil
}

// Reset gives the subject its whole limit back, and drops the permits held here. Use it to unblock a customer. Other
// processes keep the permits that they hold. Cost: one round trip.
func (l *Leased) Reset(ctx context.Context, subject string) error {
	err := l.ring.Reset(ctx, subject)
	if a := l.account(subject); a != nil {
		a.discard()
	}
	return err
}

// Name returns the name of the SliceRing that the permits are taken from. Cost: nothing.
func (l *Leased) Name() string { return l.ring.Name() }

// Check returns what is wrong with the SliceRing that the permits are taken from. Call it once, when the program
// starts. Cost: nothing is sent.
func (l *Leased) Check() error { return l.ring.Check() }

// LeaseStats says how many permits a Leased holds.
type LeaseStats struct {
	Subjects int   // subjects that have an account now
	Held     int64 // permits that are counted in Redis and not spent
	MaxHeld  int64 // the upper bound of Held: Block for each of LeaseOptions.MaxSubjects
}

// Stats returns how many permits are held. Use it for metrics, every few seconds. Cost: nothing is sent; each account
// is locked briefly.
func (l *Leased) Stats() LeaseStats {
	s := LeaseStats{MaxHeld: l.lease.Block * int64(l.lease.MaxSubjects)}
	for _, a := range l.accounts() {
		a.mu.Lock()
		s.Held += a.unspent()
		a.mu.Unlock()
		s.Subjects++
	}
	return s
}

// Close gives back all permits that are held. Use it when the program ends, with a deadline. Redis decides about later
// calls one by one. The error says which returns failed; their permits stay counted until their window is over. Cost:
// one round trip for each block, 16 at a time.
func (l *Leased) Close(ctx context.Context) error {
	l.mu.Lock()
	subjects := l.bySubject
	l.bySubject = nil
	l.mu.Unlock()
	if subjects == nil {
		return nil
	}
	close(l.stop)
	for _, a := range subjects {
		a.retire()
	}
	err := l.ring.limits.tasks.await(ctx, func() error {
		<-l.stopped
		l.refills.Wait()
		return nil
	})
	if err != nil {
		err = failed(&sliceRingV1, err)
	}
	var all []grant
	for _, a := range subjects {
		all = append(all, a.takeAll()...)
	}
	return errors.Join(err, l.giveBackAll(ctx, all))
}
