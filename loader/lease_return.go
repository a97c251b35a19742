package loader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader/bindings"
)

const (
	maxReturns   = 16          // how many returns are in flight at once
	sweepTimeout = time.Second // for the returns of one sweep
)

// leftover is a lot that is to be given back.
type leftover struct {
	subject string
	grant
}

// sweepUntilClosed gives back what is idle or too old, four times in the shorter of the two.
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

// sweep gives back what is idle or too old. What cannot be given back stays counted until its window is over: trying
// again could give it back twice.
func (l *Leased) sweep() {
	var back []leftover
	for subject, h := range l.accounts() {
		lots := h.takeExpired(l.clock())
		if l.removeIdle(subject, h) {
			lots = append(lots, h.takeAll()...)
		}
		back = appendLeftovers(back, subject, lots)
	}
	returned := false
	defer func() { l.ring.limits.eventLog.panicked(caught(returned, recover())) }()
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	_ = l.giveBackAll(ctx, back)
	returned = true
}

// removeIdle takes a holding that is idle out of the table.
func (l *Leased) removeIdle(subject string, h *account) bool {
	if !h.isIdle(l.clock() - l.lease.Idle) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !h.retireIfIdle(l.clock() - l.lease.Idle) {
		return false
	}
	delete(l.bySubject, subject)
	return true
}

// giveBackAll returns lots to Redis, each in a call of its own, and stops when none of those in flight comes through.
func (l *Leased) giveBackAll(ctx context.Context, back []leftover) error {
	var first error
	returned := 0
	for batch := range slices.Chunk(back, maxReturns) {
		before := returned
		for _, err := range l.giveBackChunk(ctx, batch) {
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
		return fmt.Errorf("loader: %d of %d leases were not given back: %w", len(back)-returned, len(back), first)
	}
	return nil
}

func (l *Leased) giveBackChunk(ctx context.Context, back []leftover) []error {
	all := make([]func() error, len(back))
	for i, s := range back {
		all[i] = func() error { return l.giveBackOne(ctx, s) }
	}
	return l.ring.limits.tasks.awaitAll(ctx, all)
}

func (l *Leased) giveBackOne(ctx context.Context, s leftover) error {
	key, err := l.ring.key(s.subject)
	if err != nil {
		return err
	}
	defer l.ring.denials.forget(key)
	_, err = bindings.SliceRingReturnV1(ctx, l.ring.limits, bindings.SliceRingReturnV1Args{
		Ring: key, Slice: l.ring.slice, Taken: s.grantedAt, Permits: s.unspent,
	})
	return err
}

// leftovers is all that is held.
func leftovers(subjects map[string]*account) (back []leftover) {
	for subject, h := range subjects {
		back = appendLeftovers(back, subject, h.takeAll())
	}
	return back
}

func appendLeftovers(back []leftover, subject string, lots []grant) []leftover {
	for _, of := range lots {
		back = append(back, leftover{subject, of})
	}
	return back
}

// takeExpired takes out the lots that are too old. The next one is as large as what was used of this one.
func (h *account) takeExpired(now time.Duration) (lots []grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.grants) > 0 && now >= h.grants[0].expires {
		old := h.grants[0]
		lots, h.grants = append(lots, old), h.grants[1:]
		h.nextBlock = max(old.size-old.unspent, 1)
	}
	return lots
}

// takeAll takes out all lots.
func (h *account) takeAll() []grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	lots := h.grants
	h.grants = nil
	return lots
}

// isIdle reports whether nobody has asked since.
func (h *account) isIdle(since time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastUsed <= since
}

// retireIfIdle is leave, if nobody has asked since or waits for an answer.
func (h *account) retireIfIdle(since time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = h.retired || h.lastUsed <= since && h.refill == nil
	return h.retired
}
