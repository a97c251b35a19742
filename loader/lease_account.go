package loader

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// account is the lease account of one subject: the permits that this process holds for it.
type account struct {
	subject string

	mu           sync.Mutex
	grants       []grant       // oldest first
	lastUsed     time.Duration // when a caller last asked for permits
	nextBlock    int64         // permits to ask for with the next refill
	refill       *refill       // in flight; nil: none
	retired      bool          // removed from Leased.bySubject: it is not refilled
	lastDecision Decision      // of the last refill that Redis decided
	lastSent     time.Duration // when that refill was sent
}

// grant is what one refill added to an account.
type grant struct {
	subject       string
	size, unspent int64
	expires       time.Duration // from then on its permits are not spent
	grantedAt     time.Time     // by the server's clock
}

// refill is one call to Redis for more permits. All callers who need permits of the subject wait for the same one.
type refill struct {
	need int64         // the fewest permits that are enough for the caller who started it
	want int64         // permits asked for
	done chan struct{} // closed when the fields below are set

	sent     time.Duration
	decision Decision
	err      error
	raised   *raised
	stale    bool // the subject was reset in the meantime
	late     bool // its permits cannot be spent from the account
}

// clock returns the time since the Leased was made. All ages are measured with this monotonic clock.
func (l *Leased) clock() time.Duration { return time.Since(l.start) }

// account returns the subject's account, nil if there is none.
func (l *Leased) account(subject string) *account {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bySubject[subject]
}

// accounts returns a copy of the table of accounts.
func (l *Leased) accounts() map[string]*account {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.bySubject)
}

