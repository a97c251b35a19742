//go:build unix

package soak

import (
	"testing"
	"time"
)

// loss is what a deployment may have forgotten with a server: what that has decided after one time and up to another.
// It has forgotten it at once or, since an earlier time, for one caller after another.
type loss struct{ after, since, until time.Time }

// covers reports whether a grant may be lost. It may be of a time until which it was booked ahead.
func (l *loss) covers(s Spent) bool {
	return s.To.After(l.after) && !s.From.After(l.until.Add(maxWait))
}

// coversSlot reports whether a slot was held whose lease may be lost: it was taken then. If it took longer than half of
// a lease until the deployment had got over the loss, those of all others may have ended meanwhile.
func (l *loss) coversSlot(s Spent, late bool) bool {
	const answered = 100 * time.Millisecond // after the loss: a slot that was taken before
	return s.From.Before(l.until.Add(answered)) && s.To.After(l.since) && (s.From.After(l.after) || late)
}

// forget takes what an event may have undone out of the books. What a deployment decided before and after that was
// decided with all the rest in sight. What the ledgers granted and took back then is of unknown outcome.
func (r *row) forget(a *attack, e *event) {
	if e.lost == nil {
		return
	}
	late := e.ended.Load().Sub(e.lost.until) > a.leases.Window/2
	for i, p := range r.everywhere() {
		if b := &r.books[i]; e.hits(r.site, p.server) {
			lost := b.granted.Drop(e.lost.covers) + b.returned.Drop(e.lost.covers)
			b.mu.Lock()
			b.unknown += lost
			b.mu.Unlock()
			a.counts.add("grants lost with a server", lost+b.spent.Drop(e.lost.covers))
			a.counts.add("slots lost with a server", b.uses.Drop(func(s Spent) bool { return e.lost.coversSlot(s, late) }))
		}
	}
}

// A grant beyond the limit is found unless a loss explains it: of that server, and of grants that were made after what
// was replicated and before the kill. So it is with slots.
func TestForget(t *testing.T) {
	now := time.Now()
	between := func(from, to float64, permits int64) Spent {
		at := func(s float64) time.Time { return now.Add(time.Duration((s - 20) * float64(time.Second))) }
		return Spent{at(from), at(to), permits}
	}
	at := func(seconds float64, permits int64) Spent { return between(seconds, seconds, permits) }
	for name, test := range map[string]struct {
		spent, uses []Spent
		server      uint // that the loss is of
		late        bool
		want        string
	}{
		"the limit":                 {[]Spent{at(11, 4)}, nil, 1, false, ""},
		"lost, and granted again":   {[]Spent{at(11, 3), at(12, 1), at(16, 4)}, nil, 1, false, ""},
		"one more":                  {[]Spent{at(11, 4), at(16, 5)}, nil, 1, false, "limit"},
		"replicated before":         {[]Spent{at(10, 4), at(16, 1)}, nil, 1, false, "limit"},
		"granted after the kill":    {[]Spent{at(12.5, 4), at(16, 1)}, nil, 1, false, "limit"},
		"lost by another server":    {[]Spent{at(11, 4), at(16, 1)}, nil, 2, false, "limit"},
		"slots":                     {nil, []Spent{between(9, 14, 1), between(14, 15, 1)}, 1, false, ""},
		"a slot lost":               {nil, []Spent{between(11, 15, 1), between(14, 16, 1)}, 1, false, ""},
		"one more than was lost":    {nil, []Spent{between(9, 15, 1), between(11, 15, 1), between(14, 15, 1)}, 1, false, "slots"},
		"a slot that is replicated": {nil, []Spent{between(9, 15, 1), between(14, 16, 1)}, 1, false, "slots"},
		"its lease has ended":       {nil, []Spent{between(9, 15, 1), between(14, 16, 1)}, 1, true, ""},
		"a slot before the loss":    {nil, []Spent{between(10.5, 11.5, 1), between(11, 11.9, 1)}, 1, false, "slots"},
	} {
		a, r := court(modeOf("plain"))
		a.tight.Window = 10 * time.Second
		e := &event{fault: faults[0], victims: map[*site]uint{r.site: test.server}}
		e.lost = &loss{at(10, 0).To, at(12, 0).To, at(12, 0).To}
		ended := e.lost.until
		if test.late {
			ended = ended.Add(a.leases.Window)
		}
		e.ended.Store(&ended)
		b := &r.books[0]
		for _, s := range test.spent {
			b.spent.Add(s)
			b.granted.Add(s)
		}
		for _, s := range test.uses {
			b.uses.Add(s)
			b.returned.Add(s)
		}
		r.forget(a, e)
		if r.auditTight(a); a.broken() != test.want {
			t.Errorf("%s: fails by %q, want %q", name, a.broken(), test.want)
		}
	}
}
