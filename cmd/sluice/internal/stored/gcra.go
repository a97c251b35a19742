package stored

import (
	"context"
	"encoding/binary"

	"github.com/redis/go-redis/v9"
)

// Bucket is the state of a gcra. Moments are in microseconds since 1970.
type Bucket struct {
	Full  int64 // the moment from which on the bucket is full, rounded up to a microsecond
	Limit int64 // of the last grant
	Since int64 // to a clock before it the bucket is void: the last grant, less its window and 60 s
}

// bucketSlack is how far behind the last grant a clock may be, besides the window.
const bucketSlack = 60_000_000

// Void reports whether the scripts take the bucket for full, since the clock was stepped back too far.
func (b Bucket) Void(now int64) bool { return now < b.Since }

// Backlog is how long it takes at a moment until the bucket is full.
func (b Bucket) Backlog(now int64) int64 {
	if b.Void(now) {
		return 0
	}
	return max(b.Full-now, 0)
}

// Written is the moment of the last grant, if it was made under that window. It is false where the state does not
// tell, being from the first moments after 1970.
func (b Bucket) Written(window int64) (at int64, told bool) {
	return b.Since + window + bucketSlack, b.Since > 0
}

// bucketLength is the bytes of a bucket: struct.pack(">I8I4I4I8", tat, numerator, limit, since).
const bucketLength = 24

// bucketProbe reads a gcra. The first round asks for no more than a byte above a bucket, whatever else the key
// may hold; the second asks as the script does, for users who may do only that.
type bucketProbe struct {
	start *redis.StringCmd
	whole *redis.StringCmd
}

func (p *bucketProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.start = pipe.GetRange(ctx, key, 0, bucketLength)
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
		s.damaged("it holds %s, want the %d bytes of a bucket", shortQuote(text), bucketLength)
		return
	}
	s.Bucket = &bucket
}

// parseBucket reads a bucket, and reports false for what the scripts refuse.
func parseBucket(packed []byte) (Bucket, bool) {
	if len(packed) != bucketLength {
		return Bucket{}, false
	}
	tat, since := binary.BigEndian.Uint64(packed), binary.BigEndian.Uint64(packed[16:])
	numerator, limit := binary.BigEndian.Uint32(packed[8:]), binary.BigEndian.Uint32(packed[12:])
	if numerator >= limit || limit > 10_000_000 || tat > mostMoment {
		return Bucket{}, false
	}
	b := Bucket{Full: int64(tat), Limit: int64(limit), Since: int64(min(since, mostMoment))}
	if numerator > 0 {
		b.Full++
	}
	return b, true
}
