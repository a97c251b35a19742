package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Slot is one of the slots of a Concurrency, which its caller holds until Release, or until it is lost. It is safe for
// concurrent use.
//
// It asks Redis for another ttl each time a third of the ttl is over, and more often after a failure. If all renewals
// fail until the lease is about to end (a thousandth of the ttl earlier, by this process's monotonic clock from before
// the call was sent), the slot is lost: its context ends before another caller can get the slot. It is lost at once if
// Redis answers that it has no such lease: after a Reset, an eviction, a failover, a restart without data, or a step of
// its clock. Until the holders' next renewals up to n more may then be taken.
//
// Not covered are a suspended process (SIGSTOP, a paused virtual machine, a machine that sleeps), whose work may go on
// for a moment afterwards, and work that does not look at the context. If that does harm, let the resource itself
// refuse who comes too late.
type Slot struct {
	lease  slotLease
	ctx    context.Context
	cancel context.CancelCauseFunc
	giveUp func() error // release, once

	mu       sync.Mutex
	ends     time.Time // the lease lasts at least until then
	over     bool      // released or lost
	unleased bool      // FailOpen: it is kept without a lease
	lost     *SlotLostError
	failure  error       // of the last renewal; nil: it was answered
	expiry   *time.Timer // at ends; nil: it never had a lease
	renewal  *time.Timer
}

// slotLease is how Redis knows a slot.
type slotLease struct {
	core
	subject string
	key     string
	id      string
}

// How a slot is renewed.
const (
	renewalsPerTTL   = 3
	retriesPerTTL    = 10   // after a failure
	clockRatesDiffer = 1000 // a thousandth of the ttl: clocks are slewed by up to half of that
)

// newLease makes the lease of a call that may take a slot.
func (c core) newLease(subject string) slotLease {
	key, _ := c.key(subject) // the call returns the error
	return slotLease{core: c, subject: subject, key: key, id: newID()}
}

// lostError is the error of a slot that is lost.
func (l slotLease) lostError(why error) *SlotLostError {
	return &SlotLostError{Limiter: l.name, Subject: l.subject, Err: why}
}

// slot makes the slot of a decision that granted it. If ctx or the lease has ended meanwhile, the lease is released in
// the background.
func (l slotLease) slot(ctx context.Context, sent time.Time, d Decision) (*Slot, error) {
	s := &Slot{lease: l, ends: l.endOf(sent)}
	s.giveUp = sync.OnceValue(s.release)
	if err := s.tooLate(ctx, d); err != nil {
		l.releaseLater(ctx, false, nil)
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if d.Degraded {
		return s, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry = time.AfterFunc(time.Until(s.ends), s.expire)
	s.renewal = time.AfterFunc(time.Until(sent.Add(l.limit.Window/renewalsPerTTL)), s.renew)
	return s, nil
}

// tooLate returns an error if a slot cannot be used any more.
func (s *Slot) tooLate(ctx context.Context, d Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !d.Degraded && time.Until(s.ends) <= 0 {
		return s.lease.lostError(errLateReply)
	}
	return nil
}

// endOf returns until when a lease lasts at least that a call has taken or renewed.
func (l slotLease) endOf(sent time.Time) time.Time {
	ttl := l.limit.Window
	return sent.Add(ttl - ttl/clockRatesDiffer)
}

// Context returns a context for the work that needs the slot. It descends from the context of TryAcquire or Acquire,
// and ends when the slot is released or lost. If it is lost, context.Cause is a *SlotLostError. Cost: nothing is sent.
func (s *Slot) Context() context.Context { return s.ctx }

// Release ends the slot's context and frees the slot. Call it when the work has ended, also if its context has ended:
//
//	defer slot.Release()
//
// It has a timeout of its own, as long as the limiter's calls. If it fails it returns the error and tries again in the
// background for a ttl; after that the lease has ended by itself. It returns a *SlotLostError if the slot was lost
// before. Only the first call does anything; the others wait for it and return the same. Without Release the process
// holds the slot until it ends. Release of a nil Slot, which a denial returns, does nothing and returns nil.
//
// Cost: one round trip, none if the slot was lost.
func (s *Slot) Release() error {
	if s == nil || s.giveUp == nil { // nil or zero: it holds nothing
		return nil
	}
	return s.giveUp()
}

func (s *Slot) release() error {
	if lost := s.end(nil); lost != nil {
		return lost
	}
	if s.expiry == nil { // it was never in Redis
		return nil
	}
	if err := s.lease.release(s.ctx); err != nil {
		s.lease.releaseLater(s.ctx, false, nil)
		return fmt.Errorf("loader: %s: Release: %w", s.lease.name, err)
	}
	return nil
}

// end ends the slot: it is released, or lost if there is a cause. It returns why it was lost, now or before.
func (s *Slot) end(cause *SlotLostError) *SlotLostError {
	s.mu.Lock()
	ended := s.endLocked(cause)
	lost := s.lost
	s.mu.Unlock()
	if ended && cause != nil {
		s.lease.loader.slotLost(s.ctx, cause)
	}
	return lost
}

// endLocked reports whether the slot was held until then.
func (s *Slot) endLocked(cause *SlotLostError) bool {
	if s.over {
		return false
	}
	s.over, s.lost = true, cause
	if s.expiry != nil {
		s.expiry.Stop()
		s.renewal.Stop()
	}
	if cause == nil {
		s.cancel(nil)
	} else {
		s.cancel(cause)
	}
	return true
}

// expire is called when the lease may end.
func (s *Slot) expire() {
	s.mu.Lock()
	if s.over || s.unleased || time.Until(s.ends) > 0 {
		s.mu.Unlock()
		return
	}
	if s.lease.fallback != nil { // FailOpen
		s.unleased = true
		s.renewal.Stop()
		s.mu.Unlock()
		return
	}
	failure := cmp.Or(s.failure, errNotRenewed)
	lost := s.lease.lostError(failure)
	s.endLocked(lost)
	s.mu.Unlock()
	s.lease.loader.slotLost(s.ctx, lost)
	s.lease.releaseUnknown(s.ctx, failure)
}

// renew asks for another ttl. It returns within half of the time that is left, so that there is time for another try.
func (s *Slot) renew() {
	sent, held, err, returned := time.Now(), false, errPanicked, false
	defer func() {
		wire.Caught(returned, recover()).Log(s.lease.loader.log)
		s.renewed(sent, held, err)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timeLeft()/2)
	defer cancel()
	held, err = s.lease.renew(ctx)
	returned = true
}

func (s *Slot) timeLeft() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.ends)
}

