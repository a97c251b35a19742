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
	stored := c.store[c.keys[0]]
	r, bad := c.ring(widest)
	if bad != "" {
		return c.fails(bad)
	}
	if !r.fresh && !r.sound() {
		return Outcome{Or: badCells, Any: true, After: c.store}
	}

	outcome := Outcome{After: c.store}
	current := max(r.last, c.now/slice) // if the clock is behind, permits count in the last slice
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

// ring returns what a ring holds that counts: what is stored, or a fresh ring of so many slices. Its cells are not yet
// decoded.
func (c call) ring(widest int64) (r ring, bad string) {
	slice := c.args.number["slice"]
	fresh := ring{slice: slice, size: widest, last: c.now / slice, fresh: true}
	stored, ok := c.holds(c.keys[0], "string")
	if !ok {
		return r, wrongType
	}
	if stored.Type == "" {
		return fresh, ""
	}
	if r, bad = ringOf(stored.Text, slice); bad != "" {
		return r, bad
	}
	if r.leftOrVoid(c.now, widest) {
		return fresh, ""
	}
	return r, ""
}

type ringWindow struct{ slices, limit int64 }

func windowsOf(args arguments) (windows []ringWindow) {
	for i := 1; i <= args.groups; i++ {
		windows = append(windows, ringWindow{args.number[fmt.Sprintf("slices_%d", i)],
			args.number[fmt.Sprintf("limit_%d", i)]})
	}
	return windows
}

// ring is a decoded ring: the number of permits granted in each of its slices.
type ring struct {
	slice, size, last, total int64
	granted                  map[int64]int64 // by slice number
	links                    map[int64]int64 // by slice number: the first slice from it on with permits
	fresh                    bool            // nothing is stored, or nothing counts
	bytes                    string          // as stored
}

const (
	ringHeader = 24
	ringCell   = 7       // bytes: 44 bits of a total, 12 of a link
	ringWrap   = 1 << 44 // of totals
	linkWrap   = 1 << 12 // of links
	badCells   = "BADSTATE ring: want a total and a link for each slice"
)

// ringOf decodes the header.
func ringOf(bytes string, slice int64) (r ring, bad string) {
	if len(bytes) < ringHeader || bigEndian(bytes[:6]) != slice {
		return r, "BADSTATE ring: want the slice it was written with"
	}
	r = ring{slice: slice, size: bigEndian(bytes[6:12]), last: bigEndian(bytes[12:18]), total: bigEndian(bytes[18:24]),
		bytes: bytes}
	if r.size < 1 || r.size > 10000 {
		return r, "BADSTATE ring: want 1..10000 slices"
	}
	return r, ""
}

func bigEndian(bytes string) (n int64) {
	for i := range len(bytes) {
		n = n<<8 | int64(bytes[i])
	}
	return n
}

// leftOrVoid reports whether nothing in the ring counts: all its slices have left it, or a clock that was far ahead
// wrote it.
func (r ring) leftOrVoid(now, widest int64) bool {
	mostAhead := max(r.size, widest)*r.slice + 60_000_000
	return now/r.slice-r.last >= r.size || r.last > (now+mostAhead)/r.slice
}

// sound decodes the permits and the link of each slice. It reports whether a script can have written them: totals do
// not fall, and no permits are between a slice and its link.
func (r *ring) sound() bool {
	if int64(len(r.bytes)) < ringHeader+ringCell*r.size {
		return false
	}
	r.granted, r.links = map[int64]int64{}, map[int64]int64{}
	all, next, before := int64(0), r.total, map[int64]int64{}
	for s := r.last; s > r.last-r.size; s-- {
		var link int64
		before[s], link = r.cell(s)
		if n := apart(next, before[s]); n > 0 {
			r.granted[s] = n
			all += n
		}
		r.links[s] = s + index(link-s, linkWrap)
		if total, within := before[r.links[s]]; !within || total != before[s] {
			return false
		}
		next = before[s]
	}
	return all < ringWrap
}

// cell returns the total before a slice, and its stored link.
func (r ring) cell(slice int64) (total, link int64) {
	at := ringHeader + ringCell*index(slice, r.size)
	n := bigEndian(r.bytes[at : at+ringCell])
	return n / linkWrap, n % linkWrap
}

// apart returns the difference of two totals, which wrap at 2^44.
func apart(later, earlier int64) int64 { return index(later-earlier, ringWrap) }

// index returns the position of a slice's cell.
func index(s, size int64) int64 { return ((s % size) + size) % size }

// count returns the permits in a window that ends with a slice.
func (r ring) count(w ringWindow, slice int64) (n int64) {
	for s, granted := range r.granted {
		if s > slice-w.slices && s <= slice {
			n += granted
		}
	}
	return n
}

// room reports whether n permits fit into every window that ends with a slice.
func (r ring) room(windows []ringWindow, slice, permits int64) bool {
	for _, w := range windows {
		if r.count(w, slice)+permits > w.limit {
			return false
		}
	}
	return true
}

// grown returns the ring with at least the given number of slices. Added slices are older and empty.
func (r ring) grown(slices int64) ring {
	oldest := r.last - r.size + 1
	r.size = max(r.size, slices)
	for s := oldest - 1; !r.fresh && s > r.last-r.size; s-- {
		r.links[s] = r.links[oldest]
	}
	return r
}

// add returns the ring after a grant in a slice.
func (r ring) add(slice, permits int64) ring {
	granted, links := map[int64]int64{slice: permits}, map[int64]int64{}
	for s, n := range r.granted {
		if s > slice-r.size {
			granted[s] += n
		}
	}
	for s := slice; s > slice-r.size; s-- {
		links[s] = slice
		if s <= r.last && !r.fresh {
			links[s] = r.links[s]
		}
	}
	r.granted, r.links, r.last, r.total, r.fresh = granted, links, slice, (r.total+permits)%ringWrap, false
	return r
}

// value returns the stored value of the ring. It expires when the last slice has left it; another grant in the same
// slice does not change that.
func (r ring) value(before ring, stored Value) Value {
	value := Value{Type: "string", Text: r.encoded(), Expires: milliseconds((r.last + r.size) * r.slice)}
	if before.fresh || before.size != r.size {
		return value
	}
	if before.last == r.last {
		value.Expires = stored.Expires
	}
	value.Text += stored.Text[len(value.Text):] // bytes after the ring are kept
	return value
}

// encoded returns the bytes: slice, size, last slice, total; then for each slice the total before it and its link.
func (r ring) encoded() string {
	cells := make([]string, r.size)
	total := r.total
	for s := r.last; s > r.last-r.size; s-- {
		total = apart(total, r.granted[s])
		cells[index(s, r.size)] = inBytes(total*linkWrap+index(r.links[s], linkWrap), ringCell)
	}
	return inBytes(r.slice, 6) + inBytes(r.size, 6) + inBytes(r.last, 6) + inBytes(r.total, 6) + strings.Join(cells, "")
}

// inBytes encodes a number as a big-endian integer of n bytes.
func inBytes(n int64, width int) string {
	bytes := make([]byte, width)
	for i := range bytes {
		bytes[i] = byte(n >> (8 * (width - 1 - i)))
	}
	return string(bytes)
}

// reply returns the five fields and the count of each window, for the ring after the decision.
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
