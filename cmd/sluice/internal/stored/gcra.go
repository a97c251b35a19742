package stored

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Bucket is the state of a gcra.
type Bucket = layout.Bucket

// bucketProbe reads a gcra. The first round reads at most one byte more than a bucket has, because the key may hold
// something large. The second round uses the script's command, for users who have only that right.
type bucketProbe struct {
	start *redis.StringCmd
	whole *redis.StringCmd
}

func (p *bucketProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.start = pipe.GetRange(ctx, key, 0, layout.LongBucket)
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
	bucket, ok := layout.ParseBucket(text)
	if !ok {
		s.damaged("it holds %s, want the %d or %d bytes of a bucket", layout.ShortQuote(text),
			layout.BucketLength, layout.LongBucket)
		return
	}
	s.Bucket = &bucket
}
