package layout

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
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

// slack is how far the clock may be behind the last grant in addition to the widest window; microseconds.
const slack = 60_000_000

// Void reports whether the scripts ignore the bucket, because it was written too far ahead of the clock.
func (b Bucket) Void(now int64) bool { return now < b.Written-b.Widest-slack }

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

// Ring is a slice_ring: it counts the permits of one window by slices of time.
type Ring struct {
	Slice int64 `json:"slice"` // length of a slice in microseconds
	Size  int64 `json:"size"`  // slices of the window, the current one included
	Last  int64 `json:"last"`  // when the last charge was made
	text  string
}

// RingBytes is the length of the longest ring.
const RingBytes = ringHeader + 1000*ringCell

const ringHeader, ringCell = 19, 6

// ParseWindow reads the last part of a ring's key: <slice>x<size>.
func ParseWindow(part string) (slice, size int64, ok bool) {
	a, b, _ := strings.Cut(part, "x")
	slice, _ = strconv.ParseInt(a, 10, 64)
	size, _ = strconv.ParseInt(b, 10, 64)
	ok = slice >= 1000 && slice <= 86_400_000_000 && size >= 1 && size <= 1000
	return slice, size, ok && part == fmt.Sprintf("%dx%d", slice, size)
}

// ParseRing decodes a ring. part is the last part of its key.
func ParseRing(part, text string) (*Ring, error) {
	slice, size, ok := ParseWindow(part)
	if want := ringHeader + ringCell*size; !ok || int64(len(text)) < want {
		return nil, fmt.Errorf("it holds %d bytes, want the %d of %d slices", len(text), want, size)
	}
	return &Ring{slice, size, bigEndian(text[:7]), text}, nil
}

// Span is how long a permit counts, at most, in microseconds.
func (r Ring) Span() int64 { return r.Slice * r.Size }

// Current returns the number of the current slice. A clock behind the last charge stands still there.
func (r Ring) Current(now int64) int64 { return max(now, r.Last) / r.Slice }

// Count returns what the window holds: nothing if the last charge was written too far ahead of the clock.
func (r Ring) Count(now int64) int64 {
	if r.Last-now > r.Span()+slack {
		return 0
	}
	return r.Since(r.Current(now) - r.Size + 1)
}

// Since returns what was charged in a slice and after it. The slice is at most Size-1 before the last one charged.
func (r Ring) Since(slice int64) int64 {
	if slice > r.Last/r.Slice {
		return 0
	}
	cell := r.text[ringHeader+ringCell*(slice%r.Size):]
	return (bigEndian(r.text[7:13]) - bigEndian(cell[:ringCell])) & (1<<48 - 1)
}

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
	if len(packed) < 11 || len(packed)%7 != 4 {
		return 0, false, false
	}
	state := bigEndian(packed[7:11])
	return state / 2, state%2 == 1, state/2 <= 1_000_000_000
}
