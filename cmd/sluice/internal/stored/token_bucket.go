package stored

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// grantsProbe reads the permits of a token_bucket: one entry for each grant, oldest first.
type grantsProbe struct{ listProbe }

func (p *grantsProbe) read(s *Summary) bool {
	if !p.found(s) {
		return false
	}
	first, errFirst := layout.ParseGrant(p.first.Val())
	final, errFinal := layout.ParseGrant(p.final.Val())
	s.Oldest, s.Newest = first.At, final.At
	s.damagedEnds("entry", errFirst, errFinal)
	switch {
	case s.Damage != "":
	case final.After < first.Before:
		s.damaged("the running totals fall from %d to %d", first.Before, final.After)
	default:
		s.Permits = final.After - first.Before
	}
	return false
}

// grantsUpTo counts the permits up to each time. The first entry after a time holds the total granted before it.
func grantsUpTo(ctx context.Context, rdb *redis.Client, s Summary, times []int64) ([]int64, error) {
	entries, err := entriesUpTo(ctx, rdb, s, times, func(packed string) (int64, error) {
		entry, err := layout.ParseGrant(packed)
		return entry.At, err
	})
	if err != nil {
		return nil, err
	}
	pipe := rdb.Pipeline()
	first, behind := pipe.LIndex(ctx, s.Key.Text, 0), make([]*redis.StringCmd, len(times))
	for i, index := range entries {
		behind[i] = pipe.LIndex(ctx, s.Key.Text, index)
	}
	if err := Exec(ctx, pipe); err != nil {
		return nil, err
	}
	before := func(packed string) (int64, error) {
		entry, err := layout.ParseGrant(packed)
		return entry.Before, err
	}
	start, err := valueOf(first, 0, before)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(times))
	for i, reply := range behind {
		total, err := valueOf(reply, start+s.Permits, before)
		if err != nil {
			return nil, err
		}
		counts[i] = total - start
	}
	return counts, nil
}

// Config is the rate that a token_bucket stores.
type Config struct {
	Rate      int64 `json:"rate"`       // permits
	Interval  int64 `json:"interval"`   // microseconds until one comes back
	PerClient bool  `json:"per_client"` // each client has the rate to itself
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

// shortQuotes returns fields in quotes, cut if they are long; "none" for missing fields.
func shortQuotes(fields []any) string {
	texts := make([]string, len(fields))
	for i, field := range fields {
		texts[i] = "none"
		if text, found := field.(string); found {
			texts[i] = layout.ShortQuote(text)
		}
	}
	return strings.Join(texts, ", ")
}

// numberIn parses a field of digits and reports whether it is from lower to upper.
func numberIn(field any, lower, upper int64) (int64, bool) {
	text, _ := field.(string)
	n, err := layout.ParseTime(text)
	return n, err == nil && n >= lower && n <= upper
}
