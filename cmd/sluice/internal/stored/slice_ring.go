package stored

import (
	"context"

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
