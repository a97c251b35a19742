package model

import (
	"fmt"
	"slices"
	"strings"
)

// sliceRing is slice_ring_v1: permits counted by slice of time, in a ring for each window.
func sliceRing(c call) Outcome {
	if c.tooMany() {
		return c.fails("BADARG permits: want up to every limit")
	}
	rings, unread := c.rings()
	if unread != nil {
		return *unread
	}
	reply := c.decided(rings, c.args.number["reported"])
	return c.granted(rings, reply, c.args.number["reported"]+reply[0])
}

// tooMany reports whether the permits exceed a limit.
func (c call) tooMany() bool {
	return slices.ContainsFunc(c.windows(), func(w window) bool { return c.args.number["permits"] > w.limit })
}

type window struct {
	key                string
	slice, size, limit int64
}

// windows are those of a call, each with the key of its ring. Some scripts take no limits.
func (c call) windows() (windows []window) {
	for i := range c.args.groups {
		number := func(name string) int64 { return c.args.number[fmt.Sprintf("%s_%d", name, i+1)] }
		windows = append(windows, window{c.keys[i], number("slice"), number("size"), number("limit")})
	}
	return windows
}

// A ring is what one window holds.
type ring struct {
	window
	time    int64           // when it was charged last
	total   int64           // of all charges; it wraps at 2^48
	charged map[int64]int64 // in each slice of the window, which ends with that of time
	behind  string          // bytes that stand behind the ring
	sound   bool            // a script can have written it

	last    int64 // the slice that was charged last
	isEmpty bool  // that slice has left the window
}

const (
	ringHeader = 19      // bytes
	ringCell   = 6       // bytes
	ringWrap   = 1 << 48 // of totals
	maxHeld    = 10_000_000_000_000
	badRing    = "BADSTATE ring_%d: want 19 bytes and its cells"
)

// rings returns the ring of each window as a call finds it now. unread is the outcome if one cannot be read.
func (c call) rings() (rings []ring, unread *Outcome) {
	for i, w := range c.windows() {
		r, bad := c.ring(w, i+1)
		if bad != "" {
			return nil, &Outcome{Err: bad, After: c.store}
		}
		rings = append(rings, r.at(c.now))
	}
	if slices.ContainsFunc(rings, func(r ring) bool { return !r.sound }) {
		return nil, &Outcome{Or: badRing[:len("BADSTATE ring_")], Any: true, After: c.store}
	}
	return rings, nil
}

// ring returns what is stored of the i-th window. Nothing stored, or an empty string, is an empty ring.
func (c call) ring(w window, i int) (r ring, bad string) {
	stored, ok := c.holds(w.key, "string")
	switch {
	case !ok:
		return r, wrongType
	case stored.Text == "":
		return w.empty(c.now), ""
	case len(stored.Text) < ringHeader:
		return r, fmt.Sprintf(badRing, i)
	}
	return w.ringOf(stored.Text), ""
}

func (w window) empty(now int64) ring {
	return ring{window: w, time: now, charged: map[int64]int64{}, sound: true, isEmpty: true}
}

// ringOf reads a ring: each cell is the total before a slice, so what was charged in it is the difference to the next.
func (w window) ringOf(text string) ring {
	r := ring{window: w, time: bigEndian(text[:7]), total: bigEndian(text[7:13]), charged: map[int64]int64{}}
	r.last = r.current()
	if int64(len(text)) < ringHeader+ringCell*w.size {
		return r
	}
	r.behind = text[ringHeader+ringCell*w.size:]
	if r.time > maxTime {
		return r
	}
	next := r.total
	for s := r.last; s > r.last-w.size; s-- {
		before := bigEndian(text[ringHeader+ringCell*index(s, w.size):][:ringCell])
		r.charged[s] = index(next-before, ringWrap)
		next = before
	}
	r.sound = r.held(r.last) <= maxHeld && next == bigEndian(text[13:19])
	return r
}

// current is the slice of the time.
func (r ring) current() int64 { return (r.time - index(r.time, r.slice)) / r.slice }

