package stored

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Ring is the header of a slice_ring.
type Ring = layout.Ring

// ringProbe reads the header, then the cell of the first slice that the longest window covers now.
type ringProbe struct {
	header  *redis.StringCmd
	first   *redis.StringCmd
	longest layout.Section
	now     int64
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
	p.longest, p.now = ring.Longest(), s.Now
	for _, section := range ring.Sections {
		s.Entries += section.Size
	}
	s.Ring, s.Oldest, s.Newest = ring, p.longest.Start(s.Now), ring.Last
	return !p.longest.Left(s.Now)
}

func (p *ringProbe) askMore(ctx context.Context, pipe redis.Pipeliner, key string) {
	at := p.longest.Offset(max(p.longest.Start(p.now)/p.longest.Slice, 0))
	p.first = pipe.GetRange(ctx, key, at, at+layout.RingCell-1)
}

func (p *ringProbe) readMore(s *Summary) {
	switch {
	case s.failed(p.first):
	case len(p.first.Val()) != layout.RingCell:
		s.damaged("the ring ends early, want a cell for each of its %d slices", s.Entries)
	default:
		s.Permits = p.longest.Since(layout.CellTotal(p.first.Val()))
	}
}
