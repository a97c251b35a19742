package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sliceRing is slice_ring_v1: permits counted by slice of time, in each window by slices of its own. It is
// slice_ring_report_v1 too: what is reported counts in the current slice before anything is decided.
func sliceRing(c call) Outcome {
	windows := windowsOf(c.args)
	permits := c.args.number["permits"]
	if tooMany(windows) {
		return c.fails(badSizes)
	}
	for _, w := range windows {
		if permits > w.limit {
			return c.fails("BADARG permits: want up to every limit")
		}
	}
	r, bad := c.ring()
	if bad != "" {
		return c.fails(bad)
	}
	if !r.sound {
		return Outcome{Or: badRing, Any: true, After: c.store}
	}
	r, time := r.at(c.now, windows)
	reply, counts := []int64{0, 1_000_000_000, 0, 0, c.now}, []int64{}
	reported, charged := c.args.number["reported"], c.args.number["reported"]
	for i, w := range windows {
		v := r.view(i, w, time)
		counts = append(counts, v.held(0))
		charged = max(min(charged, maxHeld-v.held(0)), 0)
		k := int64(0)
		for k < w.size && v.held(k)+reported+max(permits, 1) > w.limit {
			k++
		}
		if k > 0 {
			reply[2] = max(reply[2], (v.current+k)*w.slice-c.now)
		}
		reply[3] = max(reply[3], v.empty()-c.now)
	}
	outcome := Outcome{After: c.store}
	if permits > 0 && reply[2] == 0 {
		reply[0] = permits
	}
	if added := charged + reply[0]; added > 0 {
		outcome.After = c.store.With(c.keys[0], r.grant(windows, counts, time, added).value(c.store[c.keys[0]]))
		for i, w := range windows {
			counts[i] += added
			reply[3] = max(reply[3], (time/w.slice+w.size)*w.slice-c.now)
		}
	}
	for i, w := range windows {
		reply[1] = min(reply[1], max(w.limit-counts[i], 0))
	}
	outcome.Reply = slices.Concat(reply, counts)
	return outcome
}

type ringWindow struct{ slice, size, limit int64 }

func windowsOf(args arguments) (windows []ringWindow) {
	for i := 1; i <= args.groups; i++ {
		number := func(name string) int64 { return args.number[fmt.Sprintf("%s_%d", name, i)] }
		windows = append(windows, ringWindow{number("slice"), number("size"), number("limit")})
	}
	return windows
}

const (
	maxCells = 10000 // in all windows
	badSizes = "BADARG ARGV: want up to 10000 slices together"
)

func tooMany(windows []ringWindow) bool {
	cells := int64(0)
	for _, w := range windows {
		cells += w.size
	}
	return cells > maxCells
}

// A ring is decoded: what each of its sections holds.
type ring struct {
	last, total int64 // when the last permits were granted, and how many were in all
	sections    []section
	sound       bool   // a script can have written it
	behind      string // bytes that stand after the ring
	expires     int64  // if a script sets the expiry anew: when the last section is empty
	isNew       bool   // written as a whole
}

// A section counts the permits granted in each of its slices.
type section struct {
	slice, size, shift int64
	granted, links     map[int64]int64 // by slice number; a link is the first slice from it on with permits
}

const (
	ringHeader    = 14
	sectionHeader = 20
	maxSections   = 8
	ringCell      = 7       // bytes: 44 bits of a total, 12 of a link
	ringWrap      = 1 << 44 // of totals
	linkWrap      = 1 << 12 // of links
	badSections   = "BADSTATE ring: want 1..8 sections"
	badRing       = "BADSTATE ring: want" // and what, if a script looks at what is damaged
)

// ring returns what is stored. Nothing stored is a ring without sections.
func (c call) ring() (r ring, bad string) {
	stored, ok := c.holds(c.keys[0], "string")
	switch {
	case !ok:
		return r, wrongType
	case stored.Type == "":
		return ring{sound: true, last: c.now}, ""
	}
	return ringOf(stored.Text)
}

