package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
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
	makeWords: sliceRingWords, detail: sliceRingDetail, keys: ringKeys, makeReturn: sliceRingReturn,
}

func sliceRingWords(c core, key string, q question) []any {
	return c.ring.wordsOf(&sliceRingV1, key, "", q.permits, q.reported)
}

// sliceRingReturn finds the permits by the time of the decision, in the windows that it was made by.
func sliceRingReturn(_ core, _ string, d Decision, n int64) (*sluice.Script, []any) {
	windows := d.Windows
	if len(windows) == 0 {
		windows = []WindowState{{Key: d.Key}}
	}
	var grant ring
	for _, w := range windows {
		grant.windows = append(grant.windows, windowOf(w.Key))
	}
	return &sliceRingReturnV1, grant.wordsOf(&sliceRingReturnV1, windows[0].Key, "", d.Now.UnixMicro(), n)
}

// ring is the windows of a SliceRing, in the caller's order.
type ring struct {
	limits  []Limit
	windows []ringWindow // what the script is asked for
}

// ringWindow is one window of a ring: so many slices, of so many microseconds each, hold at most limit permits.
type ringWindow struct {
	slice, size, limit int64
	tail               string // of its key: ":<slice>x<size>"
}

// windowOf returns the window of a key, without a limit. A number that is none is 0, which the scripts refuse.
func windowOf(key string) (w ringWindow) {
	w.tail = key[len(withoutWindow(key)):]
	slice, size, _ := strings.Cut(strings.TrimPrefix(w.tail, ":"), "x")
	w.slice, _ = strconv.ParseInt(slice, 10, 64)
	w.size, _ = strconv.ParseInt(size, 10, 64)
	return w
}

// withoutWindow returns the part of a ring's key that is the same for all windows.
func withoutWindow(key string) string { return key[:max(strings.LastIndexByte(key, ':'), 0)] }

// ringKeys returns the keys of all windows. The first one is known.
func ringKeys(c core, key string) []string {
	keys := []string{key}
	for _, w := range c.ring.windows[1:] {
		keys = append(keys, withoutWindow(key)+w.tail)
	}
	return keys
}

// countsFor returns how long a permit counts, at most.
func (w ringWindow) countsFor() time.Duration {
	return time.Duration(w.slice*w.size) * time.Microsecond
}

// wordsOf makes the command of a script that takes the windows as its first keys and its last arguments. key is that of
// the first window, id what comes behind the last one, if anything.
func (r ring) wordsOf(script *sluice.Script, key, id string, args ...any) []any {
	words := make([]any, 0, firstKey+1+len(args)+4*len(r.windows))
	words = append(words, "evalsha", script.SHA1, 0, key)
	for _, w := range r.windows[1:] {
		words = append(words, withoutWindow(key)+w.tail)
	}
	if id != "" {
		words = append(words, id)
	}
	words[keyCountAt] = len(words) - firstKey
	words = append(words, args...)
	hasLimits := script.Args[len(script.Args)-1].Name == "limit_i"
	for _, w := range r.windows {
		words = append(words, w.slice, w.size)
		if hasLimits {
			words = append(words, w.limit)
		}
	}
	return words
}

// sliceRingDetail adds the state of the windows to a decision, from the counts in the reply.
func sliceRingDetail(c core, d Decision, keys []any, reply []int64) Decision {
	return c.describe(d, func(i int, state *WindowState) {
		w, count := c.ring.windows[i], reply[minReplyFields+i]
		if count > 0 { // what it counts has been granted by now
			now := d.Now.UnixMicro()
			state.ResetAfter = min(d.ResetAfter, time.Duration(now-now%w.slice+w.size*w.slice-now)*time.Microsecond)
		}
		state.Remaining = max(w.limit-count, 0)
		state.Key, _ = keys[i].(string)
	})
}

// describe adds the limit to a decision and, if there are several windows, the state of each, tightest first.
func (c core) describe(d Decision, setState func(i int, state *WindowState)) Decision {
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
		d.Windows[i] = WindowState{Limit: limit, CountsFor: c.ring.windows[i].countsFor()}
		setState(i, &d.Windows[i])
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

// indexIn returns which of some windows has the same slices, -1 if there is none.
func (w ringWindow) indexIn(windows []ringWindow) int {
	return slices.IndexFunc(windows, func(v ringWindow) bool { return v.slice == w.slice && v.size == w.size })
}

// tailFrom returns the tail of a window's key: that of the same one among some windows, if it is there.
func (w ringWindow) tailFrom(windows []ringWindow) string {
	if i := w.indexIn(windows); i >= 0 {
		return windows[i].tail
	}
	return ":" + strconv.FormatInt(w.slice, 10) + "x" + strconv.FormatInt(w.size, 10)
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
	covering := min(divideUp(limit.Window, slice), maxWindowSlices)
	return ringWindow{slice: slice.Microseconds(), size: covering + 1, limit: limit.Permits}, nil
}

// divideUp returns d / length, rounded up.
func divideUp(d, length time.Duration) int64 { return int64((d + length - 1) / length) }

// sliceOf returns the default length of a slice.
func sliceOf(window time.Duration) time.Duration {
	us := divideUp(window, slicesPerWindow*time.Microsecond)
	return min(max(time.Duration(us)*time.Microsecond, minSlice), maxSlice)
}
