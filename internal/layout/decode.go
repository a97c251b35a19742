package layout

import (
	"encoding/binary"
	"fmt"
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

// Ring is one window of a slice_ring, which counts permits by slices of time.
type Ring struct {
	Slice int64 `json:"slice"` // length of a slice in microseconds
	Size  int64 `json:"size"`  // slices of the window, the current one included
	Last  int64 `json:"last"`  // when permits were charged last

	total  int64 // permits charged so far, modulo 2^48
	oldest int64 // total before the oldest slice of the window at Last
}

// The lengths of a ring's parts in bytes.
const (
	RingHeader = 19
	RingCell   = 6
)

// ringSlack is how far the clock may be behind the last charge in addition to the window; microseconds.
const ringSlack = 60_000_000

// CellTotal decodes a cell: the total before its slice.
func CellTotal(cell string) int64 { return bigEndian(cell[:RingCell]) }

// ParseRing decodes the header of a ring with slices of this length and number. There may be more bytes.
func ParseRing(header string, slice, size int64) (*Ring, error) {
	if len(header) < RingHeader {
		return nil, fmt.Errorf("it holds %d bytes, want %d and its cells", len(header), RingHeader)
	}
	return &Ring{
		Slice: slice, Size: size, Last: bigEndian(header[:7]), total: bigEndian(header[7:13]), oldest: bigEndian(header[13:19]),
	}, nil
}

// Span is how long a permit counts, at most, in microseconds.
func (r Ring) Span() int64 { return r.Slice * r.Size }

// Counts reports whether the ring counts a window of so many microseconds: its slices cover it, with one more.
func (r Ring) Counts(window int64) bool { return (window+r.Slice-1)/r.Slice+1 == r.Size }

// Current returns the number of the current slice: that of now, but never before the last charge.
func (r Ring) Current(now int64) int64 { return max(now, r.Last) / r.Slice }

// Moved reports whether slices have begun since the last charge: then a cell tells what the window holds.
func (r Ring) Moved(now int64) bool { return r.Current(now) > r.Last/r.Slice }

// Empty reports whether the window holds nothing: all has left it, or a wrong clock wrote it.
func (r Ring) Empty(now int64) bool {
	return r.Current(now)-r.Last/r.Slice >= r.Size || r.Last-now > r.Span()+ringSlack
}

// Oldest returns the number of the oldest slice of the window.
func (r Ring) Oldest(now int64) int64 { return r.Current(now) - r.Size + 1 }

// Offset returns the position of a slice's cell in the string.
func (r Ring) Offset(slice int64) int64 { return RingHeader + RingCell*(slice%r.Size) }

// Since returns how many permits were charged after the total was before.
func (r Ring) Since(before int64) int64 { return (r.total - before) & (1<<48 - 1) }

// Held returns what the window holds if it has not moved.
func (r Ring) Held() int64 { return r.Since(r.oldest) }

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
	return state / 2, state%2 == 1, true
}
