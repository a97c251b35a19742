package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Result is the audited result of one limiter. Acts booked for Duration or more after the first act are left out.
type Result struct {
	Way
	Duration time.Duration   // from the first act of this limiter
	Booked   []time.Duration // times booked, from the first act, by the server's clock, ascending
	Real     []time.Duration // times at which they happened, from the first act, by our clock, ascending
	Granted  int             // permits granted, also for times after the end
	Calls    int             // calls to Redis

	LongestWait time.Duration // of a worker for one permit, also if the run ended first
	Stalled     time.Duration // total time in which the machine stopped for 100 ms or more
}

// allowedLoss is the number of permits that a script may miss at the start and end.
const allowedLoss = 2

// MaxBooked returns the highest number of acts booked for any interval of length Window.
func (r Result) MaxBooked() int { return MaxInWindow(r.Booked, Window) }

// MaxReal returns the highest number of acts that happened in any interval of length Window.
func (r Result) MaxReal() int { return MaxInWindow(r.Real, Window) }

// Possible returns the number of acts that the limit allows from the first act to the end. Duration is a whole number
// of windows, so no limiter that keeps the limit can do more.
func (r Result) Possible() int { return Limit * int(r.Duration/Window) }

// Capacity returns the share of the possible acts that happened, 0 to 1.
func (r Result) Capacity() float64 { return float64(len(r.Booked)) / float64(r.Possible()) }

// CallsPerPermit returns the number of calls to Redis for each permit.
func (r Result) CallsPerPermit() float64 { return float64(r.Calls) / float64(max(r.Granted, 1)) }

// Target returns the share of the capacity that one of our scripts must use with this margin; 0 for faulty limiters.
func (r Result) Target(margin time.Duration) float64 {
	attainable := float64(Window) / float64(Window+margin)
	switch r.Kind {
	case Booking:
		return 0.99 * attainable
	case Asking:
		return 0.90 * attainable
	}
	return 0
}

// minActs returns the lowest number of acts that keeps the promise, of those possible while the machine was running.
func (r Result) minActs(margin time.Duration) int {
	share := 1 - min(1, float64(r.Stalled)/float64(r.Duration))
	return int(math.Ceil(r.Target(margin)*float64(r.Possible())*share)) - allowedLoss
}

// Broken lists the promises that one of our scripts broke.
func (r Result) Broken(margin time.Duration) []string {
	if r.Kind == Faulty {
		return nil
	}
	var broken []string
	if booked := r.MaxBooked(); booked > Limit {
		broken = append(broken, fmt.Sprintf("%s booked %d acts for one second, above %d", r.Name, booked, Limit))
	}
	if lowest := r.minActs(margin); len(r.Booked) < lowest {
		broken = append(broken, fmt.Sprintf("%s did %d acts, below %d (%.0f %% of %d, less %d at the ends)",
			r.Name, len(r.Booked), lowest, 100*r.Target(margin), r.Possible(), allowedLoss))
	}
	if r.Kind == Booking && r.Calls != r.Granted {
		broken = append(broken, fmt.Sprintf("%s made %d calls for %d permits", r.Name, r.Calls, r.Granted))
	}
	return broken
}

// MaxInWindow returns the highest number of times, in any order, in any half-open interval [t, t+window).
func MaxInWindow(times []time.Duration, window time.Duration) int {
	highest := 0
	for _, n := range CountsInWindow(times, window) {
		highest = max(highest, n)
	}
	return highest
}

// CountsInWindow returns for each time t, in ascending order, the number of times in (t-window, t]. The highest of
// these is the highest of any window.
func CountsInWindow(times []time.Duration, window time.Duration) []int {
	sorted := slices.Sorted(slices.Values(times))
	counts := make([]int, len(sorted))
	first := 0
	for i, at := range sorted {
		for at-sorted[first] >= window {
			first++
		}
		counts[i] = i - first + 1
	}
	return counts
}