// accountFor returns the subject's account, and makes it if it does not exist. It returns nil if there are
// LeaseOptions.MaxSubjects accounts already, and after Close.
func (l *Leased) accountFor(subject string) *account {
	if a := l.account(subject); a != nil {
		return a
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.bySubject[subject]; a != nil || l.bySubject == nil || len(l.bySubject) >= l.lease.MaxSubjects {
		return a
	}
	a := &account{subject: subject}
	l.bySubject[subject] = a
	return a
}

// spend spends n of the permits that are held for the subject. It reports false if fewer are held.
func (l *Leased) spend(subject string, n int64) (Decision, bool) {
	a := l.account(subject)
	if a == nil {
		return Decision{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spend(n, l.clock())
}

// spendOrRefill decides from the subject's account, and refills it if too few permits are held. If there is no account,
// Redis decides.
func (l *Leased) spendOrRefill(ctx context.Context, subject string, q question) (Decision, error) {
	key, err := l.ring.key(subject)
	if err != nil || q.permits > smallestLimit(l.ring.core) {
		return l.ring.decide(ctx, subject, q)
	}
	ctxEnded := ctx.Err() != nil // then no policy answers
	var last *refill
	a := l.accountFor(subject)
	for a != nil {
		d, decided, r := l.decideFrom(ctx, key, a, q.permits, last)
		if decided {
			return d, nil
		}
		if r == nil { // a is retired
			a = l.accountFor(subject)
			continue
		}
		if err := r.wait(ctx); err != nil {
			if ctxEnded {
				return Decision{}, err
			}
			return l.ring.fallBack(ctx, key, q, err)
		}
		if r.late {
			break
		}
		last = r
	}
	return l.ring.decide(ctx, subject, q)
}

// decideFrom decides about n permits from an account. The last refill that the caller waited for, if any, may be the
// denial. If there is no decision yet, it returns the refill to wait for, or nil if the account is retired.
func (l *Leased) decideFrom(
	ctx context.Context, key string, a *account, n int64, last *refill,
) (d Decision, decided bool, r *refill) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := l.clock()
	if d, ok := a.spend(n, now); ok {
		return d, true, nil
	}
	held := a.spendable(now)
	d, denied := last.denies(n - held)
	if !denied { // a cached denial needs no goroutine
		d, denied = l.ring.denials.recall(l.ring.core, key, question{permits: n - held})
	}
	switch {
	case denied:
		d.Remaining += held
		return d, true, nil
	case a.retired:
		return d, false, nil
	case a.refill == nil:
		l.startRefill(ctx, a, n-held)
	}
	return d, false, a.refill
}

// startRefill starts a refill of at least this many permits. The account is locked.
func (l *Leased) startRefill(ctx context.Context, a *account, need int64) {
	want := max(need, min(a.nextBlock, l.lease.Block, smallestLimit(l.ring.core))-a.unspent())
	a.refill = &refill{need: need, want: want, done: make(chan struct{})}
	l.refills.Add(1)
	go l.runRefill(context.WithoutCancel(ctx), a, a.refill)
}

// runRefill asks Redis for the permits. If they are denied, it asks for fewer: half of what remains, so that other
// processes get permits too, but never less than r.need.
func (l *Leased) runRefill(ctx context.Context, a *account, r *refill) {
	defer l.refills.Done()
	returned := false
	defer func() {
		r.raised = caught(returned, recover())
		a.endRefill(r, l.clock(), l.age)
	}()
	ctx, cancel := l.ring.limits.withTimeout(ctx, l.ring.timeout())
	defer cancel()
	for {
		r.sent = l.clock()
		r.decision, r.err = l.ring.decide(ctx, a.subject, question{method: "Allow", permits: r.want})
		if r.err != nil || r.decision.Granted || r.decision.Degraded || r.want == r.need {
			break
		}
		r.want = max(r.need, min(r.decision.Remaining, r.want)/2)
	}
	returned = true
}

// wait waits for the end of the refill. It returns the refill's error (also if a policy answered in its place), or the
// context's as soon as the context ends. It panics if the refill did.
func (r *refill) wait(ctx context.Context) error {
	select {
	case <-r.done:
		r.raised.reraise()
		if r.err == nil && r.decision.Degraded {
			return r.decision.Cause
		}
		return r.err
	case <-ctx.Done():
		return failed(&sliceRingV1, ctx.Err())
	}
}

// denies reports whether the refill shows that this many permits are denied, and returns the denial.
func (r *refill) denies(permits int64) (Decision, bool) {
	if r == nil || r.stale || r.decision.Granted || permits < r.need {
		return Decision{}, false
	}
	return r.decision, true
}

// endRefill adds what a refill was granted to the account, and wakes the callers.
func (a *account) endRefill(r *refill, now, age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer close(r.done)
	a.refill, a.lastUsed = nil, now // the callers who wait for r spend soon: the account is not idle
	r.late = r.decision.Degraded    // Redis does not count what a policy grants: it is not added
	if r.err != nil || r.raised != nil || r.stale || r.late {
		return
	}
	a.lastDecision, a.lastSent, a.nextBlock = r.decision, r.sent, 1
	if r.decision.Granted {
		a.grants = append(a.grants, grant{
			subject: a.subject, size: r.want, unspent: r.want, expires: r.sent + age, grantedAt: r.decision.Now,
		})
		a.nextBlock = 2 * r.want
		r.late = now >= r.sent+age
	}
}

// spend spends n permits of the account, oldest grants first. It reports false if fewer can be spent.
func (a *account) spend(n int64, now time.Duration) (Decision, bool) {
	a.lastUsed = now
	held := a.spendable(now)
	if held < n {
		return Decision{}, false
	}
	a.deduct(n, now)
	since := (now - a.lastSent).Truncate(time.Microsecond)
	return Decision{
		Granted:    true,
		Permits:    n,
		Remaining:  held - n + a.lastDecision.Remaining,
		ResetAfter: max(a.lastDecision.ResetAfter-since, 0),
		Now:        a.lastDecision.Now.Add(since),
		Limit:      a.lastDecision.Limit,
	}, true
}

// deduct takes n permits from the grants and removes those that are used up.
func (a *account) deduct(n int64, now time.Duration) {
	usedUp := false
	for i := 0; n > 0; i++ {
		if g := &a.grants[i]; now < g.expires {
			used := min(n, g.unspent)
			g.unspent -= used
			n -= used
			usedUp = usedUp || g.unspent == 0
		}
	}
	if usedUp {
		a.grants = slices.DeleteFunc(a.grants, func(g grant) bool { return g.unspent == 0 })
	}
}

// spendable returns how many permits may be spent now.
func (a *account) spendable(now time.Duration) (permits int64) {
	for i := range a.grants {
		if now < a.grants[i].expires {
			permits += a.grants[i].unspent
		}
	}
	return permits
}

// unspent returns how many permits are not spent, expired ones included.
func (a *account) unspent() (permits int64) {
	for _, g := range a.grants {
		permits += g.unspent
	}
	return permits
}

// discard drops all permits, also those of a refill in flight.
func (a *account) discard() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grants = nil
	if a.refill != nil {
		a.refill.stale = true
	}
}

// retire keeps the account from being refilled again.
func (a *account) retire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retired = true
}
