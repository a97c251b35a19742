package loader

import (
	"fmt"
	"math"
	"time"
)

// Never is the Wait of a Decision that no amount of waiting will turn, as with a limit of 0.
const Never time.Duration = math.MaxInt64

// Limit is how many permits a subject may have in any window.
//
// A Permits of 0 denies everything without asking Redis, for plans that do not include the thing at
// all. A negative one is an *ArgumentError.
type Limit struct {
	Permits int64         // permits in a window
	Window  time.Duration // its length, from 1 ms to 366 days (9999 of a SliceRing), in whole microseconds
	Burst   int64         // GCRA only: the most permits at once; 0 means Permits
}

// PerSecond is a limit of n permits in a second.
func PerSecond(n int64) Limit { return Limit{Permits: n, Window: time.Second} }

// PerMinute is a limit of n permits in a minute.
func PerMinute(n int64) Limit { return Limit{Permits: n, Window: time.Minute} }

// PerHour is a limit of n permits in an hour.
func PerHour(n int64) Limit { return Limit{Permits: n, Window: time.Hour} }

// PerDay is a limit of n permits in 24 hours, whenever they begin.
func PerDay(n int64) Limit { return Limit{Permits: n, Window: 24 * time.Hour} }

// burst is the most permits that GCRA grants at once.
func (l Limit) burst() int64 {
	if l.Burst == 0 {
		return l.Permits
	}
	return l.Burst
}

// check is what is wrong with a limit for this limiter.
func (s *settings) check(l Limit) error {
	switch most, burst := s.kind.max("limit", "rate", "limit_i"), s.kind.max("burst"); {
	case l.Permits < 0:
		return s.refuse("Limit.Permits", l.Permits, "0 or more")
	case l.Permits > most:
		return s.refuse("Limit.Permits", l.Permits, fmt.Sprintf("up to %d in a %s%s", most, s.kind.name, s.kind.more))
	case l.Burst < 0:
		return s.refuse("Limit.Burst", l.Burst, "0 or more")
	case l.Burst > burst:
		return s.refuse("Limit.Burst", l.Burst, fmt.Sprintf("up to %d", burst))
	case l.Window%time.Microsecond != 0:
		return s.refuse("Limit.Window", l.Window, "whole microseconds")
	}
	return nil
}
