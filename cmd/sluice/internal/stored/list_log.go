package stored

import (
	"context"
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

// entriesUpTo counts the entries of a list up to each time by binary search. All times share the round trips: 20 of
// them for a million entries, with one LINDEX for each time.
func entriesUpTo(
	ctx context.Context, rdb *redis.Client, s Summary, times []int64, parse func(entry string) (at int64, err error),
) ([]int64, error) {
	low, high := make([]int64, len(times)), make([]int64, len(times))
	for i := range high {
		high[i] = s.Entries
	}
	for {
		pipe := rdb.Pipeline()
		asked := map[int]*redis.StringCmd{}
		for i := range times {
			if low[i] < high[i] {
				asked[i] = pipe.LIndex(ctx, s.Key.Text, (low[i]+high[i])/2)
			}
		}
		if len(asked) == 0 {
			return low, nil
		}
		if err := Exec(ctx, pipe); err != nil {
			return nil, err
		}
		for i, reply := range asked {
			middle := (low[i] + high[i]) / 2
			at, err := valueOf(reply, layout.MaxTime, parse) // an entry that is missing by now is later than every time
			switch {
			case err != nil:
				return nil, fmt.Errorf("entry %d %w", middle, err)
			case at <= times[i]:
				low[i] = middle + 1
			default:
				high[i] = middle
			}
		}
	}
}

// valueOf returns what parse reads in the entry of a reply, or the fallback if there is no entry.
func valueOf(reply *redis.StringCmd, fallback int64, parse func(string) (int64, error)) (int64, error) {
	text, err := reply.Result()
	switch err {
	case nil:
		return parse(text)
	case redis.Nil:
		return fallback, nil
	}
	return 0, err
}
