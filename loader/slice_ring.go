package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// SliceRing limits with one to eight windows at once: "1000 a minute and 20000 an hour". A permit is granted by all
// windows or by none.
//
// It counts permits by slices of time, and takes 6 bytes a slice, however many permits there are. A slice is a 200th of
// its window by default, so that each window takes 1.3 KB. A window covers the current slice and as many before it as
// the window is long. So no interval of one window ever holds more than the limit, and a permit counts for up to a
// slice longer than the window: for up to 60.3 s in a minute. Limits go up to 10^9.
//
// Each window has a key of its own. A call counts only in the windows that it names, and a window that is new to a
// subject begins empty: it may then grant one limit more than if it had always been named. Limits with the same windows
// count in the same keys, so a plan that changes its numbers goes on with what was counted: see With.
//
// It cannot book: Wait sleeps and asks again, so it is not first come, first served. The zero SliceRing is not ready
// for use: see Loader.SliceRing.
type SliceRing struct{ core }

// The ranges of slice_ring.
const (
	slicesPerWindow = 200 // default
	maxWindowSlices = 999 // whole slices in a window; the current one is the 1000th
	minSlice        = time.Millisecond
	maxSlice        = 24 * time.Hour
)

// SliceRing returns the limiter of this name. Use it for several windows at once, and for limits in the millions. Call
// Check when the program starts. It takes one to eight limits, each with a window of its own of 1 ms to 999 days.
//
// By default a slice is a 200th of its window, 1 ms at least and 24 h at most. The option Slice sets one length for all
// windows. Programs share what a window has counted if its length and its slices are the same in both.
//
// Cost: nothing is sent.
func (l *Loader) SliceRing(name string, limits []Limit, opts ...LimiterOption) SliceRing {
	s := l.configure(&sliceRing, name, opts)
	return SliceRing{core{settings: s}.withWindows(limits)}
}

// With returns a copy with other limits. Use it if the limits depend on the customer or the plan. Give all plans the
// same windows: then another limit applies at once to what was granted before. A window that only the new plan has
// begins empty, so a change of plan may grant up to its limit again. Cost: nothing is sent; small allocations, fewest
// with the windows that the limiter has.
func (r SliceRing) With(limits ...Limit) SliceRing { return SliceRing{r.withWindows(limits)} }

// GiveBack gives back n of the permits that the decision about the subject granted, in all windows at once. Use it for
// permits that were certainly not used: to charge only what failed, say. It returns how many were given back.
//
// The windows are those that the decision was made by, also if this limiter has others by now. Their keys are Windows
// of the decision, or Key if there is only one: a program that stores decisions stores both. It gives back nothing in a
// window that has gone by, nor once 1000 slices have begun since, those of all windows taken together. A decision of an
// Ahead that did not ask Redis is an *ArgumentError. See Giving back in the package documentation. Cost: one round
// trip.
func (r SliceRing) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	return r.giveBack(ctx, subject, d, n)
}

// Report charges n permits, 0 to 10^9, whatever the windows hold: a cost that is known only when the work is done, say.
// The decision is about the state after it: Granted says that no window holds more than its limit, and otherwise Wait
// is the time until one permit comes free. There is nothing to give back: Permits is 0. A report of 0 only looks.
//
// A report is sent once. After an *OutcomeUnknownError it is not known whether it was counted: to send it again may
// count it twice. RememberDenials has no say. Cost: one round trip.
func (r SliceRing) Report(ctx context.Context, subject string, n int64) (Decision, error) {
	return r.report(ctx, subject, n)
}

var sliceRing = algorithm{
	name:   "SliceRing",
	script: &sliceRingV1, code: codeSliceRing, maxWindow: maxWindowSlices * maxSlice, capacity: smallestLimit,
	setArgs: setSliceRingArgs, maxPermits: maxArgument(&sliceRingV1, "permits"),
	detail: sliceRingDetail, keys: ringKeys, makeReturn: sliceRingReturn,
	over: func(c core, reply []int64) int64 { return c.ring.over(reply) },
}

// sliceRingReturn finds the permits by the time of the decision, in the windows that it was made by.
func sliceRingReturn(c core, _ string, d Decision, n int64) *wire.Call {
	windows := d.Windows
	if len(windows) == 0 {
		windows = []WindowState{{Key: d.Key}}
	}
	var grant ring
	for _, w := range windows {
		grant.windows = append(grant.windows, windowOf(w.Key))
	}
	call := c.call(&sliceRingReturnV1, windows[0].Key)
	grant.setArgs(call, "", d.Now.UnixMicro(), n)
	return call
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
	if limits, c.limitErr = c.enforcedLimits(limits); c.limitErr != nil {
		return c
	}
	before := c.ring.windows
	c.ring = ring{slices.Clone(limits), make([]ringWindow, len(limits))}
	for i, limit := range limits {
		w, err := c.window(limit)
		if err != nil {
			c.limitErr = err
			return c
		}
		if other := w.indexIn(c.ring.windows[:i]); other >= 0 && limit.Permits > 0 {
			c.limitErr = &ArgumentError{
				Limiter: c.name, Argument: "limits", Value: limit.Window.String(), Want: "each window once",
				text: fmt.Sprintf("one window twice: %v and %v are %d slices of %v", limits[other].Window, limit.Window,
					w.size, time.Duration(w.slice)*time.Microsecond),
			}
			return c
		}
		w.tail = w.tailFrom(before)
		c.ring.windows[i] = w
	}
	return c
}

// window returns how a limit is counted: by the slices that cover its window, and one more, because the current slice
// is never a whole one.
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
	size := min(divideUp(limit.Window, slice), maxWindowSlices) + 1
	return ringWindow{
		slice: slice.Microseconds(), size: size, limit: limit.Permits, counts: time.Duration(size) * slice,
	}, nil
}

// sliceOf returns the default length of a slice.
func sliceOf(window time.Duration) time.Duration {
	us := divideUp(window, slicesPerWindow*time.Microsecond)
	return min(max(time.Duration(us)*time.Microsecond, minSlice), maxSlice)
}

// Slice sets the length of the slices of a SliceRing or a Budget, for all windows: 1 ms to 24 h, in whole microseconds.
// It must not be longer than the shortest window, nor shorter than a 999th of the longest. See Loader.SliceRing for the
// default.
func Slice(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.once("Slice")
		if s.algorithm.code != codeSliceRing { // a Budget has slices too
			s.requireAlgorithm("Slice", &sliceRing)
		}
		s.slice = d
		if d < minSlice || d > maxSlice || d%time.Microsecond != 0 {
			s.setErr(s.errArgument("Slice", d, "1ms to 24h, in whole microseconds"))
		}
	}
}

// enforcedLimits returns the limits that Redis enforces.
func (s *settings) enforcedLimits(limits []Limit) ([]Limit, error) {
	if s.enforced == nil {
		return limits, nil
	}
	return s.enforced(limits)
}