// held returns what the window that ends with a slice holds.
func (r ring) held(end int64) (permits int64) {
	for s, n := range r.charged {
		if s > end-r.size {
			permits += n
		}
	}
	return permits
}

// at returns the ring at a call's time. If the clock is behind, that is the time of the last charge; if it is more than
// the window and 60 s behind, the ring is empty. So it is where all have left the window.
func (r ring) at(now int64) ring {
	ahead := r.time > now+r.slice*r.size+60_000_000
	r.time = max(r.time, now)
	if ahead {
		r.time = now
	}
	if ahead || r.isEmpty || r.current()-r.last >= r.size {
		behind := r.behind
		r = r.empty(r.time)
		r.behind = behind
		return r
	}
	for s := range r.charged {
		if s <= r.current()-r.size {
			delete(r.charged, s)
		}
	}
	return r
}

// decided returns slice_ring's reply before anything is charged.
func (c call) decided(rings []ring, reported int64) []int64 {
	permits := c.args.number["permits"]
	remaining, wait, reset := int64(1_000_000_000), int64(0), int64(0)
	counts := []int64{}
	for _, r := range rings {
		held, added := r.held(r.current()), reported
		counts, added = append(counts, held), min(added, maxHeld-held)
		remaining = min(remaining, r.limit-held-reported)
		for k := int64(0); k < r.size && r.held(r.current()+k)+added+max(permits, 1) > r.limit; k++ {
			wait = max(wait, (r.current()+k+1)*r.slice-c.now)
		}
		if !r.isEmpty {
			reset = max(reset, (r.last+r.size)*r.slice-c.now)
		}
	}
	granted := permits
	if wait > 0 {
		granted = 0
	}
	return slices.Concat([]int64{granted, max(remaining, 0), wait, reset, c.now}, counts)
}

// granted returns the outcome of a call with this reply that charges every window.
func (c call) granted(rings []ring, reply []int64, charge int64) Outcome {
	if charge == 0 {
		return Outcome{Reply: reply, After: c.store}
	}
	reply[1] -= reply[0]
	for i, r := range rings {
		reply[3] = max(reply[3], (r.current()+r.size)*r.slice-c.now)
		reply[5+i] = min(reply[5+i]+charge, maxHeld)
	}
	return Outcome{Reply: reply, After: c.charge(rings, charge)}
}

// charge returns the store after a charge of every window. A ring expires when its last slice has left the window.
func (c call) charge(rings []ring, charge int64) Store {
	after := c.store
	for _, r := range rings {
		value := Value{Type: "string", Expires: c.store[r.key].Expires}
		if r.isEmpty || r.current() > r.last {
			value.Expires = milliseconds((r.current() + r.size) * r.slice)
		}
		charge := min(charge, maxHeld-r.held(r.current()))
		r.charged[r.current()] += charge
		r.total = (r.total + charge) % ringWrap
		value.Text = r.encoded()
		after = after.With(r.key, value)
	}
	return after
}

// encoded returns the bytes of a ring.
func (r ring) encoded() string {
	before, cells := r.total, make([]string, r.size)
	for s := r.current(); s > r.current()-r.size; s-- {
		before = index(before-r.charged[s], ringWrap)
		cells[index(s, r.size)] = inBytes(before, ringCell)
	}
	return inBytes(r.time, 7) + inBytes(r.total, 6) + inBytes(before, 6) + strings.Join(cells, "") + r.behind
}

// index returns n modulo size, which is not negative.
func index(n, size int64) int64 { return ((n % size) + size) % size }

func bigEndian(bytes string) (n int64) {
	for i := range len(bytes) {
		n = n<<8 | int64(bytes[i])
	}
	return n
}

// inBytes encodes a number as a big-endian integer of n bytes.
func inBytes(n int64, width int) string {
	bytes := make([]byte, width)
	for i := range bytes {
		bytes[i] = byte(n >> (8 * (width - 1 - i)))
	}
	return string(bytes)
}
