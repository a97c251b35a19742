package model

import (
	"fmt"
	"strings"
)

// sliceRing is slice_ring_v1: permits counted by slice of time.
func sliceRing(c call) Outcome {
	windows := windowsOf(c.args)
	slice, permits := c.args.number["slice"], c.args.number["permits"]
	widest := int64(0)
	for _, w := range windows {
		widest = max(widest, w.slices)
		if permits > w.limit {
			return c.fails("BADARG permits: want up to every limit")
		}
	}
	stored, ok := c.holds(c.keys[0], "string")
	if !ok {
		return c.fails(wrongType)
	}
	outcome := Outcome{After: c.store}
	r := ring{slice: slice, size: widest, last: c.now / slice, fresh: true}
	if stored.Type != "" {
		before, bad := ringOf(stored.Text, slice)
		switch {
		case bad != "":
			return c.fails(bad)
		case before.leftOrVoid(c.now, widest):
		case !before.sound():
			return Outcome{Or: "BADSTATE ring: want a total for each slice", Any: true, After: c.store}
		default:
			r = before
		}
	}

	current := max(r.last, c.now/slice) // while the clock is behind, permits count in the last slice
	moves := int64(0)
	for !r.room(windows, current+moves, max(permits, 1)) {
		moves++
	}
	granted := int64(0)
	if permits > 0 && moves == 0 {
		granted = permits
		after := r.grown(widest).add(current, permits)
		outcome.After = c.store.With(c.keys[0], after.value(r, stored))
		r = after
	}
	outcome.Reply = r.reply(windows, c.now, current, moves, granted)
	return outcome
}

// ringWindow is one of the windows of a call.
type ringWindow struct{ slices, limit int64 }

func windowsOf(args arguments) (windows []ringWindow) {
	for i := 1; i <= args.groups; i++ {
		windows = append(windows, ringWindow{args.number[fmt.Sprintf("slices_%d", i)], args.number[fmt.Sprintf("limit_%d", i)]})
	}
	return windows
}

// ring is what a ring says: how many permits were granted in each of the size slices up to the last.
type ring struct {
	slice, size, last, total int64
	granted                  map[int64]int64 // by the number of the slice
	fresh                    bool            // nothing is stored, or nothing that counts
	bytes                    string          // as stored
}

const (
	ringHeader = 24
	ringWrap   = 1 << 48
)

// ringOf reads the header.
func ringOf(bytes string, slice int64) (r ring, bad string) {
	if len(bytes) < ringHeader || bigEndian(bytes) != slice {
		return r, "BADSTATE ring: want the slice it was written with"
	}
	r = ring{slice: slice, size: bigEndian(bytes[6:]), last: bigEndian(bytes[12:]), total: bigEndian(bytes[18:]), bytes: bytes}
	if r.size < 1 || r.size > 10000 {
		return r, "BADSTATE ring: want 1..10000 slices"
	}
	return r, ""
}

func bigEndian(bytes string) (n int64) {
	for i := range 6 {
		n = n<<8 | int64(bytes[i])
	}
	return n
}

// leftOrVoid reports whether nothing of the ring counts: all its slices have left it, or a clock that was
// far ahead left it behind.
func (r ring) leftOrVoid(now, widest int64) bool {
	mostAhead := max(r.size, widest)*r.slice + 60_000_000
	return now/r.slice-r.last >= r.size || r.last > (now+mostAhead)/r.slice
}

// sound reads the permits of each slice, and reports whether they are such as a script has written: none was
// granted before the ring's oldest slice and taken back later.
func (r *ring) sound() bool {
	if int64(len(r.bytes)) < ringHeader+6*r.size {
		return false
	}
	r.granted = map[int64]int64{}
	all, next := int64(0), r.total
	for s := r.last; s > r.last-r.size; s-- {
		before := bigEndian(r.bytes[ringHeader+6*index(s, r.size):])
		if n := difference48(next, before); n > 0 {
			r.granted[s] = n
			all += n
		}
		next = before
	}
	return all < ringWrap
}

// difference48 is between two totals, which wrap at 2^48.
func difference48(later, earlier int64) int64 { return (later - earlier + ringWrap) % ringWrap }

// index is where in the ring a slice has its total.
func index(s, size int64) int64 { return ((s % size) + size) % size }

// count is what a window that ends with a slice holds.
func (r ring) count(w ringWindow, slice int64) (n int64) {
	for s, granted := range r.granted {
		if s > slice-w.slices && s <= slice {
			n += granted
		}
	}
	return n
}

// room reports whether so many permits fit into every window that ends with a slice.
func (r ring) room(windows []ringWindow, slice, permits int64) bool {
	for _, w := range windows {
		if r.count(w, slice)+permits > w.limit {
			return false
		}
	}
	return true
}

// grown is the ring with at least so many slices, of which the added ones are older and hold nothing.
func (r ring) grown(slices int64) ring {
	r.size = max(r.size, slices)
	return r
}

// add is the ring after a grant in a slice.
func (r ring) add(slice, permits int64) ring {
	granted := map[int64]int64{slice: permits}
	for s, n := range r.granted {
		if s > slice-r.size {
			granted[s] += n
		}
	}
	r.granted, r.last, r.total, r.fresh = granted, slice, (r.total+permits)%ringWrap, false
	return r
}

// value is what the ring is stored as. It expires when the last slice has left it, which another grant in that
// slice does not change.
func (r ring) value(before ring, stored Value) Value {
	value := Value{Type: "string", Text: r.encoded(), Expires: milliseconds((r.last + r.size) * r.slice)}
	if before.fresh || before.size != r.size {
		return value
	}
	if before.last == r.last {
		value.Expires = stored.Expires
	}
	value.Text += stored.Text[len(value.Text):] // what stands behind a ring is left alone
	return value
}

// encoded are the bytes: slice, size, last slice and total; then for each slice the total before it.
func (r ring) encoded() string {
	totals := make([]string, r.size)
	total := r.total
	for s := r.last; s > r.last-r.size; s-- {
		total = difference48(total, r.granted[s])
		totals[index(s, r.size)] = sixBytes(total)
	}
	return sixBytes(r.slice) + sixBytes(r.size) + sixBytes(r.last) + sixBytes(r.total) + strings.Join(totals, "")
}

func sixBytes(n int64) string {
	bytes := make([]byte, 6)
	for i := range bytes {
		bytes[i] = byte(n >> (8 * (5 - i)))
	}
	return string(bytes)
}

// reply is the five fields and what each window holds, the ring being what it is after the decision.
func (r ring) reply(windows []ringWindow, now, current, moves, granted int64) []int64 {
	wait, reset, widest, remaining := int64(0), int64(0), int64(0), int64(1_000_000_000)
	var counts []int64
	for _, w := range windows {
		n := r.count(w, current)
		counts = append(counts, n)
		remaining = min(remaining, max(w.limit-n, 0))
		widest = max(widest, w.slices)
	}
	if moves > 0 {
		wait = (current+moves)*r.slice - now
	}
	if !r.fresh {
		reset = max((r.last+widest)*r.slice-now, 0)
	}
	return append([]int64{granted, remaining, wait, reset, now}, counts...)
}
