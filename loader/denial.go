package loader

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// RememberDenials caches denials, of up to n subjects (1 or more). Use it against callers who are refused and ask again
// at once: they then cost Redis one call per Wait, not one per try.
//
// A denial says when the permits come free if no one else asks. Until then Allow and AllowN for as many permits under
// the same limit are denied at once, with Wait and ResetAfter counted down. Redis is asked about everything else:
// another number of permits (the last four are cached), another limit, Peek, calls with an id of the caller's own, and
// calls that may book.
//
// What this limiter gives back, resets or sets takes effect at once. Changes from elsewhere do not: what another
// process gives back or resets, a limit that is raised in Redis, another caller's shorter window, an eviction, a step
// of the server's clock. Do not use RememberDenials where that matters and a Wait may be long.
//
// The copies of a limiter share the cache: make the limiter once, not for every call. Cost: about 300 bytes for each
// cached denial, and up to 0.5 us a call for the subject's SHA-256, more if it is longer than 100 bytes. When the cache
// is full, the next denial replaces any other.
func RememberDenials(n int) LimiterOption {
	return func(s *settings) {
		s.once("RememberDenials")
		if n < 1 {
			s.setErr(s.errArgument("RememberDenials", n, "1 or more"))
			return
		}
		s.denials = &denials{maxSubjects: n, start: time.Now(), known: map[keyHash][]cachedDenial{}}
	}
}

// denials is the cache of a limiter.
type denials struct {
	maxSubjects int
	start       time.Time // of its clock, the monotonic clock of the process

	mu        sync.Mutex
	known     map[keyHash][]cachedDenial // one for each number of permits, newest last
	forgotten int                        // counts the calls of forgetDenials, of all keys: a count for each costs memory
}

// keyHash stands for a key in a table, so that an entry has a fixed size. No one can find two keys with the same one.
type keyHash [16]byte

func hashOf(key string) keyHash {
	sum := sha256.Sum256([]byte(key))
	return keyHash(sum[:16])
}

// denialsEach is how many denials of one subject are cached.
const denialsEach = 4

// cachedDenial is used until its Wait is over.
type cachedDenial struct {
	sent     time.Duration // when the question was sent, so before the decision
	permits  int64
	limit    Limit
	windows  []ringWindow
	decision Decision
}

// pendingDenial is what is cached if a question in flight is denied.
type pendingDenial struct {
	memory    *denials
	key       keyHash
	denial    cachedDenial
	forgotten int // of the cache, when the question was sent
}

// newPending returns the pendingDenial of a question that is about to be sent.
func (m *denials) newPending(c core, key string, q question) *pendingDenial {
	if m == nil {
		return nil
	}
	asked := cachedDenial{sent: time.Since(m.start), permits: q.permits, limit: c.limit, windows: c.ring.windows}
	hash := hashOf(c.anyWindow(key))
	m.mu.Lock()
	defer m.mu.Unlock()
	return &pendingDenial{memory: m, key: hash, denial: asked, forgotten: m.forgotten}
}

// save caches the answer if it is a denial, unless forgetDenials was called since the question was sent: the denial may
// be older than that.
func (p *pendingDenial) save(d Decision, err error) {
	if p == nil || err != nil || d.Granted || p.denial.permits == 0 {
		return
	}
	m := p.memory
	p.denial.decision = d
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forgotten != p.forgotten {
		return
	}
	known := slices.DeleteFunc(m.known[p.key], func(d cachedDenial) bool { return d.permits == p.denial.permits })
	if len(known) == denialsEach {
		known = slices.Delete(known, 0, 1)
	}
	evictFor(p.key, m.known, m.maxSubjects)
	m.known[p.key] = append(known, p.denial)
}

// evictFor removes any entry if there is no room for another one with this key.
func evictFor[V any](key keyHash, entries map[keyHash]V, maxEntries int) {
	if _, known := entries[key]; known || len(entries) < maxEntries {
		return
	}
	for other := range entries {
		delete(entries, other)
		return
	}
}

// recall answers a question from the cache. It never answers a call with an id of the caller's own: that may have been
// granted before, and is then granted again.
func (m *denials) recall(c core, key string, q question) (Decision, bool) {
	if m == nil || q.permits == 0 || q.maxWait > 0 || c.id != "" {
		return Decision{}, false
	}
	hash := hashOf(c.anyWindow(key))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.known[hash] {
		if known.permits != q.permits || known.limit != c.limit || !slices.Equal(known.windows, c.ring.windows) {
			continue
		}
		since := time.Duration(divideUp(time.Since(m.start)-known.sent, time.Microsecond)) * time.Microsecond
		if since < known.decision.Wait {
			return known.decision.later(since), true
		}
	}
	return Decision{}, false
}

// forgetDenials removes the denials of a key, in whichever windows. It is called when permits may have come free in
// another way than with time.
func (c core) forgetDenials(key string) {
	m := c.denials
	if m == nil {
		return
	}
	hash := hashOf(c.anyWindow(key))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten++
	delete(m.known, hash)
}
