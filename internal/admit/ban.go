package admit

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
)

// ban is what a limiter of refusals says about the subject of charges. While it is full, they are refused.
type ban struct {
	Charge
	charges []*Charge
}

// addBan notes that a charge is refused while its limiter of refusals is full.
func (q *Request) addBan(c *Charge) {
	for _, b := range q.bans {
		if b.Subject == c.Subject && b.Shadow == c.Shadow && loader.IsSame(b.Limiter, c.Ban) {
			b.charges = append(b.charges, c)
			return
		}
	}
	look := Charge{Kind: Look, Limiter: c.Ban, Subject: c.Subject, Name: NameOf(c.Ban), Shadow: c.Shadow}
	q.bans = append(q.bans, &ban{look, []*Charge{c}})
}

// look asks whether the subject is banned.
func (b *ban) look(ctx context.Context) {
	b.ask(ctx)
	banned.note(&b.Charge)
}

// askUnlessBanned asks the limiters that may ban, and the others unless who was banned before still is.
func (q *Request) askUnlessBanned() {
	if !q.lookAtBanned() {
		q.askAndJudge()
	}
	q.judgeBans()
}

// lookAtBanned asks about those who were banned when they asked last, before anything else, and reports whether one
// still is.
func (q *Request) lookAtBanned() (refused bool) {
	for _, b := range q.bans {
		if banned.has(&b.Charge) {
			b.look(lasting(q.ctx))
			refused = refused || b.Denied && !b.Shadow
		}
	}
	return refused
}

// judgeBans refuses a request whose subject is banned, and otherwise charges what was refused.
func (q *Request) judgeBans() {
	isBanned := false
	for _, b := range q.bans {
		isBanned = isBanned || b.Denied && !b.Shadow
	}
	for _, b := range q.bans {
		if !isBanned && b.Answered && b.Err == nil && !b.Denied && b.hasRefused(q) {
			b.charge(q)
		}
		switch {
		case b.Shadow:
		case b.Denied:
			if q.Outcome == admission.Denied && q.RetryAfter == 0 { // no wait ends that
				break
			}
			q.Err = nil
			q.deny(max(q.RetryAfter, b.Decision.Wait))
		case b.Err != nil && q.Outcome == admission.Allowed:
			q.fail(b.Err)
		}
	}
}

// charge charges a refusal, and asks how long the ban lasts if it was the last one. The loader's observer is told of
// errors: the request is refused as it was.
func (b *ban) charge(q *Request) {
	ctx := lasting(q.ctx)
	d, err := b.Limiter.AllowN(ctx, b.Subject, 1)
	if err == nil && d.Remaining == 0 {
		b.look(ctx)
	}
}

// hasRefused reports whether the limiter of a charge has denied. A full quota counts only if the request is denied.
func (b *ban) hasRefused(q *Request) bool {
	for _, c := range b.charges {
		if c.in != nil {
			c = c.in
		}
		if c.Denied && c.Kind != Look && (!c.Quota || q.Outcome == admission.Denied) {
			return true
		}
	}
	return false
}

// showBans has the first charge of who is banned answer for all of them, under the name of the ban.
func (q *Request) showBans() {
	for _, b := range q.bans {
		for i, c := range b.charges {
			if b.Denied {
				c.Decision, c.Err, c.Denied = b.Decision, nil, true
				c.Name, c.Answered = b.Name, i == 0
			}
		}
	}
}

// maxBanned is how many of those who were banned when they asked last are known.
const maxBanned = 10_000

// banned is who was banned when they asked last, until the ban ends: they are looked at before anything is charged.
var banned = subjects{seed: maphash.MakeSeed(), until: map[uint64]time.Time{}}

// subjects is a set of subjects of limiters, each until a time. They are known by a hash, so that no text of a request
// lives on; two with the same one cost a round trip.
type subjects struct {
	seed maphash.Seed

	mu    sync.Mutex
	until map[uint64]time.Time
}

func (s *subjects) hash(c *Charge) uint64 {
	return maphash.String(s.seed, NameOf(c.Limiter)+"\x00"+c.Subject)
}

// note adds a subject that a limiter denies, until its wait ends, or removes it.
func (s *subjects) note(c *Charge) {
	key := s.hash(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, key)
	if !c.Denied || c.Decision.Wait == loader.Never {
		return
	}
	for other := range s.until {
		if len(s.until) < maxBanned {
			break
		}
		delete(s.until, other)
	}
	s.until[key] = time.Now().Add(c.Decision.Wait)
}

func (s *subjects) has(c *Charge) bool {
	key := s.hash(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	until, known := s.until[key]
	if known && !time.Now().Before(until) {
		delete(s.until, key)
		return false
	}
	return known
}
