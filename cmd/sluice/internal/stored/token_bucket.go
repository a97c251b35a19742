package stored

import (
	"context"
	"errors"
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

// grantsSince counts the permits granted after a time. The first entry after it holds the total granted before it.
func (s Summary) grantsSince(ctx context.Context, rdb *redis.Client, at int64) (int64, error) {
	index, err := s.entriesUpTo(ctx, rdb, at, func(packed string) (int64, error) {
		entry, err := layout.ParseGrant(packed)
		return entry.At, err
	})
	if err != nil || index == s.Entries {
		return 0, err
	}
	var entries [2]layout.Grant // that one, and the last one
	for i, index := range []int64{index, -1} {
		packed, err := rdb.LIndex(ctx, s.Key.Text, index).Result()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		if err == nil {
			entries[i], err = layout.ParseGrant(packed)
		}
		if err != nil {
			return 0, err
		}
	}
	return entries[1].After - entries[0].Before, nil
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
