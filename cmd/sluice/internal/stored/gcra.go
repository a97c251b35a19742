package stored

import (
	"context"

	"github.com/redis/go-redis/v9"
)

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

// A bucket has bucketLength bytes: struct.pack(">I7I3I3I7I6", tat, numerator, limit, written, widest). If grants with
// a narrower window followed those with the widest, it has longBucket: 13 more bytes, which only the script reads.
const (
	bucketLength = 26
	longBucket   = 39
)

// bucketProbe reads a gcra. The first round reads at most one byte more than a bucket has, because the key may hold
// something large. The second round uses the script's command, for users who have only that right.
type bucketProbe struct {
	start *redis.StringCmd
	whole *redis.StringCmd
}

func (p *bucketProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.start = pipe.GetRange(ctx, key, 0, longBucket)
}

func (p *bucketProbe) read(s *Summary) bool {
	if s.failed(p.start) {
		return s.Err != nil
	}
	s.readBucket(p.start.Val())
	return false
}

func (p *bucketProbe) askMore(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.whole = pipe.Get(ctx, key)
}

func (p *bucketProbe) readMore(s *Summary) {
	s.Err = nil
	if !s.failed(p.whole) {
		s.readBucket(p.whole.Val())
	}
}

func (s *Summary) readBucket(text string) {
	if text == "" {
		return
	}
	s.Exists = true
	bucket, ok := parseBucket([]byte(text))
	if !ok {
		s.damaged("it holds %s, want the %d or %d bytes of a bucket", shortQuote(text), bucketLength, longBucket)
		return
	}
	s.Bucket = &bucket
}

// parseBucket parses a bucket. It returns false if the scripts would refuse it.
func parseBucket(packed []byte) (Bucket, bool) {
	if len(packed) != bucketLength && len(packed) != longBucket {
		return Bucket{}, false
	}
	tat, written, widest := bigEndian(packed[:7]), bigEndian(packed[13:20]), bigEndian(packed[20:26])
	numerator, limit := bigEndian(packed[7:10]), bigEndian(packed[10:13])
	if numerator >= limit || limit > 10_000_000 || tat > maxTime {
		return Bucket{}, false
	}
	b := Bucket{Full: tat, Limit: limit, Written: written, Widest: widest}
	if numerator > 0 {
		b.Full++
	}
	return b, true
}

// bigEndian decodes an integer of up to seven bytes.
func bigEndian[T string | []byte](bytes T) (n int64) {
	for i := range len(bytes) {
		n = n<<8 | int64(bytes[i])
	}
	return n
}
