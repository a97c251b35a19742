package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-redis/sluice"
)

// SliceRing limits with one to eight windows at once: "1000 a minute and 10000 an hour". A permit is granted by all
// windows or by none.
//
// It counts permits by slices of time, and takes at most 8 bytes a slice, however many permits there are. A window
// covers the current slice and as many before it as the window is long. So no interval of one window ever holds more
// than the limit, and the limit is enforced as if the window were longer by up to two slices. Limits go up to 10^9.
//
// All windows have the same slices, of at least 1/9999 of the longest window. Beside a day a slice is 8.6 s long: then
// a minute is enforced as 69 s, and gets 13 % less than its rate, and a subject takes up to 80 KB. Beside an hour the
// slices are as short as for a minute alone.
//
// It cannot book: Wait sleeps and asks again, so it is not first come, first served. The zero SliceRing is not ready
// for use: see Loader.SliceRing.
type SliceRing struct{ core }

// The ranges of slice_ring.
const (
	slicesPerWindow = 60   // default, for the shortest window
	maxWindowSlices = 9999 // whole slices in the longest window; the current one is the 10000th
	minSlice        = time.Millisecond
	maxSlice        = 24 * time.Hour
)

// SliceRing returns the limiter of this name. Use it for several windows at once, and for limits in the millions. Call
// Check when the program starts. It takes one to eight limits, with windows of 1 ms to 9999 days, the longest up to
// 9999 times the shortest.
//
// By default a slice is a sixtieth of the shortest window, and a day at most. It is longer if the longest window would
// otherwise have more than 9999 slices. The option Slice sets another length. The length is a part of the key: programs
// that share a limiter need the same shortest and longest window, or the same Slice.
//
// Cost: nothing is sent.
func (l *Loader) SliceRing(name string, limits []Limit, opts ...LimiterOption) SliceRing {
	s := l.configure(&sliceRing, name, opts)
	s.setSlice(limits)
	s.tail += s.leasePart()
	return SliceRing{core{settings: s}.withWindows(limits)}
}

// setSlice sets the length of the slices, unless the option Slice did, and adds it to the key.
func (s *settings) setSlice(limits []Limit) {
	if s.slice == 0 {
		s.slice = sliceFor(limits, s.leaseAge)
	}
	s.tail += ":" + strconv.FormatInt(s.slice.Microseconds(), 10)
}

// With returns a copy with other windows on the same slices. Use it if the limits depend on the customer or the plan.
// The new windows apply at once to what was granted before; a longer window than before counts from what the ring still
// holds. Cost: nothing is sent; one small allocation.
func (r SliceRing) With(limits ...Limit) SliceRing { return SliceRing{r.withWindows(limits)} }

// GiveBack gives back n of the permits that the decision about the subject granted, in all windows at once. Use it for
// permits that were certainly not used: to charge only what failed, say. It returns how many were given back.
//
// It gives back nothing if more than 1000 slices have begun since. A decision of a limiter with other slices, and of a
// Leased that did not ask Redis, is an *ArgumentError. See Giving back in the package documentation. Cost: one round
// trip.
func (r SliceRing) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	return r.giveBack(ctx, subject, d, n)
}

var sliceRing = algorithm{
	name:   "SliceRing",
	script: &sliceRingV1, code: codeSliceRing, capacity: smallestLimit,
	makeWords: sliceRingWords, detail: sliceRingDetail, keys: onlyKey, makeReturn: sliceRingReturn,
}

func sliceRingWords(c core, key string, q question) []any {
	return c.ring.wordsOf(&sliceRingV1, 1, key, c.slice.Microseconds(), q.permits)
}

// sliceRingReturn finds the permits by the time of the decision.
func sliceRingReturn(c core, key string, d Decision, n int64) (*sluice.Script, []any) {
	script := &sliceRingReturnV1
	return script, wordsOf(script, 1, key, c.slice.Microseconds(), d.Now.UnixMicro(), n)
}

// ring is the windows of a SliceRing, in the caller's order.
type ring struct {
	limits  []Limit
	windows []ringWindow // what the script is asked for
}

// ringWindow is one window of a ring: so many slices hold at most limit permits.
type ringWindow struct{ slices, limit int64 }

// wordsOf makes the command of a script that takes the windows as its last arguments.
func (r ring) wordsOf(script *sluice.Script, keys int, keysAndArgs ...any) []any {
	words := make([]any, 0, firstKey+len(keysAndArgs)+2*len(r.windows))
	words = append(append(words, "evalsha", script.SHA1, keys), keysAndArgs...)
	for _, w := range r.windows {
		words = append(words, w.slices, w.limit)
	}
	return words
}

