package stored

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// grant is one entry of a sorted set: permits granted for a moment.
type grant struct {
	at            int64
	before, after int64 // permits granted up to it, without and with its own
}

// logEntry reads a member of a zset_log, which is one permit. It knows nothing of those before it.
func logEntry(z redis.Z) (grant, error) {
	at, err := scoreMoment(z.Score)
	return grant{at: at}, err
}

// grantEntry reads a member of a token_bucket: struct.pack(">I8I4", permits before it, its permits).
func grantEntry(z redis.Z) (grant, error) {
	at, err := scoreMoment(z.Score)
	if err != nil {
		return grant{}, err
	}
	member, _ := z.Member.(string)
	if len(member) != 12 {
		return grant{}, fmt.Errorf("is %s, want 12 bytes", shortQuote(member))
	}
	before := binary.BigEndian.Uint64([]byte(member))
	count := binary.BigEndian.Uint32([]byte(member[8:]))
	if count == 0 || before > mostMoment-uint64(count) {
		return grant{}, fmt.Errorf("is %s, want a running total and permits", strconv.Quote(member))
	}
	return grant{at: at, before: int64(before), after: int64(before) + int64(count)}, nil
}

func scoreMoment(score float64) (int64, error) {
	if !(score >= 0 && score <= mostMoment) || score != math.Trunc(score) {
		return 0, fmt.Errorf("has the score %v, want a moment in microseconds", score)
	}
	return int64(score), nil
}

// zsetProbe reads a zset_log, or the permits of a token_bucket.
type zsetProbe struct {
	one
	entry        func(redis.Z) (grant, error)
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
	first, err := p.entry(p.first.Val()[0])
	if err != nil {
		s.damaged("the first member %v", err)
	}
	final, err := p.entry(p.final.Val()[0])
	if err != nil {
		s.damaged("the last member %v", err)
	}
	s.Oldest, s.Newest = first.at, final.at
	if final.after > 0 {
		s.Permits = final.after - first.before
	}
	if s.Damage == "" && s.Permits < 0 {
		s.damaged("the running totals fall from %d to %d", first.before, final.after)
	}
	return false
}

// zsetUpTo counts the members up to each of the moments: a ZCOUNT each.
func zsetUpTo(ctx context.Context, rdb *redis.Client, s Summary, moments []int64) ([]int64, error) {
	pipe := rdb.Pipeline()
	replies := make([]*redis.IntCmd, len(moments))
	for i, at := range moments {
		replies[i] = pipe.ZCount(ctx, s.Key.Text, "-inf", strconv.FormatInt(at, 10))
	}
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	counts := make([]int64, len(moments))
	for i, reply := range replies {
		if err := reply.Err(); err != nil {
			return nil, err
		}
		counts[i] = reply.Val()
	}
	return counts, nil
}

// grantsUpTo counts the permits of a token_bucket up to each of the moments: the entry behind a moment says
// what was granted before it.
func grantsUpTo(ctx context.Context, rdb *redis.Client, s Summary, moments []int64) ([]int64, error) {
	pipe := rdb.Pipeline()
	replies := make([]*redis.ZSliceCmd, len(moments))
	for i, at := range moments {
		replies[i] = pipe.ZRangeByScoreWithScores(ctx, s.Key.Text,
			&redis.ZRangeBy{Min: "(" + strconv.FormatInt(at, 10), Max: "+inf", Count: 1})
	}
	first := pipe.ZRangeWithScores(ctx, s.Key.Text, 0, 0)
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	totals := make([]int64, len(moments))
	start, err := beforeFirst(first, 0)
	if err != nil {
		return nil, err
	}
	for i, reply := range replies {
		total, err := beforeFirst(reply, start+s.Permits)
		if err != nil {
			return nil, err
		}
		totals[i] = total - start
	}
	return totals, nil
}

// beforeFirst is the running total before the entry in a reply, or what it is when there is none.
func beforeFirst(reply *redis.ZSliceCmd, otherwise int64) (int64, error) {
	found, err := reply.Result()
	if err != nil || len(found) == 0 {
		return otherwise, err
	}
	entry, err := grantEntry(found[0])
	if err != nil {
		return 0, fmt.Errorf("a member %w", err)
	}
	return entry.before, nil
}

// Config is the rate that a token_bucket stores.
type Config struct {
	Rate, Interval int64 // permits, and microseconds until one comes back
	PerClient      bool  // each client has the rate to itself
}

// configProbe reads the config of a token_bucket.
type configProbe struct {
	one
	fields *redis.SliceCmd
	exists *redis.IntCmd
}

func (p *configProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.fields, p.exists = pipe.HMGet(ctx, key, "rate", "interval", "scope"), pipe.Exists(ctx, key)
}

func (p *configProbe) read(s *Summary) bool {
	if s.failed(p.fields, p.exists) || p.exists.Val() == 0 {
		return false
	}
	s.Exists = true
	rate, ok1 := numberIn(p.fields.Val()[0], 1, 1_000_000)
	interval, ok2 := numberIn(p.fields.Val()[1], 1000, 31_622_400_000_000)
	scope, ok3 := numberIn(p.fields.Val()[2], 0, 1)
	if !ok1 || !ok2 || !ok3 {
		s.damaged("its rate, interval and scope are %v, want numbers in their ranges", p.fields.Val())
		return false
	}
	s.Config = &Config{Rate: rate, Interval: interval, PerClient: scope == 1}
	return false
}

// numberIn reads a field that holds digits.
func numberIn(field any, least, most int64) (int64, bool) {
	text, _ := field.(string)
	n, err := parseMoment(text)
	return n, err == nil && n >= least && n <= most
}
