package loader

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	maxReturns   = 16          // returns in flight at once
	sweepTimeout = time.Second // for all returns of one sweep
)

// sweepUntilClosed sweeps four times in LeaseOptions.Idle or the age, whichever is shorter.
func (l *Leased) sweepUntilClosed() {
	defer close(l.stopped)
	ticker := time.NewTicker(max(min(l.lease.Idle, l.age)/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.sweep()
		case <-l.stop:
			return
		}
	}
}

// sweep gives back the permits that have expired and those of idle subjects. A return that fails is not repeated,
// because it may have been done: the permits stay counted until their window is over.
func (l *Leased) sweep() {
	var all []grant
	for _, a := range l.accounts() {
		all = append(all, a.takeExpired(l.clock())...)
		if l.removeIdle(a) {
			all = append(all, a.takeAll()...)
		}
	}
	returned := false
	defer func() { l.ring.limits.eventLog.panicked(caught(returned, recover())) }()
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	_ = l.giveBackAll(ctx, all)
	returned = true
}

// removeIdle removes an account from the table if it is idle.
func (l *Leased) removeIdle(a *account) bool {
	if !a.isIdle(l.clock() - l.lease.Idle) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.retireIfIdle(l.clock() - l.lease.Idle) {
		return false
	}
	delete(l.bySubject, a.subject)
	return true
}

// giveBackAll gives permits back to Redis, with one call for each grant, maxReturns at a time. It stops when all calls
// of one chunk have failed.
func (l *Leased) giveBackAll(ctx context.Context, all []grant) error {
	var first error
	returned := 0
	for chunk := range slices.Chunk(all, maxReturns) {
		before, calls := returned, make([]func() error, len(chunk))
		for i, left := range chunk {
			calls[i] = func() error { return l.giveBackOne(ctx, left) }
		}
		for _, err := range l.ring.limits.tasks.awaitAll(ctx, calls) {
			if err == nil {
				returned++
			} else if first == nil {
				first = err
			}
		}
		if returned == before {
			break
		}
	}
	if first != nil {
		return fmt.Errorf("loader: %d of %d leases were not given back: %w", len(all)-returned, len(all), first)
	}
	return nil
}

func (l *Leased) giveBackOne(ctx context.Context, left grant) error {
	d := Decision{Granted: true, Permits: left.size, Now: left.grantedAt}
	key, err := l.ring.key(left.subject)
	if err != nil {
		return err
	}
	_, err = l.ring.newReturn(left.subject, key, d, left.unspent).send(ctx)
	return err
}

// takeExpired takes the expired grants out of the account. The next block is as large as what was spent of the last of
// them.
func (a *account) takeExpired(now time.Duration) (expired []grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.grants) > 0 && now >= a.grants[0].expires {
		oldest := a.grants[0]
		expired, a.grants = append(expired, oldest), a.grants[1:]
		a.nextBlock = max(oldest.size-oldest.unspent, 1)
	}
	return expired
}

// takeAll takes all grants out of the account.
func (a *account) takeAll() []grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	grants := a.grants
	a.grants = nil
	return grants
}

// isIdle reports whether no caller has asked for permits since then.
func (a *account) isIdle(since time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastUsed <= since
}

// retireIfIdle retires the account if no caller has asked for permits since then and no refill is in flight.
func (a *account) retireIfIdle(since time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retired = a.retired || a.lastUsed <= since && a.refill == nil
	return a.retired
}
