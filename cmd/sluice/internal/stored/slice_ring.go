package stored

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Ring is the header of a slice_ring.
type Ring = layout.Ring

// ringProbe reads the header, then the cell of the first slice that the ring covers now.
type ringProbe struct {
	header *redis.StringCmd
	first  *redis.StringCmd
	ring   *Ring
	now    int64
}

func (p *ringProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.header = pipe.GetRange(ctx, key, 0, layout.RingHeader-1)
}

func (p *ringProbe) read(s *Summary) bool {
	if s.failed(p.header) || p.header.Val() == "" {
		return false
	}
	s.Exists = true
	ring, err := layout.ParseRing(p.header.Val())
	if err != nil {
		s.damaged("%v", err)
		return false
	}
	s.Ring, s.Entries = ring, ring.Size
	s.Oldest, s.Newest = ring.Start(s.Now), ring.Last*ring.Slice
	p.ring, p.now = ring, s.Now
	return ring.Current(s.Now)-ring.Last < ring.Size
}

func (p *ringProbe) askMore(ctx context.Context, pipe redis.Pipeliner, key string) {
	at := p.ring.Offset(max(p.ring.Start(p.now)/p.ring.Slice, 0))
	p.first = pipe.GetRange(ctx, key, at, at+layout.RingCell-1)
}

func (p *ringProbe) readMore(s *Summary) {
	switch {
	case s.failed(p.first):
	case len(p.first.Val()) != layout.RingCell:
		s.damaged("the ring ends early, want a cell for each of its %d slices", p.ring.Size)
	default:
		s.Permits = p.ring.Since(layout.CellTotal(p.first.Val()))
	}
}

// ringUpTo counts the permits of the slices before each time's slice: one GETRANGE of up to 70 KB.
func ringUpTo(ctx context.Context, rdb *redis.Client, s Summary, times []int64) ([]int64, error) {
	end := layout.RingHeader + layout.RingCell*s.Ring.Size
	cells, err := rdb.GetRange(ctx, s.Key.Text, layout.RingHeader, end-1).Result()
	if err != nil {
		return nil, err
	}
	if int64(len(cells)) != layout.RingCell*s.Ring.Size {
		return nil, fmt.Errorf("the ring ends early, want a cell for each of its %d slices", s.Ring.Size)
	}
	counts := make([]int64, len(times))
	for i, at := range times {
		slice := max(at/s.Ring.Slice, s.Ring.Last-s.Ring.Size+1, 0)
		counts[i] = s.Permits
		if slice <= s.Ring.Last {
			before := layout.CellTotal(cells[layout.RingCell*(slice%s.Ring.Size):])
			counts[i] = s.Permits - s.Ring.Since(before)
		}
	}
	return counts, nil
}
