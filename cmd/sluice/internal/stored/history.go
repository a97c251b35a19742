package stored

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// HasHistory reports whether the state says when permits were granted, so that UpTo can count them.
func (s Summary) HasHistory() bool {
	return s.Exists && s.Damage == "" && s.Err == nil && s.Bucket == nil && s.Config == nil
}

// UpTo counts the stored permits that were granted up to each time; of a ring, those of the slices before the time's
// slice. It reads the key in several steps, so counts may be wrong by what changes in between. Cost: one short command
// for each time; for a list of n entries log2(n) of them.
func (s Summary) UpTo(ctx context.Context, rdb *redis.Client, times []int64) ([]int64, error) {
	switch s.Key.Code {
	case "ll1":
		return entriesUpTo(ctx, rdb, s, times, parseTime)
	case "zl1":
		return zsetUpTo(ctx, rdb, s, times)
	case "sr1":
		return ringUpTo(ctx, rdb, s, times)
	}
	return grantsUpTo(ctx, rdb, s, times)
}