// sliceRingDetail adds the state of the windows to a decision, from the counts in the reply.
func sliceRingDetail(c core, d Decision, reply []int64) Decision {
	longest := widest(c.ring.windows)
	return c.describe(d, func(i int) (remaining int64, resetAfter time.Duration) {
		w, count := c.ring.windows[i], reply[minReplyFields+i]
		if count > 0 { // the widest window is the last to be empty, by the slices that it has more
			resetAfter = max(d.ResetAfter-time.Duration(longest-w.slices)*c.slice, 0)
		}
		return max(w.limit-count, 0), resetAfter
	})
}

// widest returns the slices of the widest window.
func widest(windows []ringWindow) (slices int64) {
	for _, w := range windows {
		slices = max(slices, w.slices)
	}
	return slices
}

// describe adds the limit to a decision and, if there are several windows, the state of each, tightest first.
func (c core) describe(d Decision, state func(i int) (remaining int64, resetAfter time.Duration)) Decision {
	d.Limit = c.limit
	switch len(c.ring.limits) {
	case 0:
		return d
	case 1:
		d.Limit = c.ring.limits[0]
		return d
	}
	d.Windows = make([]WindowState, len(c.ring.limits))
	for i, limit := range c.ring.limits {
		remaining, resetAfter := state(i)
		d.Windows[i] = WindowState{Limit: limit, Remaining: remaining, ResetAfter: resetAfter}
	}
	slices.SortStableFunc(d.Windows, func(a, b WindowState) int {
		return cmp.Or(cmp.Compare(a.Remaining, b.Remaining), cmp.Compare(b.ResetAfter, a.ResetAfter))
	})
	d.Limit = d.Windows[0].Limit
	return d
}

// smallestLimit is the capacity of a SliceRing.
func smallestLimit(c core) int64 {
	smallest := c.ring.windows[0].limit
	for _, w := range c.ring.windows[1:] {
		smallest = min(smallest, w.limit)
	}
	return smallest
}

// withWindows returns the ring with these windows. Each counts the slices that cover it and the LeaseAge, and one more,
// because the current slice is never a whole one.
func (c core) withWindows(limits []Limit) core {
	if c.settings == nil || c.err != nil {
		return c
	}
	if len(limits) < 1 || len(limits) > 8 {
		c.limitErr = &ArgumentError{
			Limiter: c.name, Argument: "limits", Value: strconv.Itoa(len(limits)), Want: "1 to 8",
			text: fmt.Sprintf("%d limits: want 1 to 8", len(limits)),
		}
		return c
	}
	c.ring = ring{slices.Clone(limits), make([]ringWindow, len(limits))}
	for i, limit := range limits {
		if c.limitErr = c.checkSlices(limit, shortestOf(limits)); c.limitErr != nil {
			return c
		}
		covering := divideUp(limit.Window+c.leaseAge, c.slice)
		c.ring.windows[i] = ringWindow{covering + 1, limit.Permits}
	}
	return c
}

// checkSlices returns what is wrong with one limit of a ring, beside the shortest window of all.
func (s *settings) checkSlices(limit Limit, shortest time.Duration) error {
	if err := s.checkLimit(limit); err != nil {
		return err
	}
	switch longest := maxWindowSlices*s.slice - s.leaseAge; {
	case limit.Permits == 0:
		return nil
	case limit.Window < s.slice:
		return s.errArgument("window", limit.Window, "a slice, "+s.slice.String()+", or more")
	case limit.Window > longest:
		want := fmt.Sprintf("up to %v: %d slices of %v", longest, maxWindowSlices, s.slice)
		if s.leaseAge > 0 {
			want += " less LeaseAge"
		}
		switch {
		case s.slice < min(maxSlice, shortest):
			want += "; more takes longer slices"
		case s.slice < maxSlice:
			want += "; a slice is no longer than the shortest window"
		}
		return s.errArgument("window", limit.Window, want)
	}
	return nil
}

// divideUp returns d / length, rounded up.
func divideUp(d, length time.Duration) int64 { return int64((d + length - 1) / length) }

// shortestOf returns the shortest window. Limits of 0 permits may have no window, and do not count.
func shortestOf(limits []Limit) time.Duration {
	shortest := Never
	for _, limit := range limits {
		if limit.Window > 0 {
			shortest = min(shortest, limit.Window)
		}
	}
	return shortest
}

// sliceFor returns the default length of a slice. It is never longer than the shortest window.
func sliceFor(limits []Limit, leaseAge time.Duration) time.Duration {
	shortest, longest := shortestOf(limits), time.Duration(0)
	for _, limit := range limits {
		longest = max(longest, limit.Window)
	}
	if longest == 0 {
		return minSlice
	}
	slice := max(shortest/slicesPerWindow, time.Duration(divideUp(longest+leaseAge, maxWindowSlices)))
	slice = time.Duration(divideUp(slice, time.Microsecond)) * time.Microsecond
	return max(min(slice, shortest.Truncate(time.Microsecond), maxSlice), minSlice)
}
