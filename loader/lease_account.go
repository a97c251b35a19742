package loader

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// account is what is held for one subject.
type account struct {
	mu           sync.Mutex
	grants       []grant       // the oldest first
	lastUsed     time.Duration // when it was asked for last
	nextBlock    int64         // how many permits to ask Redis for next time
	refill       *refill       // the call for more that is under way
	retired      bool          // not in the table any more: nothing is asked for it
	lastDecision Decision      // what Redis said last
	lastSent     time.Duration // when it was asked that
}

// grant is what one call was granted.
type grant struct {
	size, unspent int64
	expires       time.Duration // when it is no longer spent
	grantedAt     time.Time     // when it was granted, by the server's clock
}

// refill is one call for more permits, for which all wait who want some.
type refill struct {
	need int64         // the fewest that help
	want int64         // how many were asked for
	done chan struct{} // closed when there is an answer:

	sent     time.Duration
	decision Decision
	err      error
	raised   *raised
	stale    bool // the subject was reset meanwhile
	late     bool // what the call brought may not be spent, or not any more
}

// clock is the time by which permits grow old: one reading of the monotonic clock.
func (l *Leased) clock() time.Duration { return time.Since(l.start) }

func (l *Leased) account(subject string) *account {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bySubject[subject]
}

func (l *Leased) accounts() map[string]*account {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.bySubject)
}