func ringOf(bytes string) (r ring, bad string) {
	if len(bytes) < ringHeader+sectionHeader {
		return r, badSections
	}
	n := int(bytes[0])
	from := ringHeader + n*sectionHeader
	if n < 1 || n > maxSections || len(bytes) < from {
		return r, badSections
	}
	r = ring{last: bigEndian(bytes[1:8]), total: bigEndian(bytes[8:14]), sound: true}
	for i := range n {
		header := bytes[ringHeader+i*sectionHeader:][:sectionHeader]
		s := section{slice: bigEndian(header[:5]), size: bigEndian(header[5:7]), shift: bigEndian(header[7:13])}
		if s.slice < 1000 || s.size < 1 || s.size > 10000 {
			return ring{}, ""
		}
		cells := bytes[min(from, len(bytes)):]
		r.sound = r.sound && s.decode(cells, r.last/s.slice, apart(r.total, -s.shift), header[13:])
		r.sections, from = append(r.sections, s), from+int(ringCell*s.size)
	}
	r.behind = bytes[min(from, len(bytes)):]
	return r, ""
}

func bigEndian(bytes string) (n int64) {
	for i := range len(bytes) {
		n = n<<8 | int64(bytes[i])
	}
	return n
}

// decode reads the permits and the link of each slice. It reports whether a script can have written them: totals do
// not fall, no permits are between a slice and its link, and first is the oldest slice's cell.
func (s *section) decode(cells string, last, total int64, first string) bool {
	if int64(len(cells)) < ringCell*s.size {
		return false
	}
	s.granted, s.links = map[int64]int64{}, map[int64]int64{}
	all, next, before := int64(0), total, map[int64]int64{}
	for n := last; n > last-s.size; n-- {
		stored := bigEndian(cells[ringCell*index(n, s.size):][:ringCell])
		before[n] = stored / linkWrap
		if granted := apart(next, before[n]); granted > 0 {
			s.granted[n] = granted
			all += granted
		}
		s.links[n] = n + index(stored%linkWrap-n, linkWrap)
		if total, within := before[s.links[n]]; !within || total != before[n] {
			return false
		}
		next = before[n]
	}
	return all < ringWrap && cells[ringCell*index(last+1, s.size):][:ringCell] == first
}

// apart returns the difference of two totals, which wrap at 2^44.
func apart(later, earlier int64) int64 { return index(later-earlier, ringWrap) }

// index returns the position of a slice's cell.
func index(s, size int64) int64 { return ((s % size) + size) % size }

// at returns what counts of the ring, and the time of a call: if the clock is behind, that of the last grant.
func (r ring) at(now int64, windows []ringWindow) (ring, int64) {
	longest := int64(0)
	for _, w := range windows {
		longest = max(longest, w.slice*w.size)
	}
	for _, s := range r.sections {
		longest = max(longest, s.slice*s.size)
	}
	switch {
	case r.last <= now:
		return r, now
	case r.last-now > longest+60_000_000:
		return ring{total: r.total, sound: true, last: now}, now
	}
	return r, r.last
}

// A view is a window of a call, counted in a section: its own, or another.
type view struct {
	ringWindow
	section
	current, last int64 // slices of the window: the current one, and that of the last grant
	own           bool
}

// view finds the section that a window of the call is counted in: its own, if there are several that at the window's
// place; or else the shortest that is as long, or the longest.
func (r ring) view(i int, w ringWindow, time int64) view {
	v := view{ringWindow: w, current: time / w.slice, last: r.last / w.slice}
	missed := int64(-1)
	for j, s := range r.sections {
		own := s.slice == w.slice && s.size == w.size
		misses := s.slice*(s.size-1) - w.slice*(w.size-1)
		if misses < 0 {
			misses = 1e15 - misses
		}
		if missed < 0 || own && (!v.own || j == i) || !v.own && misses < missed {
			v.section, v.own, missed = s, own, misses
		}
	}
	return v
}

