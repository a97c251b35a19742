package stored

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// listProbe reads a list_log: one entry for each permit, oldest first.
type listProbe struct {
	one
	length       *redis.IntCmd
	first, final *redis.StringCmd
}

func (p *listProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.length, p.first, p.final = pipe.LLen(ctx, key), pipe.LIndex(ctx, key, 0), pipe.LIndex(ctx, key, -1)
}

func (p *listProbe) read(s *Summary) bool {
	if !p.found(s) {
		return false
	}
	s.Permits = p.length.Val()
	var errFirst, errFinal error
	s.Oldest, errFirst = layout.ParseTime(p.first.Val())
	s.Newest, errFinal = layout.ParseTime(p.final.Val())
	s.damagedEnds("entry", errFirst, errFinal)
	return false
}

// found reports whether the list exists and can be read.
func (p *listProbe) found(s *Summary) bool {
	if s.failed(p.length, p.first, p.final) || p.length.Val() == 0 {
		return false
	}
	s.Exists, s.Entries = true, p.length.Val()
	return true
}

// entriesUpTo counts the entries of a list up to a time by binary search: one LINDEX for each step.
func (s Summary) entriesUpTo(
	ctx context.Context, rdb *redis.Client, at int64, parse func(entry string) (at int64, err error),
) (int64, error) {
	low, high := int64(0), s.Entries
	for low < high {
		middle := (low + high) / 2
		entry, err := rdb.LIndex(ctx, s.Key.Text, middle).Result()
		moment := int64(layout.MaxTime) // an entry that is missing by now is later than every time
		if err == nil {
			if moment, err = parse(entry); err != nil {
				return 0, fmt.Errorf("%w: entry %d %w", ErrDamaged, middle, err)
			}
		}
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return 0, err
		case moment <= at:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}
