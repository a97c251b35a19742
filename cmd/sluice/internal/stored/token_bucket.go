package stored

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// grant is an entry of a token_bucket: permits granted for a moment.
type grant struct {
	at            int64
	before, after int64 // permits granted up to it, without and with its own
}

// parseGrant reads struct.pack(">I8I8I4", moment, permits granted before it, its permits).
func parseGrant(packed string) (grant, error) {
	if len(packed) != 20 {
		return grant{}, fmt.Errorf("is %s, want 20 bytes", shortQuote(packed))
	}
	at, before := binary.BigEndian.Uint64([]byte(packed)), binary.BigEndian.Uint64([]byte(packed[8:]))
	count := uint64(binary.BigEndian.Uint32([]byte(packed[16:])))
	if at > mostMoment || count == 0 || before > mostMoment-count {
		return grant{}, fmt.Errorf("is %s, want a moment, a running total and permits", strconv.Quote(packed))
	}
	return grant{at: int64(at), before: int64(before), after: int64(before + count)}, nil
}

// grantsProbe reads the permits of a token_bucket: an entry a grant, oldest first.
type grantsProbe struct{ listProbe }

func (p *grantsProbe) read(s *Summary) bool {
	if !p.found(s) {
		return false
	}
	first, err := parseGrant(p.first.Val())
	if err != nil {
		s.damaged("the first entry %v", err)
	}
	final, err := parseGrant(p.final.Val())
	if err != nil {
		s.damaged("the last entry %v", err)
	}
	s.Oldest, s.Newest = first.at, final.at
	switch {
	case s.Damage != "":
	case final.after < first.before:
		s.damaged("the running totals fall from %d to %d", first.before, final.after)
	default:
		s.Permits = final.after - first.before
	}
	return false
}

// grantsUpTo counts the permits up to each of the moments: the entry behind a moment says what
// was granted before it.
func grantsUpTo(ctx context.Context, rdb *redis.Client, s Summary, moments []int64) ([]int64, error) {
	entries, err := entriesUpTo(ctx, rdb, s, moments, func(packed string) (int64, error) {
		entry, err := parseGrant(packed)
		return entry.at, err
	})
	if err != nil {
		return nil, err
	}
	pipe := rdb.Pipeline()
	first, behind := pipe.LIndex(ctx, s.Key.Text, 0), make([]*redis.StringCmd, len(moments))
	for i, index := range entries {
		behind[i] = pipe.LIndex(ctx, s.Key.Text, index)
	}
	if err := Exec(ctx, pipe); err != nil {
		return nil, err
	}
	start, err := totalBefore(first, 0)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(moments))
	for i, reply := range behind {
		total, err := totalBefore(reply, start+s.Permits)
		if err != nil {
			return nil, err
		}
		counts[i] = total - start
	}
	return counts, nil
}

// totalBefore is the running total before the entry in a reply, or what it is when there is none.
func totalBefore(reply *redis.StringCmd, otherwise int64) (int64, error) {
	packed, err := reply.Result()
	switch err {
	case nil:
		entry, err := parseGrant(packed)
		return entry.before, err
	case redis.Nil:
		return otherwise, nil
	}
	return 0, err
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
		s.damaged("its rate, interval and scope are %s, want numbers in their ranges", shortQuotes(p.fields.Val()))
		return false
	}
	s.Config = &Config{Rate: rate, Interval: interval, PerClient: scope == 1}
	return false
}

// shortQuotes are the beginnings of fields in quotes, "none" for those that are not there.
func shortQuotes(fields []any) string {
	var texts []string
	for _, field := range fields {
		text, found := field.(string)
		if !found {
			texts = append(texts, "none")
			continue
		}
		texts = append(texts, shortQuote(text))
	}
	return strings.Join(texts, ", ")
}

// numberIn reads a field that holds digits.
func numberIn(field any, least, most int64) (int64, bool) {
	text, _ := field.(string)
	n, err := parseMoment(text)
	return n, err == nil && n >= least && n <= most
}