// held returns the permits in the window k slices from now. All were granted up to the last grant.
func (v view) held(k int64) (n int64) {
	first := v.current + k - v.ringWindow.size + 1
	for s, granted := range v.granted {
		if (s+1)*v.section.slice > first*v.ringWindow.slice && v.last >= first {
			n += granted
		}
	}
	return n
}

// empty returns when the slice of the last grant has left the window.
func (v view) empty() int64 {
	if v.granted == nil {
		return 0
	}
	return (v.last + v.ringWindow.size) * v.ringWindow.slice
}

// grant returns the ring after a grant. New windows get sections, in which what they hold was granted at the last one.
func (r ring) grant(windows []ringWindow, counts []int64, time, permits int64) ring {
	var missing []section
	added := func(i int) section {
		w, last := windows[i], r.last/windows[i].slice
		s := section{slice: w.slice, size: w.size, shift: apart(counts[i], r.total), links: map[int64]int64{}}
		s.granted = map[int64]int64{last: counts[i]}
		for n := last; n > last-w.size; n-- {
			s.links[n] = last
		}
		return s
	}
	for i, w := range windows {
		if !r.view(i, w, time).own {
			missing = append(missing, added(i))
		}
	}
	cells := int64(0)
	for _, s := range slices.Concat(r.sections, missing) {
		cells += s.size
	}
	if len(r.sections)+len(missing) > maxSections || cells > maxCells {
		r.sections, missing = nil, nil
		for i := range windows {
			missing = append(missing, added(i))
		}
	}
	r.isNew, r.sections = len(missing) > 0, slices.Concat(r.sections, missing)
	before, after := int64(0), int64(0)
	for i, s := range r.sections {
		before = max(before, (r.last/s.slice+s.size)*s.slice)
		r.sections[i] = s.add(r.last/s.slice, time/s.slice, permits)
		after = max(after, (time/s.slice+s.size)*s.slice)
	}
	if r.isNew || after > before {
		r.expires = after
	}
	r.last, r.total = time, (r.total+permits)%ringWrap
	return r
}

// add returns the section after a grant in a slice.
func (s section) add(last, slice, permits int64) section {
	s.granted, s.links = maps.Clone(s.granted), maps.Clone(s.links)
	for n := last + 1; n <= slice; n++ {
		s.links[n] = slice
		if slice-last > s.size {
			n = max(n, slice-s.size) // those before have left
			s.links[n] = slice
		}
	}
	s.granted[slice] += permits
	for n := range s.links {
		if n <= slice-s.size {
			delete(s.granted, n)
			delete(s.links, n)
		}
	}
	return s
}

// value returns the stored value of the ring. It expires when the last slice has left all sections; another grant in
// the same slices does not change that.
func (r ring) value(stored Value) Value {
	value := Value{Type: "string", Text: r.encoded(), Expires: stored.Expires}
	if !r.isNew {
		value.Text += r.behind
	}
	if r.expires > 0 {
		value.Expires = milliseconds(r.expires)
	}
	return value
}

// encoded returns the bytes: a header, that of each section, and the cells of each.
func (r ring) encoded() string {
	header, cells := inBytes(int64(len(r.sections)), 1)+inBytes(r.last, 7)+inBytes(r.total, 6), []string{}
	for _, s := range r.sections {
		own, last, total := make([]string, s.size), r.last/s.slice, apart(r.total, -s.shift)
		for n := last; n > last-s.size; n-- {
			total = apart(total, s.granted[n])
			own[index(n, s.size)] = inBytes(total*linkWrap+index(s.links[n], linkWrap), ringCell)
		}
		header += inBytes(s.slice, 5) + inBytes(s.size, 2) + inBytes(s.shift, 6) + own[index(last+1, s.size)]
		cells = append(cells, own...)
	}
	return header + strings.Join(cells, "")
}

// inBytes encodes a number as a big-endian integer of n bytes.
func inBytes(n int64, width int) string {
	bytes := make([]byte, width)
	for i := range bytes {
		bytes[i] = byte(n >> (8 * (width - 1 - i)))
	}
	return string(bytes)
}
