package experiment

import (
	"fmt"
	"math"
	"time"
)

// Result is what one way has come to, audited. What was booked for Duration or later after the first
// act is left out of it.
type Result struct {
	Way
	Duration time.Duration   // counted from the first act of this way
	Booked   []time.Duration // when acts were booked for since the first one, by the server's clock, ascending
	Real     []time.Duration // when they happened since the first one, by our clock, ascending
	Granted  int             // permits granted, those for moments past the end too
	Calls    int             // calls to Redis that this took

	LongestWait time.Duration // of a worker for one permit, with those that did not come before the end
	Stalled     time.Duration // how long the machine stood still meanwhile, in stalls of 100 ms and more
}

// lostAtTheEnds is how many permits a way may miss before its share of the capacity counts against it.
const lostAtTheEnds = 2

// MostBooked is the largest number of acts that were booked for any interval of length Window.
func (r Result) MostBooked() int { return Most(r.Booked, Window) }

// MostReal is the largest number of acts that happened in any interval of length Window.
func (r Result) MostReal() int { return Most(r.Real, Window) }

// Possible is the number of acts that the limit allows from the first act to the end. Duration being a
// whole number of windows, no way that keeps the limit can do more.
func (r Result) Possible() int { return Limit * int(r.Duration/Window) }

// Capacity is the share of the possible acts that were done.
func (r Result) Capacity() float64 { return float64(len(r.Booked)) / float64(r.Possible()) }

// CallsPerPermit is what a permit cost in calls to Redis.
func (r Result) CallsPerPermit() float64 { return float64(r.Calls) / float64(max(r.Granted, 1)) }

// Target is the share of the capacity that a script of ours must use, when its window is longer than
// Window by a margin; 0 for a faulty way, of which nothing is expected.
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

// least is the least number of acts that keeps the promise: the target's share of what was possible while
// the machine went on, less what may be lost at the ends.
func (r Result) least(margin time.Duration) int {
	share := 1 - min(1, float64(r.Stalled)/float64(r.Duration))
	return int(math.Ceil(r.Target(margin)*float64(r.Possible())*share)) - lostAtTheEnds
}

// Broken lists the promises that a script of ours has not kept.
func (r Result) Broken(margin time.Duration) []string {
	if r.Kind == Faulty {
		return nil
	}
	var broken []string
	if most := r.MostBooked(); most > Limit {
		broken = append(broken, fmt.Sprintf("%s booked %d acts for one second, above %d", r.Name, most, Limit))
	}
	if least := r.least(margin); len(r.Booked) < least {
		broken = append(broken, fmt.Sprintf("%s did %d acts, below %d (%.0f %% of %d, less %d at the ends)",
			r.Name, len(r.Booked), least, 100*r.Target(margin), r.Possible(), lostAtTheEnds))
	}
	if r.Kind == Booking && r.Calls != r.Granted {
		broken = append(broken, fmt.Sprintf("%s made %d calls for %d permits", r.Name, r.Calls, r.Granted))
	}
	return broken
}
