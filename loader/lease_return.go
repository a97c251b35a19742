package loader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader/bindings"
)

const (
	returners    = 16          // how many returns are in flight at once
	sweepTimeout = time.Second // for the returns of one sweep
)

// surplus is a lot that is to be given back.
type surplus struct {
	subject string
	lot
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
	var back []surplus
	for subject, h := range l.all() {
		lots := h.expired(l.clock())
		if l.retire(subject, h) {
			lots = append(lots, h.empty()...)
		}
		back = appendLots(back, subject, lots)
	}
	returned := false
	defer func() { l.ring.limits.journal.panicked(caught(returned, recover())) }()
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	_ = l.giveBack(ctx, back)
	returned = true
}

// retire takes a holding that is idle out of the table.
func (l *Leased) retire(subject string, h *holding) bool {
	if !h.idle(l.clock() - l.lease.Idle) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !h.retire(l.clock() - l.lease.Idle) {
		return false
	}
	delete(l.subjects, subject)
	return true
}

// giveBack returns lots to Redis, each in a call of its own, and stops when none of those in flight comes through.
func (l *Leased) giveBack(ctx context.Context, back []surplus) error {
	var first error
	returned := 0
	for batch := range slices.Chunk(back, returners) {
		before := returned
		for _, err := range l.giveBackTogether(ctx, batch) {
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

func (l *Leased) giveBackTogether(ctx context.Context, back []surplus) []error {
	all := make([]func() error, len(back))
	for i, s := range back {
		all[i] = func() error { return l.giveBackOne(ctx, s) }
	}
	return l.ring.limits.tasks.awaitAll(ctx, all)
}

func (l *Leased) giveBackOne(ctx context.Context, s surplus) error {
	key, err := l.ring.key(s.subject)
	if err != nil {
		return err
	}
	defer l.ring.denials.forget(key)
	_, err = bindings.SliceRingReturnV1(ctx, l.ring.limits, bindings.SliceRingReturnV1Args{
		Ring: key, Slice: l.ring.slice, Taken: s.taken, Permits: s.left,
	})
	return err
}

// everything is all that is held.
func everything(subjects map[string]*holding) (back []surplus) {
	for subject, h := range subjects {
		back = appendLots(back, subject, h.empty())
	}
	return back
}

func appendLots(back []surplus, subject string, lots []lot) []surplus {
	for _, of := range lots {
		back = append(back, surplus{subject, of})
	}
	return back
}

// expired takes out the lots that are too old. The next one is as large as what was used of this one.
func (h *holding) expired(now time.Duration) (lots []lot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.lots) > 0 && now >= h.lots[0].until {
		old := h.lots[0]
		lots, h.lots = append(lots, old), h.lots[1:]
		h.next = max(old.size-old.left, 1)
	}
	return lots
}

// empty takes out all lots.
func (h *holding) empty() []lot {
	h.mu.Lock()
	defer h.mu.Unlock()
	lots := h.lots
	h.lots = nil
	return lots
}

// idle reports whether nobody has asked since.
func (h *holding) idle(since time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used <= since
}

// retire is leave, if nobody has asked since or waits for an answer.
func (h *holding) retire(since time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = h.gone || h.used <= since && h.flight == nil
	return h.gone
}
