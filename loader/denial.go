package loader

import (
	"context"
	"slices"
	"sync"
	"time"
)

// RememberDenials answers certain denials without asking Redis, for up to n subjects (1 or more). A denial says
// when the permits come free if no one else asks; before that nobody is granted as many under the same
// limit, so until then Allow and AllowN for as many are denied at once, with Wait and ResetAfter counted down and Now
// counted on. A caller who is refused and asks again and again then costs Redis one call a Wait, not one a try.
//
// Everything else is still asked: other numbers of permits, for their Wait is another (of each subject the last four
// numbers are remembered), another limit, Peek, ids of the caller's own, and all that may
// book, for a booking is possible during a denial. What this limiter gives back, resets or sets (Reset, Cancel,
// SetLimit, the permits of a Leased) is taken into account at once. What others do is not: after their Reset, their
// Cancel, a limit that they raise in Redis, a call of theirs with a shorter window, an eviction or a step of the
// server's clock, this limiter may go on to deny until the Wait that it was told is over. Where that matters and
// a Wait may be long, do without it.
//
// The memory is shared by the copies of a limiter: make it once, not for every call. Time is counted by the
// process's monotonic clock. Cost: about 250 bytes a denial; where there are more than n subjects, any one is forgotten
// for the next.
func RememberDenials(n int) LimiterOption {
	return func(s *settings) {
		if n < 1 {
			s.fail(s.refuse("RememberDenials", n, "1 or more"))
			return
		}
		s.denials = &denials{most: n, start: time.Now(), known: map[string][]cachedDenial{}}
	}
}

// denials are those of a limiter that are remembered, by key.
type denials struct {
	most  int
	start time.Time // of the clock by which they are counted down

	mu        sync.Mutex
	known     map[string][]cachedDenial // of different numbers of permits, the latest last
	forgotten int                       // how often something was
}

// denialsEach is how many denials of one subject are remembered.
const denialsEach = 4

// cachedDenial stays right until its Wait is over.
type cachedDenial struct {
	sent     time.Duration // when it was asked for: no later than it was decided
	permits  int64
	limit    Limit
	windows  []SliceRingV1Window
	decision Decision
}

// decide asks, unless the answer is known.
func (m *denials) decide(ctx context.Context, c core, call call, q question) (Decision, error) {
	key := call.key()
	if d, ok := m.recall(c, key, q); ok {
		return d, nil
	}
	asked := m.begin(c, key, q)
	d, err := c.answer(ctx, call, q)
	asked.end(d, err)
	return d, err
}

// pendingDenial is what will be remembered if a question in flight is denied.
type pendingDenial struct {
	memory    *denials
	key       string
	asked     cachedDenial
	forgotten int // how often something was until then
}

// begin notes what is about to be asked.
func (m *denials) begin(c core, key string, q question) pendingDenial {
	if m == nil {
		return pendingDenial{}
	}
	asked := cachedDenial{sent: time.Since(m.start), permits: q.permits, limit: c.limit, windows: c.windows}
	return pendingDenial{memory: m, key: key, asked: asked, forgotten: m.mark()}
}

// end remembers the answer if it is a denial.
func (i pendingDenial) end(d Decision, err error) {
	if i.memory == nil || err != nil || d.Granted || d.Degraded || i.asked.permits == 0 {
		return
	}
	i.asked.decision = d
	i.memory.remember(i.key, i.asked, i.forgotten)
}

// recall is the answer to a question that a denial answers. An id of the caller's own may have been granted before,
// and is granted again then.
func (m *denials) recall(c core, key string, q question) (Decision, bool) {
	if m == nil || q.permits == 0 || q.maxWait > 0 || c.id != "" {
		return Decision{}, false
	}
	known, ok := m.find(key, q.permits)
	since := time.Duration(pieces(time.Since(m.start)-known.sent, time.Microsecond)) * time.Microsecond
	d := known.decision
	if !ok || since >= d.Wait || known.limit != c.limit || !slices.Equal(known.windows, c.windows) {
		return Decision{}, false
	}
	d.Wait -= since
	d.ResetAfter = max(d.ResetAfter-since, 0)
	d.Now = d.Now.Add(since)
	return d, true
}

// find is the denial of so many permits.
func (m *denials) find(key string, permits int64) (known cachedDenial, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.known[key] {
		if known.permits == permits {
			return known, true
		}
	}
	return cachedDenial{}, false
}

// mark is how often something was forgotten so far.
func (m *denials) mark() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgotten
}

// remember keeps a denial, unless something was forgotten since it was asked for: it may have been decided
// before that.
func (m *denials) remember(key string, denied cachedDenial, forgotten int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forgotten != forgotten {
		return
	}
	known := slices.DeleteFunc(m.known[key], func(d cachedDenial) bool { return d.permits == denied.permits })
	if len(known) == denialsEach {
		known = slices.Delete(known, 0, 1)
	}
	if len(known) == 0 {
		m.makeRoom(key)
	}
	m.known[key] = append(known, denied)
}

// makeRoom forgets any subject if there is no room for one more.
func (m *denials) makeRoom(key string) {
	if _, known := m.known[key]; known || len(m.known) < m.most {
		return
	}
	for other := range m.known {
		delete(m.known, other)
		return
	}
}

// forget drops what is known about a key whose permits have come free in another way than by waiting.
func (m *denials) forget(key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten++
	delete(m.known, key)
}
