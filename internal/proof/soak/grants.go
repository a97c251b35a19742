package soak

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Spent is a number of permits used at one time, which is only known to lie between two times. Of a slot it is the time
// in which it was in use: from after it was acquired until before it was released, or until its context ended.
type Spent struct {
	From, To time.Time
	Permits  int64
}

// Record is what callers, many at once, were granted.
type Record struct {
	mu    sync.Mutex
	spent []Spent
}

// Add adds a grant.
func (r *Record) Add(s Spent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent = append(r.spent, s)
}

// Ask asks for a permit, and adds it, if it was granted, as spent while it was asked for.
func (r *Record) Ask(ask func() (granted bool, err error)) error {
	s := Spent{From: time.Now(), Permits: 1}
	granted, err := ask()
	s.To = time.Now()
	if granted {
		r.Add(s)
	}
	return err
}

// Spent returns what was granted until now.
func (r *Record) Spent() []Spent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spent)
}

// Drop drops what a rule is true of, and returns how many permits that were.
func (r *Record) Drop(rule func(Spent) bool) (permits int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent = slices.DeleteFunc(r.spent, func(s Spent) bool {
		drop := rule(s)
		if drop {
			permits += s.Permits
		}
		return drop
	})
	return permits
}

// MostWithin returns the highest number of permits that must lie in one half-open interval of a window: used at times
// that both lie in it.
func MostWithin(spent []Spent, window time.Duration) (most int64) {
	byStart := slices.SortedStableFunc(slices.Values(spent), func(a, b Spent) int { return a.From.Compare(b.From) })
	for i, first := range byStart {
		end, inside := first.From.Add(window), int64(0)
		for _, s := range byStart[i:] {
			if !s.From.Before(end) {
				break
			}
			if s.To.Before(end) {
				inside += s.Permits
			}
		}
		most = max(most, inside)
	}
	return most
}

// Bound is how many permits may be used in an interval: from one use to another, both included. It never falls with the
// length of the interval. Longer intervals than the second result are not bounded.
type Bound func(limit loader.Limit, span time.Duration) (permits int64, bounded bool)

// InWindow lets any half-open interval of a window have the limit.
func InWindow(limit loader.Limit, span time.Duration) (int64, bool) {
	return limit.Permits, span < limit.Window
}

// InBucket lets a bucket of limit.Permits be used, and what it is refilled with, to a microsecond.
func InBucket(limit loader.Limit, span time.Duration) (int64, bool) {
	return limit.Permits + int64(span+time.Microsecond)/int64(limit.Window/time.Duration(limit.Permits)), true
}

// Extra returns the number of permits beyond a limit: after removing that many, no interval must hold more than the
// bound.
func Extra(spent []Spent, limit loader.Limit, bound Bound) (extra int64) {
	var kept []Spent // the latest start first
	for _, s := range slices.SortedStableFunc(slices.Values(spent), func(a, b Spent) int { return a.To.Compare(b.To) }) {
		at, _ := slices.BinarySearchFunc(kept, s, func(a, b Spent) int { return b.From.Compare(a.From) })
		kept = slices.Insert(kept, at, s)
		inside, beyond := int64(0), int64(0)
		for i, first := range kept { // of the interval from its start to the end of s
			inside += first.Permits
			permits, bounded := bound(limit, s.To.Sub(first.From))
			if !bounded {
				break
			}
			if i >= at {
				beyond = max(beyond, inside-permits) // at most those of s: without it none was beyond
			}
		}
		extra += beyond
		kept[at].Permits -= beyond
	}
	return extra
}

// MostAtOnce returns how many slots were in use at once at most.
func MostAtOnce(uses []Spent) (most int) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, u := range uses {
		changes = append(changes, change{u.From, 1}, change{u.To, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	held := 0
	for _, c := range changes {
		held += c.by
		most = max(most, held)
	}
	return most
}
