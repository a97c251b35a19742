package loader

import (
	"context"
	"slices"
	"sync"
	"time"
)

// RememberDenials answers certain denials without asking Redis, for up to n subjects (1 or more). A denial says
// when the permits come free if no one else asks; before that nobody is granted as many or more under the same
// limit, so until then Allow and AllowN are denied at once, with Wait and ResetAfter counted down and Now counted
// on. A caller who is refused and asks again and again then costs Redis one call a Wait, not one a try.
//
// Everything else is still asked: fewer permits, another limit, Peek, ids of the caller's own, and all that may
// book, for a booking is possible during a denial. What this limiter gives back, resets or sets (Reset, Cancel,
// SetLimit, the permits of a Leased) is taken into account at once. What others do is not: after their Reset, their
// Cancel, a limit that they raise in Redis, a call of theirs with a shorter window, an eviction or a step of the
// server's clock, this limiter may go on to deny until the Wait that it was told is over. Where that matters and
// a Wait may be long, do without it.
//
// The memory is shared by the copies of a limiter: make it once, not for every call. Time is counted by the
// process's monotonic clock. Cost: about 250 bytes a subject; where there are more than n, any one is forgotten
// for the next.
func RememberDenials(n int) LimiterOption {
	return func(s *settings) {
		if n < 1 {
			s.fail(&ArgumentError{Argument: "RememberDenials", Want: "1 or more"})
			return
		}
		s.denials = &denials{most: n, start: time.Now(), known: map[string]certainty{}}
	}
}

// denials are those of a limiter that are remembered, by key.
type denials struct {
	most  int
	start time.Time // of the clock by which they are counted down

	mu        sync.Mutex
	known     map[string]certainty
	forgotten int // how often something was
}

// certainty is a denial that stays right until its Wait is over.
type certainty struct {
	sent     time.Duration // when it was asked for: no later than it was decided
	permits  int64         // the fewest that are denied
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

// inquiry is a question that is on its way.
type inquiry struct {
	memory    *denials
	key       string
	asked     certainty // if it is denied
	forgotten int       // how often something was until then
}

// begin notes what is about to be asked.
func (m *denials) begin(c core, key string, q question) inquiry {
	if m == nil {
		return inquiry{}
	}
	asked := certainty{sent: time.Since(m.start), permits: q.permits, limit: c.limit, windows: c.windows}
	return inquiry{memory: m, key: key, asked: asked, forgotten: m.mark()}
}

// end remembers the answer if it is a denial.
func (i inquiry) end(d Decision, err error) {
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
	m.mu.Lock()
	known, ok := m.known[key]
	m.mu.Unlock()
	since := time.Duration(pieces(time.Since(m.start)-known.sent, time.Microsecond)) * time.Microsecond
	d := known.decision
	if !ok || q.permits < known.permits || since >= d.Wait ||
		known.limit != c.limit || !slices.Equal(known.windows, c.windows) {
		return Decision{}, false
	}
	d.Wait -= since
	d.ResetAfter = max(d.ResetAfter-since, 0)
	d.Now = d.Now.Add(since)
	return d, true
}

// mark is how often something was forgotten so far.
func (m *denials) mark() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgotten
}

// remember keeps a denial, unless something was forgotten since it was asked for: it may have been decided
// before that.
func (m *denials) remember(key string, denied certainty, forgotten int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forgotten != forgotten {
		return
	}
	if _, known := m.known[key]; !known && len(m.known) >= m.most {
		for any := range m.known {
			delete(m.known, any)
			break
		}
	}
	m.known[key] = denied
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
