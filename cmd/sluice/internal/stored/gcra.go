package stored

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Bucket is the state of a gcra.
type Bucket = layout.Bucket

// stringProbe reads a gcra or a quota. The first round reads at most one byte more than either has, because the key may
// hold something large. The second round uses the script's command, for users who have only that right.
type stringProbe struct {
	longest int64
	parse   func(s *Summary, text string)
	start   *redis.StringCmd
	whole   *redis.StringCmd
}

func (p *stringProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.start = pipe.GetRange(ctx, key, 0, p.longest)
}

func (p *stringProbe) read(s *Summary) bool {
	if s.failed(p.start) {
		return s.Err != nil
	}
	p.take(s, p.start)
	return false
}

func (p *stringProbe) askMore(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.whole = pipe.Get(ctx, key)
}

func (p *stringProbe) readMore(s *Summary) {
	s.Err = nil
	if !s.failed(p.whole) {
		p.take(s, p.whole)
	}
}

func (p *stringProbe) take(s *Summary, text *redis.StringCmd) {
	if text.Val() != "" {
		s.Exists = true
		p.parse(s, text.Val())
	}
}

func (s *Summary) readBucket(text string) {
	bucket, ok := layout.ParseBucket(text)
	if !ok {
		s.damaged("it holds %s, want the %d or %d bytes of a bucket", layout.ShortQuote(text),
			layout.BucketLength, layout.LongBucket)
		return
	}
	s.Bucket = &bucket
}
