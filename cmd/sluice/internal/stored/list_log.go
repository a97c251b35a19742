package stored

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// maxTime is the latest time that the scripts accept, in microseconds since 1970.
const maxTime = 1<<53 - 1

// parseTime parses decimal digits as the scripts do.
func parseTime(text string) (int64, error) {
	at, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > 16 || at > maxTime {
		return 0, fmt.Errorf("holds %s, want a time in microseconds", shortQuote(text))
	}
	return int64(at), nil
}

// shortQuote returns a text in quotes, cut if it is long.
func shortQuote(text string) string {
	if len(text) > 24 {
		return strconv.Quote(text[:24]) + "..."
	}
	return strconv.Quote(text)
}

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
	s.Oldest, errFirst = parseTime(p.first.Val())
	s.Newest, errFinal = parseTime(p.final.Val())
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
			at, err := valueOf(reply, maxTime, parse) // an entry that is missing by now is later than every time
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
