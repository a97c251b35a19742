package stored

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// HasHistory reports whether the state tells when permits were granted, so that UpTo can count them.
func (s Summary) HasHistory() bool {
	return s.Exists && s.Damage == "" && s.Err == nil && s.Bucket == nil && s.Config == nil
}

// UpTo counts the permits that were granted up to each of the moments, of those stored; of a ring, those of
// the slices before the one of the moment. It reads a changing key in several steps, so that a count may be
// off by what happens meanwhile. Cost: a short command a moment, for a list as many as its length halves.
func (s Summary) UpTo(ctx context.Context, rdb *redis.Client, moments []int64) ([]int64, error) {
	switch s.Key.Code {
	case "ll1":
		return entriesUpTo(ctx, rdb, s, moments, parseMoment)
	case "zl1":
		return zsetUpTo(ctx, rdb, s, moments)
	case "sr1":
		return ringUpTo(ctx, rdb, s, moments)
	}
	return grantsUpTo(ctx, rdb, s, moments)
}
