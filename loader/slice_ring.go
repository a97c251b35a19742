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

// SliceRing limits with one to eight windows at once: "1000 a minute and 20000 an hour". A permit is granted by all
// windows or by none.
//
// It counts permits by slices of time, and takes 7 bytes a slice, however many permits there are. Each window has slices
// of its own: a 200th of it by default, so that a minute takes 1.7 KB, and a minute beside a day twice as much. A window
// covers the current slice and as many before it as the window is long. So no interval of one window ever holds more
// than the limit, and a permit counts for up to a slice longer than the window: for up to 60.3 s in a minute. Limits go
// up to 10^9.
//
// It cannot book: Wait sleeps and asks again, so it is not first come, first served. The zero SliceRing is not ready
// for use: see Loader.SliceRing.
type SliceRing struct{ core }

// The ranges of slice_ring.
const (
	slicesPerWindow = 200  // default
	maxWindowSlices = 9999 // whole slices in a window; the current one is the 10000th, and all windows have no more
	minSlice        = time.Millisecond
	maxSlice        = 24 * time.Hour
)

// SliceRing returns the limiter of this name. Use it for several windows at once, and for limits in the millions. Call
// Check when the program starts. It takes one to eight limits, with windows of 1 ms to 9999 days.
//
// By default a slice is a 200th of its window, and 1 ms at least. The option Slice sets one length for all windows.
// Programs that share a limiter share what each window has counted if its length and its slices are the same. A window
// that is new to a subject begins with what the others have counted in its time, as if that had been granted at the
// last grant: nothing beyond the limit, and less than the limit for up to a window. One that is not asked for any more
// goes on counting while the subject is in use.
//
// Cost: nothing is sent.
func (l *Loader) SliceRing(name string, limits []Limit, opts ...LimiterOption) SliceRing {
	s := l.configure(&sliceRing, name, opts)
	return SliceRing{core{settings: s}.withWindows(limits)}
}

// With returns a copy with other windows. Use it if the limits depend on the customer or the plan. Another limit of a
// window applies at once to what was granted before. Of a window with another length, see Loader.SliceRing. Cost:
// nothing is sent; one small allocation.
func (r SliceRing) With(limits ...Limit) SliceRing { return SliceRing{r.withWindows(limits)} }

// GiveBack gives back n of the permits that the decision about the subject granted, in all windows at once. Use it for
// permits that were certainly not used: to charge only what failed, say. It returns how many were given back.
//
// It gives back nothing in a window in which more than 1000 slices have begun since, those of all windows taken
// together. A decision of an Ahead that did not ask Redis is an *ArgumentError. See Giving back in the package
// documentation. Cost: one round trip.
func (r SliceRing) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	return r.giveBack(ctx, subject, d, n)
}

// Report charges n permits, 0 to 10^9, whatever the windows hold: a cost that is known only when the work is done, say.
// The decision is about the state after it: Granted says that no window holds more than its limit, and otherwise Wait is
// the time until one permit comes free. There is nothing to give back: Permits is 0. A report of 0 only looks.
//
// A report is sent once. After an *OutcomeUnknownError it is not known whether it was counted: to send it again may count
// it twice. RememberDenials has no say. Cost: one round trip.
func (r SliceRing) Report(ctx context.Context, subject string, n int64) (Decision, error) {
	return r.decide(ctx, subject, question{method: report, reported: n})
}

// over returns by how much the fullest window is above its limit.
func (r ring) over(reply []int64) (permits int64) {
	for i, w := range r.windows {
		permits = max(permits, reply[minReplyFields+i]-w.limit)
	}
	return permits
}

var sliceRing = algorithm{
	name:   "SliceRing",
	script: &sliceRingV1, code: codeSliceRing, capacity: smallestLimit,
	makeWords: sliceRingWords, detail: sliceRingDetail, keys: onlyKey, makeReturn: sliceRingReturn,
}

func sliceRingWords(c core, key string, q question) []any {
	if script := c.scriptFor(q); script == &sliceRingReportV1 {
		return c.ring.wordsOf(script, 1, key, q.permits, q.reported)
	}
	return c.ring.wordsOf(&sliceRingV1, 1, key, q.permits)
}

// sliceRingReturn finds the permits by the time of the decision.
func sliceRingReturn(_ core, key string, d Decision, n int64) (*sluice.Script, []any) {
	script := &sliceRingReturnV1
	return script, wordsOf(script, 1, key, d.Now.UnixMicro(), n)
}

