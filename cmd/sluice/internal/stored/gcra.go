package stored

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Bucket is the state of a gcra.
type Bucket struct {
	Full    int64 // the moment from which on the bucket is full, rounded up to a microsecond
	Limit   int64 // of the last grant
	Written int64 // the moment of the last grant
}

// mostBucket is more bytes than a bucket has.
const mostBucket = 256

// bucketProbe reads a gcra: "<tat> <numerator> <limit> <written>". What may stand behind that is left to the
// scripts. The first round asks for no more bytes than a bucket has, whatever else the key may hold;
// the second asks as the script does, for users who may do only that.
type bucketProbe struct {
	start *redis.StringCmd
	whole *redis.StringCmd
}

func (p *bucketProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.start = pipe.GetRange(ctx, key, 0, mostBucket-1)
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
	fields := strings.Split(text, " ")
	if len(fields) < 4 {
		s.damaged("it holds %s, want <tat> <numerator> <limit> <written>", shortQuote(text))
		return
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := parseMoment(fields[i])
		if err != nil {
			s.damaged("it holds %s, want <tat> <numerator> <limit> <written>", shortQuote(text))
			return
		}
		numbers[i] = n
	}
	full := numbers[0]
	if numbers[1] > 0 {
		full++
	}
	s.Bucket = &Bucket{Full: full, Limit: numbers[2], Written: numbers[3]}
	s.Oldest, s.Newest = numbers[3], numbers[3]
}
