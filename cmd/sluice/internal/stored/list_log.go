package stored

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// mostMoment is the last moment that the scripts take for one.
const mostMoment = 1<<53 - 1

// parseMoment reads decimal digits as the scripts do.
func parseMoment(text string) (int64, error) {
	at, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > 16 || at > mostMoment {
		return 0, fmt.Errorf("holds %s, want a moment in microseconds", shortQuote(text))
	}
	return int64(at), nil
}

// shortQuote is the beginning of a text in quotes.
func shortQuote(text string) string {
	if len(text) > 24 {
		return strconv.Quote(text[:24]) + "..."
	}
	return strconv.Quote(text)
}

// listProbe reads a list_log: an entry a permit, oldest first.
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
	var errs [2]error
	s.Oldest, errs[0] = parseMoment(p.first.Val())
	s.Newest, errs[1] = parseMoment(p.final.Val())
	for i, err := range errs {
		if err != nil {
			s.damaged("the %s entry %v", [...]string{"first", "last"}[i], err)
		}
	}
	return false
}

// found reports whether there is a list that can be read.
func (p *listProbe) found(s *Summary) bool {
	if s.failed(p.length, p.first, p.final) || p.length.Val() == 0 {
		return false
	}
	s.Exists, s.Entries = true, p.length.Val()
	return true
}

// entriesUpTo counts the entries of a list up to each of the moments by halving, all of them in the same round
// trips: 20 of them for a million entries, each with one LINDEX a moment.
func entriesUpTo(
	ctx context.Context, rdb *redis.Client, s Summary, moments []int64, parse func(entry string) (at int64, err error),
) ([]int64, error) {
	low, high := make([]int64, len(moments)), make([]int64, len(moments))
	for i := range high {
		high[i] = s.Entries
	}
	for {
		pipe := rdb.Pipeline()
		asked := map[int]*redis.StringCmd{}
		for i := range moments {
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
			at, err := momentOf(reply, parse)
			switch {
			case err != nil:
				return nil, fmt.Errorf("entry %d %w", middle, err)
			case at <= moments[i]:
				low[i] = middle + 1
			default:
				high[i] = middle
			}
		}
	}
}

// momentOf is that of the entry in a reply. One that is not there any more was behind every moment.
func momentOf(reply *redis.StringCmd, parse func(string) (int64, error)) (int64, error) {
	text, err := reply.Result()
	switch err {
	case nil:
		return parse(text)
	case redis.Nil:
		return mostMoment, nil
	}
	return 0, err
}
