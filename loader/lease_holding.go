package loader

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// holding is what is held for one subject.
type holding struct {
	mu     sync.Mutex
	lots   []lot         // the oldest first
	used   time.Duration // when it was asked for last
	next   int64         // how many permits to ask Redis for next time
	flight *flight       // the call for more that is under way
	gone   bool          // not in the table any more: nothing is asked for it
	told   Decision      // what Redis said last
	asked  time.Duration // when it was asked that
}

// lot is what one call was granted.
type lot struct {
	size, left int64
	until      time.Duration // when it is no longer spent
	taken      time.Time     // when it was granted, by the server's clock
}

// flight is one call for more permits, for which all wait who want some.
type flight struct {
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

func (l *Leased) find(subject string) *holding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.subjects[subject]
}

func (l *Leased) all() map[string]*holding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.subjects)
}

// hold is the subject's holding, made if there is room for one more; else nil.
func (l *Leased) hold(subject string) *holding {
	if h := l.find(subject); h != nil {
		return h
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.subjects[subject]; h != nil || l.subjects == nil || len(l.subjects) >= l.lease.Subjects {
		return h
	}
	h := &holding{}
	l.subjects[subject] = h
	return h
}

// spend takes n permits of those that are held, if there are as many.
func (l *Leased) spend(subject string, n int64) (Decision, bool) {
	h := l.find(subject)
	if h == nil {
		return Decision{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spend(n, l.clock())
}

// take spends n permits, if need be after a call for more.
func (l *Leased) take(ctx context.Context, subject string, q question) (Decision, error) {
	key, err := l.ring.key(subject)
	if err != nil || q.permits > leastOf(l.ring.core) {
		return l.ring.decide(ctx, subject, q)
	}
	late := ctx.Err() != nil
	var landed *flight
	h := l.hold(subject)
	for h != nil {
		d, decided, f := l.ask(ctx, subject, key, h, q.permits, landed)
		switch {
		case decided:
			return d, nil
		case f == nil:
			h = l.hold(subject)
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

// ask decides about n permits by what is held and by what the call that landed brought. Otherwise it
// returns the call for more to wait for; nil where the holding is gone and another is to be found.
func (l *Leased) ask(
	ctx context.Context, subject, key string, h *holding, n int64, landed *flight,
) (d Decision, decided bool, f *flight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := l.clock()
	if d, ok := h.spend(n, now); ok {
		return d, true, nil
	}
	held := h.live(now)
	d, denied := landed.denies(n - held)
	if !denied { // known here, it needs no goroutine
		d, denied = l.ring.denials.recall(l.ring.core, key, question{permits: n - held})
	}
	switch {
	case denied:
		d.Remaining += held
		return d, true, nil
	case h.gone:
		return d, false, nil
	case h.flight == nil:
		need := n - held
		want := max(need, min(h.next, l.lease.Block, leastOf(l.ring.core))-h.all())
		h.flight = &flight{need: need, want: want, done: make(chan struct{})}
		l.flights.Add(1)
		go l.fly(context.WithoutCancel(ctx), subject, h, h.flight)
	}
	return d, false, h.flight
}

// fly makes the call for more. Where a block is denied, less may do: half of what remains, so that others get some
// too, and at least what is needed.
func (l *Leased) fly(ctx context.Context, subject string, h *holding, f *flight) {
	defer l.flights.Done()
	returned := false
	defer func() {
		f.raised = caught(returned, recover())
		h.land(f, l.clock(), l.age)
	}()
	ctx, cancel := l.ring.limits.bounded(ctx, l.ring.timeout())
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
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		f.raised.again()
		return f.err
	case <-ctx.Done():
		return failed(&sluice.SliceRingV1, ctx.Err())
	}
}

// denies reports whether the call's answer is that so many permits are denied.
func (f *flight) denies(permits int64) (Decision, bool) {
	if f == nil || f.stale || f.decision.Granted || permits < f.need {
		return Decision{}, false
	}
	return f.decision, true
}

// land takes in what a call brought.
func (h *holding) land(f *flight, now, age time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(f.done)
	h.flight, h.used = nil, now  // those who wait for it ask in a moment: it is not idle
	f.late = f.decision.Degraded // a policy's permits are its callers' alone: Redis knows nothing of them
	if f.err != nil || f.raised != nil || f.stale || f.late {
		return
	}
	h.told, h.asked, h.next = f.decision, f.sent, 1
	if f.decision.Granted {
		h.lots = append(h.lots, lot{size: f.want, left: f.want, until: f.sent + age, taken: f.decision.Now})
		h.next = 2 * f.want
		f.late = now >= f.sent+age
	}
}

// spend takes n permits from the oldest lots, if there are as many.
func (h *holding) spend(n int64, now time.Duration) (Decision, bool) {
	h.used = now
	held := h.live(now)
	if held < n {
		return Decision{}, false
	}
	emptied := false
	for i, left := 0, n; left > 0; i++ {
		if of := &h.lots[i]; now < of.until {
			part := min(left, of.left)
			of.left -= part
			left -= part
			emptied = emptied || of.left == 0
		}
	}
	if emptied {
		h.lots = slices.DeleteFunc(h.lots, func(of lot) bool { return of.left == 0 })
	}
	since := (now - h.asked).Truncate(time.Microsecond)
	return Decision{
		Granted:    true,
		Remaining:  held - n + h.told.Remaining,
		ResetAfter: max(h.told.ResetAfter-since, 0),
		Now:        h.told.Now.Add(since),
		Limit:      h.told.Limit,
	}, true
}

// live is how many permits may be spent now.
func (h *holding) live(now time.Duration) (permits int64) {
	for i := range h.lots {
		if now < h.lots[i].until {
			permits += h.lots[i].left
		}
	}
	return permits
}

// all is how many permits are not spent, those included that are too old.
func (h *holding) all() (permits int64) {
	for _, of := range h.lots {
		permits += of.left
	}
	return permits
}

// drop forgets what is held and what is on its way.
func (h *holding) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lots = nil
	if h.flight != nil {
		h.flight.stale = true
	}
}

// leave keeps the holding from asking for more.
func (h *holding) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
}
