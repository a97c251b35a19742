package loader

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Never is the Wait of a Decision if waiting does not help, because the limit is 0, or more was asked for than
// it. It is 146 years, half of the largest time.Duration, so that adding to it does not overflow.
const Never time.Duration = 1 << 62

// Limit is how many permits a subject may have in any window.
//
// With 0 Permits everything is denied without asking Redis. Use that for plans that do not include a feature. A
// negative number is an *ArgumentError.
type Limit struct {
	Permits int64         // permits in a window
	Window  time.Duration // 1 ms to 366 days (SliceRing: 999 days), in whole microseconds
	Burst   int64         // GCRA: maximum number of permits at once, 0 means Permits; all others: 0
}

// PerSecond is a limit of n permits in a second.
func PerSecond(n int64) Limit { return Limit{Permits: n, Window: time.Second} }

// PerMinute is a limit of n permits in a minute.
func PerMinute(n int64) Limit { return Limit{Permits: n, Window: time.Minute} }

// PerHour is a limit of n permits in an hour.
func PerHour(n int64) Limit { return Limit{Permits: n, Window: time.Hour} }

// PerDay is a limit of n permits in any 24 hours.
func PerDay(n int64) Limit { return Limit{Permits: n, Window: 24 * time.Hour} }

// minWindow is the shortest window that the scripts take.
const minWindow = time.Millisecond

// maxReturnUS is the longest time, in microseconds, in which gcra may refill a whole burst.
const maxReturnUS = 1 << 52

// maxBurst returns the largest burst that is refilled in that time, computed exactly as gcra does: burst * window /
// permits.
func maxBurst(l Limit) int64 {
	window := uint64(l.Window.Microseconds())
	hi, lo := bits.Mul64(maxReturnUS, uint64(l.Permits))
	if hi >= window {
		return math.MaxInt64
	}
	largest, _ := bits.Div64(hi, lo, window)
	return int64(min(largest, math.MaxInt64))
}

// span formats a duration for people: whole days as days.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day || d%day != 0 {
		return d.String()
	}
	return fmt.Sprintf("%d days", d/day)
}
