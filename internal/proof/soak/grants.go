package soak

import (
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// Grant is a number of permits with the time for which, and the time at which, they were granted.
type Grant struct {
	At, Decided time.Time
	Permits     int64
}

// ExtraInLog returns the number of permits beyond the limit: after removing that many, no half-open interval of one
// window holds more than the limit.
func ExtraInLog(grants []Grant, limit loader.Limit) int64 {
	var extra, live int64
	var log []Grant
	for _, a := range inOrder(grants) {
		for len(log) > 0 && !log[0].At.After(a.At.Add(-limit.Window)) {
			live, log = live-log[0].Permits, log[1:]
		}
		beyond := max(live+a.Permits-limit.Permits, 0)
		a.Permits -= beyond
		extra, live, log = extra+beyond, live+a.Permits, append(log, a)
	}
	return extra
}

// ExtraInBucket returns the number of permits beyond the rate of limit with a burst of limit.Permits, to a microsecond.
func ExtraInBucket(grants []Grant, limit loader.Limit) int64 {
	var extra int64
	var full time.Time // the theoretical arrival time: when the bucket is full again
	interval := limit.Window / time.Duration(limit.Permits)
	for _, a := range inOrder(grants) {
		for range a.Permits {
			next := later(full, a.At).Add(interval)
			if next.Sub(a.At) > limit.Window+time.Microsecond {
				extra++
				continue
			}
			full = next
		}
	}
	return extra
}

func inOrder(grants []Grant) []Grant {
	return slices.SortedStableFunc(slices.Values(grants), func(a, b Grant) int { return a.At.Compare(b.At) })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Spent is a number of permits used at one time, which is only known to lie between two times.
type Spent struct {
	From, To time.Time
	Permits  int64
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

// ExtraInLogOf is ExtraInLog for times that are not known exactly. It returns the highest number of permits beyond the
// limit that must lie in one half-open interval of a window.
func ExtraInLogOf(spent []Spent, limit loader.Limit) int64 {
	return max(MostWithin(spent, limit.Window)-limit.Permits, 0)
}

// ExtraInBucketOf is ExtraInBucket for times that are not known exactly. It returns the highest number of permits
// beyond burst and rate that must lie in one interval: from the start of one use to the end of another.
func ExtraInBucketOf(spent []Spent, limit loader.Limit) int64 {
	interval := limit.Window / time.Duration(limit.Permits)
	var extra int64
	byEnd := slices.SortedStableFunc(slices.Values(spent), func(a, b Spent) int { return a.To.Compare(b.To) })
	for _, first := range spent {
		var inside int64
		for _, s := range byEnd {
			if s.From.Before(first.From) {
				continue
			}
			inside += s.Permits
			extra = max(extra, inside-limit.Permits-int64((s.To.Sub(first.From)+time.Microsecond)/interval))
		}
	}
	return extra
}
