package layout

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// MaxTime is the latest time that the scripts accept, in microseconds since 1970.
const MaxTime = 1<<53 - 1

// ParseTime reads decimal digits as the scripts do: an entry of list_log.
func ParseTime(text string) (int64, error) {
	at, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > 16 || at > MaxTime {
		return 0, fmt.Errorf("holds %s, want a time in microseconds", ShortQuote(text))
	}
	return int64(at), nil
}

// ShortQuote returns a text in quotes, cut if it is long.
func ShortQuote(text string) string {
	if len(text) > 24 {
		return strconv.Quote(text[:24]) + "..."
	}
	return strconv.Quote(text)
}

// Bucket is the state of a gcra. Times are in microseconds since 1970, windows in microseconds.
type Bucket struct {
	Full    int64 // when the bucket is full again, rounded up to a microsecond
	Limit   int64 // limit of the last grant
	Written int64 // time of the last grant
	Widest  int64 // widest window of the grants that had not drained then
}

// bucketSlack is how far the clock may be behind the last grant in addition to the widest window; microseconds.
const bucketSlack = 60_000_000

// Void reports whether the scripts ignore the bucket, because it was written too far ahead of the clock.
func (b Bucket) Void(now int64) bool { return now < b.Written-b.Widest-bucketSlack }

// Backlog returns how long it takes until the bucket is full, in microseconds.
func (b Bucket) Backlog(now int64) int64 {
	if b.Void(now) {
		return 0
	}
	return max(b.Full-now, 0)
}

// A bucket has BucketLength bytes. If grants with a narrower window followed those with the widest, it has LongBucket:
// the 13 bytes more are read by the script only.
const (
	BucketLength = 26
	LongBucket   = 39
)

// ParseBucket decodes what GCRA makes. It returns false if the scripts would refuse it.
func ParseBucket(packed string) (Bucket, bool) {
	if len(packed) != BucketLength && len(packed) != LongBucket {
		return Bucket{}, false
	}
	tat, written, widest := bigEndian(packed[:7]), bigEndian(packed[13:20]), bigEndian(packed[20:26])
	numerator, limit := bigEndian(packed[7:10]), bigEndian(packed[10:13])
	if numerator >= limit || limit > 10_000_000 || tat > MaxTime {
		return Bucket{}, false
	}
	b := Bucket{Full: tat, Limit: limit, Written: written, Widest: widest}
	if numerator > 0 {
		b.Full++
	}
	return b, true
}

// bigEndian decodes an integer of up to seven bytes.
func bigEndian(bytes string) (n int64) {
	for i := range len(bytes) {
		n = n<<8 | int64(bytes[i])
	}
	return n
}

// Ring is the header of a slice_ring.
type Ring struct {
	Last     int64     `json:"last"`     // when the last permits were granted
	Sections []Section `json:"sections"` // one for each window
}

// Section counts the permits of a window by slices of time.
type Section struct {
	Slice int64 `json:"slice"` // length of a slice in microseconds
	Size  int64 `json:"size"`  // slices of the window, the current one included
	last  int64 // number of the last slice that was written: its start / Slice
	total int64 // permits granted so far, modulo 2^44
	from  int64 // where its cells begin
}

// The lengths of a ring's parts in bytes.
const (
	RingHeader = ringFixed + maxSections*ringSection // at most
	RingCell   = 7

	ringFixed   = 14
	ringSection = 20
)

const (
	ringWrap    = 1 << 44 // of totals
	maxSections = 8
	maxSlices   = 10000
)

// CellTotal decodes the total of a cell: its upper 44 bits. The lower 12 name the next slice with permits.
func CellTotal(cell string) int64 { return bigEndian(cell[:6]) >> 4 }

// ParseRing decodes the header, of which there may be more bytes.
func ParseRing(header string) (*Ring, error) {
	n := 0
	if header != "" {
		n = int(header[0])
	}
	from := ringFixed + n*ringSection
	if n < 1 || n > maxSections || len(header) < from {
		return nil, fmt.Errorf("it holds %d bytes, want those of 1 to %d windows", len(header), maxSections)
	}
	r := &Ring{Last: bigEndian(header[1:8]), Sections: make([]Section, n)}
	for i := range r.Sections {
		h := header[ringFixed+i*ringSection:]
		s := Section{Slice: bigEndian(h[:5]), Size: bigEndian(h[5:7]), from: int64(from)}
		if s.Slice < 1000 || s.Slice > 86_400_000_000 || s.Size < 1 || s.Size > maxSlices || r.Last > MaxTime {
			return nil, fmt.Errorf("it holds a window of %d slices of %d us, want up to %d slices", s.Size, s.Slice, maxSlices)
		}
		s.last, s.total = r.Last/s.Slice, bigEndian(header[8:14])+bigEndian(h[7:13])
		r.Sections[i], from = s, from+int(RingCell*s.Size)
	}
	return r, nil
}

// Longest returns the section of the longest window.
func (r Ring) Longest() Section {
	return slices.MaxFunc(r.Sections, func(a, b Section) int { return cmp.Compare(a.Span(), b.Span()) })
}

// Span is how long a permit counts in the section, at most, in microseconds.
func (s Section) Span() int64 { return s.Slice * s.Size }

// Current returns the number of the current slice: that of now, but never before the last one written.
func (s Section) Current(now int64) int64 { return max(now/s.Slice, s.last) }

// Left reports whether all permits have left the section.
func (s Section) Left(now int64) bool { return s.Current(now)-s.last >= s.Size }

// Start returns the first time that the section covers.
func (s Section) Start(now int64) int64 { return (s.Current(now) - s.Size + 1) * s.Slice }

// Last returns the number of the last slice that was written.
func (s Section) Last() int64 { return s.last }

// Offset returns the position of a slice's cell in the string. The cell holds the total before the slice.
func (s Section) Offset(slice int64) int64 { return s.from + RingCell*(slice%s.Size) }

// End returns the position behind the cells of the section.
func (s Section) End() int64 { return s.from + RingCell*s.Size }

// Since returns how many permits were granted after the total was before.
func (s Section) Since(before int64) int64 { return ((s.total-before)%ringWrap + ringWrap) % ringWrap }

// Grant is an entry of a token_bucket: permits granted for a time.
type Grant struct {
	At            int64
	Before, After int64 // total permits granted before it, and with it
}

// ParseGrant decodes what TokenBucketEntry makes.
func ParseGrant(packed string) (Grant, error) {
	if len(packed) != 20 {
		return Grant{}, fmt.Errorf("is %s, want 20 bytes", ShortQuote(packed))
	}
	at, before := binary.BigEndian.Uint64([]byte(packed)), binary.BigEndian.Uint64([]byte(packed[8:]))
	count := uint64(binary.BigEndian.Uint32([]byte(packed[16:])))
	if at > MaxTime || count == 0 || before > MaxTime-count {
		return Grant{}, fmt.Errorf("is %s, want a time, a running total and permits", strconv.Quote(packed))
	}
	return Grant{At: int64(at), Before: int64(before), After: int64(before + count)}, nil
}

// ParseBudget reads what budget and budget_settle store of an id: how many permits were charged, and whether they are
// settled.
func ParseBudget(packed string) (permits int64, settled, ok bool) {
	if len(packed) != 11 {
		return 0, false, false
	}
	state := bigEndian(packed[7:])
	return state / 2, state%2 == 1, true
}
