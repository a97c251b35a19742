package loader

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
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

// burst returns how many permits a GCRA grants at once.
func (l Limit) burst() int64 {
	if l.Burst == 0 {
		return l.Permits
	}
	return l.Burst
}

// checkLimit returns what is wrong with a limit for this limiter.
func (s *settings) checkLimit(l Limit) error {
	switch upper, burst := s.algorithm.maxArgument("limit", "rate", "limit_i"), s.algorithm.maxArgument("burst"); {
	case l.Permits < 0:
		return s.errArgument("permits", l.Permits, "0 or more")
	case l.Permits > upper:
		return &ArgumentError{
			Limiter: s.name, Argument: "permits", Value: fmt.Sprint(l.Permits), Want: fmt.Sprintf("%d or less", upper),
			text: fmt.Sprintf("%d permits: %s holds %d%s", l.Permits, s.algorithm.name, upper, s.algorithm.largerLimiters),
		}
	case l.Burst > 0 && s.algorithm != &gcra:
		return &ArgumentError{
			Limiter: s.name, Argument: "burst", Value: strconv.FormatInt(l.Burst, 10), Want: "0",
			text: fmt.Sprintf("burst %d: %s has none, GCRA has", l.Burst, s.algorithm.name),
		}
	case l.Burst < 0:
		return s.errArgument("burst", l.Burst, "0 or more")
	case l.Burst > burst:
		return s.errArgument("burst", l.Burst, fmt.Sprintf("up to %d", burst))
	case l.Permits == 0: // nothing is asked for: it needs no window
		return nil
	}
	if err := s.checkWindow(l.Window); err != nil {
		return err
	}
	return s.checkBurst(l)
}

// checkBurst returns an error if a burst takes too long to be refilled.
func (s *settings) checkBurst(l Limit) error {
	upper := maxBurst(l)
	if l.Burst <= upper {
		return nil
	}
	permits := "1 permit"
	if l.Permits > 1 {
		permits = fmt.Sprintf("%d permits", l.Permits)
	}
	return s.errArgument("burst", l.Burst, fmt.Sprintf("up to %d with %s in %s", upper, permits, span(l.Window)))
}

// checkWindow returns what is wrong with the length of a window.
func (s *settings) checkWindow(d time.Duration) error {
	switch longest := s.algorithm.maxWindow(); {
	case d < minWindow || d > longest:
		return s.errArgument("window", d, fmt.Sprintf("%v to %s", minWindow, span(longest)))
	case d%time.Microsecond != 0:
		return s.errArgument("window", d, "whole microseconds")
	}
	return nil
}

// minWindow is the shortest window that the scripts take.
const minWindow = time.Millisecond

// maxWindow returns the longest window that the script takes.
func (k *algorithm) maxWindow() time.Duration {
	if k == &sliceRing || k == &budget {
		return maxWindowSlices * maxSlice
	}
	return time.Duration(k.maxArgument("window", "interval")) * time.Microsecond
}

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
