package model

import "slices"

// ahead is how far ahead of the clock, beyond a window, permits of a log may be: a clock may step back by a window and
// 60 s, and a booking may be 60 s ahead.
const ahead = 120_000_000

// log is a sliding-window log: what was granted, oldest first.
type log struct {
	granted            []grant
	now, limit, window int64
	expires            int64 // when the key expires, in milliseconds since 1970; 0: never
}

// grant is a number of permits granted for one time.
type grant struct{ at, permits int64 }

// live returns the permits that count: those that have not left the window. It returns none if a clock that was far
// ahead wrote them.
func (l log) live() []grant {
	n := len(l.granted)
	if n > 0 && l.granted[n-1].at > l.now+max(l.window, l.grantedUnder())+ahead {
		return nil
	}
	for i, g := range l.granted {
		if g.at > l.now-l.window {
			return l.granted[i:]
		}
	}
	return nil
}

// grantedUnder returns the window of the newest permit, which follows from when its key expires.
func (l log) grantedUnder() int64 {
	if l.expires == 0 {
		return 0
	}
	left := max(l.expires-l.now/1000, 0)
	return l.now + left*1000 - l.granted[len(l.granted)-1].at
}

func count(grants []grant) (permits int64) {
	for _, g := range grants {
		permits += g.permits
	}
	return permits
}

// oldest returns the time of the n-th oldest permit.
func oldest(grants []grant, n int64) int64 {
	for _, g := range grants {
		if n <= g.permits {
			return g.at
		}
		n -= g.permits
	}
	return 0
}

// due returns when n permits come free, if no one else asks.
func (l log) due(permits int64) int64 {
	live := l.live()
	due := l.now
	if n := len(live); n > 0 {
		due = max(due, live[n-1].at)
	}
	if tooMany := count(live) + permits - l.limit; tooMany > 0 {
		due = max(due, oldest(live, tooMany)+l.window)
	}
	return due
}

// ask decides. It returns how many permits are granted, for when, and the log afterwards.
func (l log) ask(permits, maxWait int64) (granted, due int64, after log) {
	due = l.due(max(permits, 1))
	if permits == 0 || due-l.now > maxWait {
		return 0, due, l
	}
	after = l
	after.granted = append(slices.Clone(l.live()), grant{due, permits})
	return permits, due, after
}

// reply returns the five fields, for the log after the decision.
func (l log) reply(granted, due int64) []int64 {
	live := l.live()
	if len(live) == 0 {
		return []int64{granted, l.limit, due - l.now, 0, l.now}
	}
	newest := live[len(live)-1].at
	remaining := max(l.limit-count(live), 0)
	if newest > l.now {
		remaining = 0 // someone has booked ahead
	}
	return []int64{granted, remaining, due - l.now, newest + l.window - l.now, l.now}
}

// one returns a grant of a single permit for each time.
func one(times []int64) (grants []grant) {
	for _, at := range times {
		grants = append(grants, grant{at, 1})
	}
	return grants
}
