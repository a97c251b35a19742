package stored

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Slots are the leases of a concurrency.
type Slots struct {
	Live int64 // leases that have not ended
	Last int64 // when the last one ends
}

// Holder is a holder of a slot.
type Holder struct {
	ID   string `json:"id"`
	Ends int64  `json:"ends"` // when its lease ends
}

// slotsProbe reads a concurrency: one member for each lease, its score is when the lease ends. The second round counts
// the live ones, by the clock that the first has read.
type slotsProbe struct {
	size  *redis.IntCmd
	final *redis.ZSliceCmd
	live  *redis.IntCmd
	now   int64
}

func (p *slotsProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.size = pipe.ZCount(ctx, key, "-inf", "+inf")
	p.final = pipe.ZRangeWithScores(ctx, key, -1, -1)
}

func (p *slotsProbe) read(s *Summary) bool {
	if s.failed(p.size, p.final) || len(p.final.Val()) == 0 {
		return false
	}
	s.Exists, s.Entries, p.now = true, p.size.Val(), s.Now
	last := p.final.Val()[0].Score
	if last <= float64(s.Now) {
		s.Slots = &Slots{}
		return false
	}
	ends, err := scoreMoment(last)
	if err != nil {
		s.damaged("the last lease %v", err)
		return false
	}
	s.Slots = &Slots{Last: ends}
	return true
}

func (p *slotsProbe) askMore(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.live = pipe.ZCount(ctx, key, "("+strconv.FormatInt(p.now, 10), "+inf")
}

func (p *slotsProbe) readMore(s *Summary) {
	if !s.failed(p.live) {
		s.Slots.Live = p.live.Val()
		s.Permits = s.Slots.Live
	}
}

// Holders returns those of the live leases that end first, up to most of them. It reads them with one ZRANGE.
func (s Summary) Holders(ctx context.Context, rdb *redis.Client, most int64) ([]Holder, error) {
	from := -s.Slots.Live
	members, err := rdb.ZRangeWithScores(ctx, s.Key.Text, from, min(from+most-1, -1)).Result()
	if err != nil {
		return nil, err
	}
	var holders []Holder
	for _, member := range members {
		ends, err := scoreMoment(member.Score)
		if err != nil {
			return nil, fmt.Errorf("%w: a lease %w", ErrDamaged, err)
		}
		holders = append(holders, Holder{ID: member.Member.(string), Ends: ends})
	}
	return holders, nil
}
