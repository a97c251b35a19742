package loader

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// ring is the windows of a SliceRing, in the caller's order.
type ring struct {
	limits  []Limit
	windows []ringWindow // what the script is asked for
}

// ringWindow is one window of a ring: so many slices, of so many microseconds each, hold at most limit permits.
type ringWindow struct {
	slice, size, limit int64
	counts             time.Duration // how long a permit counts, at most
	tail               string        // of its key: ":<slice>x<size>"
}

func setSliceRingArgs(c core, call *wire.Call, q question) {
	c.ring.setArgs(call, "", q.permits, q.reported)
}

// setArgs sets the keys and arguments of a call whose script takes the windows as its first keys and its last
// arguments. id is the key behind the last window's, if there is one.
func (r ring) setArgs(call *wire.Call, id string, args ...any) {
	for _, w := range r.windows[1:] {
		call.Keys = append(call.Keys, withoutWindow(call.Key)+w.tail)
	}
	if id != "" {
		call.Keys = append(call.Keys, id)
	}
	call.Args = append(call.Args, args...)
	hasLimits := call.Script.Args[len(call.Script.Args)-1].Name == "limit_i"
	for _, w := range r.windows {
		call.Args = append(call.Args, w.slice, w.size)
		if hasLimits {
			call.Args = append(call.Args, w.limit)
		}
	}
}

// sliceRingDetail adds the state of the windows to a decision, from the counts in the reply.
func sliceRingDetail(c core, d Decision, call *wire.Call, reply []int64) Decision {
	return c.describe(d, func(i int, state *WindowState) {
		w, count := c.ring.windows[i], reply[minReplyFields+i]
		if count > 0 { // what it counts has been granted by now
			now := d.Now.UnixMicro()
			state.ResetAfter = min(d.ResetAfter, time.Duration(now-now%w.slice+w.size*w.slice-now)*time.Microsecond)
		}
		state.Remaining = max(w.limit-count, 0)
		state.Key = call.Key
		if i > 0 {
			state.Key = call.Keys[i-1]
		}
	})
}

// ringKeys returns the keys of all windows. The first one is known.
func ringKeys(c core, key string) []string {
	keys := []string{key}
	for _, w := range c.ring.windows[1:] {
		keys = append(keys, withoutWindow(key)+w.tail)
	}
	return keys
}

// smallestLimit is the capacity of a SliceRing.
func smallestLimit(c core) int64 {
	smallest := c.ring.windows[0].limit
	for _, w := range c.ring.windows[1:] {
		smallest = min(smallest, w.limit)
	}
	return smallest
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

// describe adds the limit to a decision and, if there are several windows, the state of each, tightest first.
func (c core) describe(d Decision, setState func(i int, state *WindowState)) Decision {
	d.Limit = c.limit
	switch len(c.ring.limits) {
	case 0:
		return d
	case 1:
		d.Limit, d.CountsFor = c.ring.limits[0], c.ring.windows[0].counts
		return d
	}
	d.Windows = make([]WindowState, len(c.ring.limits))
	for i, limit := range c.ring.limits {
		d.Windows[i] = WindowState{Limit: limit, CountsFor: c.ring.windows[i].counts}
		setState(i, &d.Windows[i])
	}
	slices.SortStableFunc(d.Windows, func(a, b WindowState) int {
		return cmp.Or(cmp.Compare(a.Remaining, b.Remaining), cmp.Compare(b.ResetAfter, a.ResetAfter))
	})
	d.Limit, d.CountsFor = d.Windows[0].Limit, d.Windows[0].CountsFor
	return d
}

// over returns by how much the fullest window is above its limit.
func (r ring) over(reply []int64) (permits int64) {
	for i, w := range r.windows {
		permits = max(permits, reply[minReplyFields+i]-w.limit)
	}
	return permits
}

// divideUp returns d / length, rounded up.
func divideUp(d, length time.Duration) int64 { return int64((d + length - 1) / length) }
