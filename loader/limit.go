package loader

import (
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
	Window  time.Duration // its length, from 1 ms to 366 days, in whole microseconds
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

func (l Limit) check() error {
	if l.Permits < 0 {
		return &ArgumentError{Argument: "Limit.Permits", Want: "0 or more"}
	}
	if l.Burst < 0 {
		return &ArgumentError{Argument: "Limit.Burst", Want: "0 or more"}
	}
	return nil
}
