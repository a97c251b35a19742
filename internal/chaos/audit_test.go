package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// act is permits that were granted, with the moment for which and the one at which.
type act struct {
	at, decided time.Time
	permits     int64
}

// extraInLog is how many permits of the acts must be taken away so that no half-open interval of a window
// holds more than the limit.
func extraInLog(acts []act, limit loader.Limit) int64 {
	var extra, live int64
	var log []act
	for _, a := range inOrder(acts) {
		for len(log) > 0 && !log[0].at.After(a.at.Add(-limit.Window)) {
			live, log = live-log[0].permits, log[1:]
		}
		beyond := max(live+a.permits-limit.Permits, 0)
		a.permits -= beyond
		extra, live, log = extra+beyond, live+a.permits, append(log, a)
	}
	return extra
}

// extraInBucket is how many permits of the acts do not conform to a rate of limit with a burst of as many
// permits, to a microsecond.
func extraInBucket(acts []act, limit loader.Limit) int64 {
	var extra int64
	var full time.Time // the theoretical arrival time: when the bucket is full again
	interval := limit.Window / time.Duration(limit.Permits)
	for _, a := range inOrder(acts) {
		for range a.permits {
			next := later(full, a.at).Add(interval)
			if next.Sub(a.at) > limit.Window+time.Microsecond {
				extra++
				continue
			}
			full = next
		}
	}
	return extra
}

func inOrder(acts []act) []act {
	return slices.SortedStableFunc(slices.Values(acts), func(a, b act) int { return a.at.Compare(b.at) })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestAudit(t *testing.T) {
	second0 := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(after time.Duration, permits int64) act { return act{at: second0.Add(after), permits: permits} }
	limit := loader.Limit{Permits: 2, Window: time.Second}
	for _, test := range []struct {
		name        string
		acts        []act
		log, bucket int64
	}{
		{"nothing", nil, 0, 0},
		{"the limit at once", []act{at(0, 2)}, 0, 0},
		{"one more", []act{at(0, 2), at(0, 1)}, 1, 1},
		{"one more in one act", []act{at(0, 1), at(time.Millisecond, 2)}, 1, 1},
		{"in any order", []act{at(time.Second-1, 1), at(0, 2)}, 1, 0},
		{"a window later", []act{at(0, 2), at(time.Second, 2)}, 0, 0},
		{"just before that", []act{at(0, 2), at(time.Second-time.Millisecond, 2)}, 2, 1},
		{"half a window later", []act{at(0, 2), at(time.Second/2, 1)}, 1, 0},
		{"what is too much does not count again", []act{at(0, 2), at(time.Second/2, 2), at(time.Second, 2)}, 2, 2},
	} {
		if log, bucket := extraInLog(test.acts, limit), extraInBucket(test.acts, limit); log != test.log || bucket != test.bucket {
			t.Errorf("%s: %d beyond a log, %d beyond a bucket; want %d, %d", test.name, log, bucket, test.log, test.bucket)
		}
	}
}