// renewed takes the outcome of a renewal, and sets the time of the next one.
func (s *Slot) renewed(sent time.Time, held bool, err error) {
	if err == nil && !held {
		s.end(s.lease.lostError(errNoLease))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ttl := s.lease.limit.Window
	switch s.failure = err; {
	case s.lost != nil && held:
		s.lease.releaseLater(s.ctx, false, nil)
	case s.lost != nil:
		s.lease.releaseUnknown(s.ctx, err)
	case s.over, s.unleased:
	case held:
		s.ends = s.lease.endOf(sent)
		s.expiry.Reset(time.Until(s.ends))
		s.renewal.Reset(time.Until(sent.Add(ttl / renewalsPerTTL)))
	default:
		s.renewal.Reset(jitter(ttl / retriesPerTTL))
	}
}

// Why a slot is lost.
var (
	errLateReply  = errors.New("the reply took longer than the ttl")
	errNoLease    = errors.New("the server has no lease of it")
	errNotRenewed = errors.New("no renewal was answered in time")
)

// jitter returns a random time between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(max(d/2, 1)) }

// renew renews the lease, and reports whether it was live.
func (l slotLease) renew(ctx context.Context) (held bool, err error) {
	call := l.call(&concurrencyV1, l.key)
	call.Fields = 1
	l.setLeaseArgs(call, 1, l.id)
	reply, err := l.loader.run(ctx, call, nil)
	return err == nil && reply[0] == 1, err
}

// release ends the lease, if it is live. Callers who wait for a slot in this process take notice.
func (l slotLease) release(ctx context.Context) error {
	call := l.call(&concurrencyReleaseV1, l.key, l.id)
	call.ID = l.id
	_, err := l.loader.run(context.WithoutCancel(ctx), call, nil)
	if err == nil {
		l.loader.slotQueues.released(l.key)
	}
	return err
}

// releaseUnknown releases in the background what a call may have taken or renewed whose outcome is unknown.
func (l slotLease) releaseUnknown(ctx context.Context, err error) {
	if unknown, ok := errors.AsType[*OutcomeUnknownError](err); ok {
		l.releaseLater(ctx, true, unknown.late)
	}
}

// releaseLater releases in the background, and tries for a ttl. If it is unknown whether there is a lease (maybe), it
// waits for the end of the command, which the release might overtake, and releases several times, because the server
// may still have to run it, or a repeat of it.
func (l slotLease) releaseLater(ctx context.Context, maybe bool, late *wire.Late) {
	until := time.Now().Add(l.limit.Window)
	l.loader.returns.do(ctx, l.loader.log, func(ctx context.Context) {
		late.Wait()
		answers := 0
		for pause := time.Duration(0); ; pause = returnPause {
			_ = wire.Sleep(ctx, pause)
			err := l.release(ctx)
			if err == nil {
				answers++
			}
			done := answers == maxReturnTries || answers > 0 && !maybe
			late := time.Now().After(until)
			if late && err != nil {
				l.returnGivenUp(ctx, &concurrencyReleaseV1, err)
			}
			if done || late || errors.Is(err, redis.ErrClosed) {
				return
			}
		}
	})
}

// setLeaseArgs asks for a slot; with renew 1 only for another ttl of one.
func (c core) setLeaseArgs(call *wire.Call, renew int, id string) {
	call.ID = id
	call.Args = append(call.Args, c.limit.Permits, c.limit.Window.Microseconds(), renew, id)
}