// accountFor is the subject's holding, made if there is room for one more; else nil.
func (l *Leased) accountFor(subject string) *account {
	if h := l.account(subject); h != nil {
		return h
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.bySubject[subject]; h != nil || l.bySubject == nil || len(l.bySubject) >= l.lease.Subjects {
		return h
	}
	h := &account{}
	l.bySubject[subject] = h
	return h
}

// spend takes n permits of those that are held, if there are as many.
func (l *Leased) spend(subject string, n int64) (Decision, bool) {
	h := l.account(subject)
	if h == nil {
		return Decision{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spend(n, l.clock())
}

// spendOrRefill spends n permits, if need be after a call for more.
func (l *Leased) spendOrRefill(ctx context.Context, subject string, q question) (Decision, error) {
	key, err := l.ring.key(subject)
	if err != nil || q.permits > smallestLimit(l.ring.core) {
		return l.ring.decide(ctx, subject, q)
	}
	late := ctx.Err() != nil
	var landed *refill
	h := l.accountFor(subject)
	for h != nil {
		d, decided, f := l.decideFrom(ctx, subject, key, h, q.permits, landed)
		switch {
		case decided:
			return d, nil
		case f == nil:
			h = l.accountFor(subject)
			continue
		}
		err := f.wait(ctx)
		if err == nil && f.decision.Degraded {
			err = f.decision.Cause
		}
		switch {
		case err != nil && late:
			return Decision{}, err
		case err != nil:
			return l.ring.fallBack(ctx, key, q, err)
		}
		if f.late {
			break
		}
		landed = f
	}
	return l.ring.decide(ctx, subject, q)
}

// decideFrom decides about n permits by what is held and by what the call that landed brought. Otherwise it
// returns the call for more to wait for; nil where the holding is gone and another is to be found.
func (l *Leased) decideFrom(
	ctx context.Context, subject, key string, h *account, n int64, landed *refill,
) (d Decision, decided bool, f *refill) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := l.clock()
	if d, ok := h.spend(n, now); ok {
		return d, true, nil
	}
	held := h.spendable(now)
	d, denied := landed.denies(n - held)
	if !denied { // known here, it needs no goroutine
		d, denied = l.ring.denials.recall(l.ring.core, key, question{permits: n - held})
	}
	switch {
	case denied:
		d.Remaining += held
		return d, true, nil
	case h.retired:
		return d, false, nil
	case h.refill == nil:
		need := n - held
		want := max(need, min(h.nextBlock, l.lease.Block, smallestLimit(l.ring.core))-h.unspent())
		h.refill = &refill{need: need, want: want, done: make(chan struct{})}
		l.refills.Add(1)
		go l.runRefill(context.WithoutCancel(ctx), subject, h, h.refill)
	}
	return d, false, h.refill
}

// runRefill makes the call for more. Where a block is denied, less may do: half of what remains, so that others get some
// too, and at least what is needed.
func (l *Leased) runRefill(ctx context.Context, subject string, h *account, f *refill) {
	defer l.refills.Done()
	returned := false
	defer func() {
		f.raised = caught(returned, recover())
		h.endRefill(f, l.clock(), l.age)
	}()
	ctx, cancel := l.ring.limits.withTimeout(ctx, l.ring.timeout())
	defer cancel()
	for {
		f.sent = l.clock()
		f.decision, f.err = l.ring.decide(ctx, subject, question{method: "AllowN", permits: f.want})
		if f.err != nil || f.decision.Granted || f.decision.Degraded || f.want == f.need {
			break
		}
		f.want = max(f.need, min(f.decision.Remaining, f.want)/2)
	}
	returned = true
}

// wait returns when the call has ended, with its error, or the context's as soon as the context ends. A panic of the
// call is raised.
func (f *refill) wait(ctx context.Context) error {
	select {
	case <-f.done:
		f.raised.reraise()
		return f.err
	case <-ctx.Done():
		return failed(&sluice.SliceRingV1, ctx.Err())
	}
}

// denies reports whether the call's answer is that so many permits are denied.
func (f *refill) denies(permits int64) (Decision, bool) {
	if f == nil || f.stale || f.decision.Granted || permits < f.need {
		return Decision{}, false
	}
	return f.decision, true
}

// endRefill takes in what a call brought.
func (h *account) endRefill(f *refill, now, age time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(f.done)
	h.refill, h.lastUsed = nil, now // those who wait for it ask in a moment: it is not idle
	f.late = f.decision.Degraded    // a policy's permits are its callers' alone: Redis knows nothing of them
	if f.err != nil || f.raised != nil || f.stale || f.late {
		return
	}
	h.lastDecision, h.lastSent, h.nextBlock = f.decision, f.sent, 1
	if f.decision.Granted {
		h.grants = append(h.grants, grant{size: f.want, unspent: f.want, expires: f.sent + age, grantedAt: f.decision.Now})
		h.nextBlock = 2 * f.want
		f.late = now >= f.sent+age
	}
}

// spend takes n permits from the oldest lots, if there are as many.
func (h *account) spend(n int64, now time.Duration) (Decision, bool) {
	h.lastUsed = now
	held := h.spendable(now)
	if held < n {
		return Decision{}, false
	}
	emptied := false
	for i, left := 0, n; left > 0; i++ {
		if of := &h.grants[i]; now < of.expires {
			part := min(left, of.unspent)
			of.unspent -= part
			left -= part
			emptied = emptied || of.unspent == 0
		}
	}
	if emptied {
		h.grants = slices.DeleteFunc(h.grants, func(of grant) bool { return of.unspent == 0 })
	}
	since := (now - h.lastSent).Truncate(time.Microsecond)
	return Decision{
		Granted:    true,
		Remaining:  held - n + h.lastDecision.Remaining,
		ResetAfter: max(h.lastDecision.ResetAfter-since, 0),
		Now:        h.lastDecision.Now.Add(since),
		Limit:      h.lastDecision.Limit,
	}, true
}

// spendable is how many permits may be spent now.
func (h *account) spendable(now time.Duration) (permits int64) {
	for i := range h.grants {
		if now < h.grants[i].expires {
			permits += h.grants[i].unspent
		}
	}
	return permits
}

// unspent is how many permits are not spent, those included that are too old.
func (h *account) unspent() (permits int64) {
	for _, of := range h.grants {
		permits += of.unspent
	}
	return permits
}

// discard forgets what is held and what is on its way.
func (h *account) discard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants = nil
	if h.refill != nil {
		h.refill.stale = true
	}
}

// retire keeps the holding from asking for more.
func (h *account) retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
}
