package loader

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/loader/bindings"
)

// RememberDenials caches denials, of up to n subjects (1 or more). Use it against callers who are refused and ask again
// at once: they then cost Redis one call per Wait, not one per try.
//
// A denial says when the permits come free if no one else asks. Until then no one is granted as many permits under the
// same limit. So Allow and AllowN for that many are denied at once until then; Wait and ResetAfter are counted down,
// and Now is counted up.
//
// Redis is still asked about everything else: another number of permits (the last four numbers of each subject are
// cached), another limit, Peek, calls with an id of the caller's own, and calls that may book.
//
// If this limiter gives back, resets or sets anything (GiveBack, Cancel, Reset, SetLimit, a Wait that ends early, an
// All that is refused, the permits of a Leased), that takes effect at once. Changes from elsewhere do not: what another
// process gives back or resets, a limit that is raised in Redis, another caller's shorter window, an eviction, a step
// of the server's clock. After those this limiter may deny until the cached Wait is over. Do not use RememberDenials
// where that matters and a Wait may be long.
//
// The copies of a limiter share the cache: make the limiter once, not for every call. Cost: about 300 bytes for each
// cached denial. When the cache is full, the next denial replaces any other.
func RememberDenials(n int) LimiterOption {
	return func(s *settings) {
		if n < 1 {
			s.setErr(s.errArgument("RememberDenials", n, "1 or more"))
			return
		}
		s.denials = &denials{maxSubjects: n, start: time.Now(), ids: newKeyIDs(), known: map[keyID][]cachedDenial{}}
	}
}

// denials is the cache of a limiter.
type denials struct {
	maxSubjects int
	start       time.Time // of its clock, the monotonic clock of the process
	ids         keyIDs

	mu        sync.Mutex
	known     map[keyID][]cachedDenial // one for each number of permits, newest last
	forgotten int                      // counts the calls of forget
}

// denialsEach is how many denials of one subject are cached.
const denialsEach = 4

// cachedDenial is used until its Wait is over.
type cachedDenial struct {
	sent     time.Duration // when the question was sent, so before the decision
	permits  int64
	limit    Limit
	windows  []bindings.SliceRingV1Window
	decision Decision // without its Key
}

// pendingDenial is what is cached if a question in flight is denied.
type pendingDenial struct {
	memory    *denials
	key       keyID
	denial    cachedDenial
	forgotten int // of the cache, when the question was sent
}

// newPending returns the pendingDenial of a question that is about to be sent.
func (m *denials) newPending(c core, key string, q question) pendingDenial {
	if m == nil {
		return pendingDenial{}
	}
	asked := cachedDenial{sent: time.Since(m.start), permits: q.permits, limit: c.limit, windows: c.ring.windows}
	id := m.ids.of(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	return pendingDenial{memory: m, key: id, denial: asked, forgotten: m.forgotten}
}

// save caches the answer if it is a denial, unless forget was called since the question was sent: the denial may be
// older than that.
func (p pendingDenial) save(d Decision, err error) {
	m := p.memory
	if m == nil || err != nil || d.Granted || p.denial.permits == 0 {
		return
	}
	d.Key = ""
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
func evictFor[K comparable, V any](key K, entries map[K]V, maxEntries int) {
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
	id := m.ids.of(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.known[id] {
		if known.permits != q.permits || known.limit != c.limit || !slices.Equal(known.windows, c.ring.windows) {
			continue
		}
		since := time.Duration(divideUp(time.Since(m.start)-known.sent, time.Microsecond)) * time.Microsecond
		if since < known.decision.Wait {
			d := known.decision.later(since)
			d.Key = key
			return d, true
		}
	}
	return Decision{}, false
}

// forget removes the denials of a key. It is called when permits may have come free in another way than with time.
func (m *denials) forget(key string) {
	if m == nil {
		return
	}
	id := m.ids.of(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten++
	delete(m.known, id)
}