// ring is the windows of a SliceRing, in the caller's order.
type ring struct {
	limits  []Limit
	windows []ringWindow // what the script is asked for
}

// ringWindow is one window of a ring: so many slices, of so many microseconds each, hold at most limit permits.
type ringWindow struct{ slice, size, limit int64 }

// countsFor returns how long a permit counts, at most.
func (w ringWindow) countsFor() time.Duration {
	return time.Duration(w.slice*w.size) * time.Microsecond
}

// wordsOf makes the command of a script that takes the windows as its last arguments.
func (r ring) wordsOf(script *sluice.Script, keys int, keysAndArgs ...any) []any {
	words := make([]any, 0, firstKey+len(keysAndArgs)+3*len(r.windows))
	words = append(append(words, "evalsha", script.SHA1, keys), keysAndArgs...)
	for _, w := range r.windows {
		words = append(words, w.slice, w.size, w.limit)
	}
	return words
}

// sliceRingDetail adds the state of the windows to a decision, from the counts in the reply.
func sliceRingDetail(c core, d Decision, reply []int64) Decision {
	return c.describe(d, func(i int) (remaining int64, resetAfter time.Duration) {
		w, count := c.ring.windows[i], reply[minReplyFields+i]
		if count > 0 { // what it counts has been granted by now
			now := d.Now.UnixMicro()
			resetAfter = min(d.ResetAfter, time.Duration(now-now%w.slice+w.size*w.slice-now)*time.Microsecond)
		}
		return max(w.limit-count, 0), resetAfter
	})
}

// describe adds the limit to a decision and, if there are several windows, the state of each, tightest first.
func (c core) describe(d Decision, state func(i int) (remaining int64, resetAfter time.Duration)) Decision {
	d.Limit = c.limit
	switch len(c.ring.limits) {
	case 0:
		return d
	case 1:
		d.Limit, d.CountsFor = c.ring.limits[0], c.ring.windows[0].countsFor()
		return d
	}
	d.Windows = make([]WindowState, len(c.ring.limits))
	for i, limit := range c.ring.limits {
		remaining, resetAfter := state(i)
		d.Windows[i] = WindowState{limit, remaining, resetAfter, c.ring.windows[i].countsFor()}
	}
	slices.SortStableFunc(d.Windows, func(a, b WindowState) int {
		return cmp.Or(cmp.Compare(a.Remaining, b.Remaining), cmp.Compare(b.ResetAfter, a.ResetAfter))
	})
	d.Limit, d.CountsFor = d.Windows[0].Limit, d.Windows[0].CountsFor
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

// withWindows returns the ring with these windows.
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
	if limits, c.limitErr = c.strictLimits(limits); c.limitErr != nil {
		return c
	}
	c.ring = ring{slices.Clone(limits), make([]ringWindow, len(limits))}
	cells := int64(0)
	for i, limit := range limits {
		if c.ring.windows[i], c.limitErr = c.window(limit); c.limitErr != nil {
			return c
		}
		cells += c.ring.windows[i].size
	}
	if cells > maxWindowSlices+1 {
		c.limitErr = c.errArgument("Slice", c.slice, fmt.Sprintf("up to %d slices in all windows", maxWindowSlices+1))
	}
	return c
}

// window returns how a limit is counted: by the slices that cover its window, and one more, because the current slice is
// never a whole one.
func (s *settings) window(limit Limit) (w ringWindow, err error) {
	if err := s.checkLimit(limit); err != nil {
		return w, err
	}
	slice := cmp.Or(s.slice, sliceOf(limit.Window))
	switch longest := maxWindowSlices * slice; {
	case limit.Permits == 0:
	case limit.Window < slice:
		return w, s.errArgument("window", limit.Window, "a slice, "+slice.String()+", or more")
	case limit.Window > longest:
		want := fmt.Sprintf("up to %v: %d slices of %v", longest, maxWindowSlices, slice)
		if s.slice > 0 && s.slice < maxSlice {
			want += "; more takes longer slices"
		}
		return w, s.errArgument("window", limit.Window, want)
	}
	covering := min(divideUp(limit.Window, slice), maxWindowSlices)
	return ringWindow{slice.Microseconds(), covering + 1, limit.Permits}, nil
}

// divideUp returns d / length, rounded up.
func divideUp(d, length time.Duration) int64 { return int64((d + length - 1) / length) }

// sliceOf returns the default length of a slice.
func sliceOf(window time.Duration) time.Duration {
	us := divideUp(window, slicesPerWindow*time.Microsecond)
	return min(max(time.Duration(us)*time.Microsecond, minSlice), maxSlice)
}
