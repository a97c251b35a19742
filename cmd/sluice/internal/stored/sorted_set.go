package stored

import (
	"context"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

func scoreMoment(score float64) (int64, error) {
	if !(score >= 0 && score <= layout.MaxTime) || score != math.Trunc(score) {
		return 0, fmt.Errorf("has the score %v, want a time in microseconds", score)
	}
	return int64(score), nil
}

// zsetProbe reads a zset_log: one member for each permit, its score is the time.
type zsetProbe struct {
	one
	size         *redis.IntCmd
	first, final *redis.ZSliceCmd
}

func (p *zsetProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.size = pipe.ZCount(ctx, key, "-inf", "+inf")
	p.first, p.final = pipe.ZRangeWithScores(ctx, key, 0, 0), pipe.ZRangeWithScores(ctx, key, -1, -1)
}

func (p *zsetProbe) read(s *Summary) bool {
	if s.failed(p.size, p.first, p.final) || len(p.first.Val()) == 0 || len(p.final.Val()) == 0 {
		return false
	}
	s.Exists, s.Entries, s.Permits = true, p.size.Val(), p.size.Val()
	var errFirst, errFinal error
	s.Oldest, errFirst = scoreMoment(p.first.Val()[0].Score)
	s.Newest, errFinal = scoreMoment(p.final.Val()[0].Score)
	s.damagedEnds("member", errFirst, errFinal)
	return false
}
