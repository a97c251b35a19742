package demo

import (
	"fmt"
	"math"
	"time"
)

// result is the audited result of one limiter. Acts booked for Duration or more after the first act are left out.
type result struct {
	way
	duration time.Duration   // from the first act of this limiter
	booked   []time.Duration // times booked, from the first act, by the server's clock, ascending
	real     []time.Duration // times at which they happened, from the first act, by our clock, ascending
	granted  int             // permits granted, also for times after the end
	calls    int             // calls to Redis

	longestWait time.Duration // of a worker for one permit, also if the run ended first
	stalled     time.Duration // total time in which the machine stopped for 100 ms or more
}

// allowedLoss is the number of permits that a script may miss at the start and end.
const allowedLoss = 2

// maxBooked returns the highest number of acts booked for any interval of length window.
func (r result) maxBooked() int { return maxInWindow(r.booked, window) }

// maxReal returns the highest number of acts that happened in any interval of length window.
func (r result) maxReal() int { return maxInWindow(r.real, window) }

// possible returns the number of acts that the limit allows from the first act to the end. Duration is a whole number
// of windows, so no limiter that keeps the limit can do more.
func (r result) possible() int { return limit * int(r.duration/window) }

// capacity returns the share of the possible acts that happened, 0 to 1.
func (r result) capacity() float64 { return float64(len(r.booked)) / float64(r.possible()) }

// callsPerPermit returns the number of calls to Redis for each permit.
func (r result) callsPerPermit() float64 { return float64(r.calls) / float64(max(r.granted, 1)) }

// target returns the share of the capacity that one of our scripts must use with this margin; 0 for faulty limiters.
func (r result) target(margin time.Duration) float64 {
	attainable := float64(window) / float64(window+margin)
	switch r.kind {
	case books:
		return 0.99 * attainable
	case asks:
		return 0.90 * attainable
	}
	return 0
}

// minActs returns the lowest number of acts that keeps the promise, of those possible while the machine was running.
func (r result) minActs(margin time.Duration) int {
	share := 1 - min(1, float64(r.stalled)/float64(r.duration))
	return int(math.Ceil(r.target(margin)*float64(r.possible())*share)) - allowedLoss
}

// broken lists the promises that one of our scripts broke.
func (r result) broken(margin time.Duration) []string {
	if r.kind == faulty {
		return nil
	}
	var all []string
	if booked := r.maxBooked(); booked > limit {
		all = append(all, fmt.Sprintf("%s booked %d acts for one second, above %d", r.name, booked, limit))
	}
	if lowest := r.minActs(margin); len(r.booked) < lowest {
		all = append(all, fmt.Sprintf("%s did %d acts, below %d (%.0f %% of %d, less %d at the ends)",
			r.name, len(r.booked), lowest, 100*r.target(margin), r.possible(), allowedLoss))
	}
	if r.kind == books && r.calls != r.granted {
		all = append(all, fmt.Sprintf("%s made %d calls for %d permits", r.name, r.calls, r.granted))
	}
	return all
}

// maxInWindow returns the highest number of times, which ascend, in any half-open interval [t, t+length).
func maxInWindow(times []time.Duration, length time.Duration) int {
	highest, first := 0, 0
	for i, at := range times {
		for at-times[first] >= length {
			first++
		}
		highest = max(highest, i-first+1)
	}
	return highest
}
