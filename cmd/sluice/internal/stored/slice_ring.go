package stored

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Ring is the header of a window of a slice_ring.
type Ring = layout.Ring

// ringProbe reads the header, and if the window has moved, the cell of its oldest slice.
type ringProbe struct {
	slice, size int64
	header      *redis.StringCmd
	oldest      *redis.StringCmd
	ring        *Ring
	now         int64
}

func (p *ringProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.header = pipe.GetRange(ctx, key, 0, layout.RingHeader-1)
}

func (p *ringProbe) read(s *Summary) bool {
	if s.failed(p.header) || p.header.Val() == "" {
		return false
	}
	s.Exists, s.Entries = true, p.size
	ring, err := layout.ParseRing(p.header.Val(), p.slice, p.size)
	if err != nil {
		s.damaged("%v", err)
		return false
	}
	p.ring, p.now = ring, s.Now
	s.Ring, s.Oldest, s.Newest = ring, ring.Oldest(s.Now)*ring.Slice, ring.Last
	if ring.Empty(s.Now) {
		return false
	}
	s.Permits = ring.Held()
	return ring.Moved(s.Now)
}

func (p *ringProbe) askMore(ctx context.Context, pipe redis.Pipeliner, key string) {
	at := p.ring.Offset(max(p.ring.Oldest(p.now), 0))
	p.oldest = pipe.GetRange(ctx, key, at, at+layout.RingCell-1)
}

func (p *ringProbe) readMore(s *Summary) {
	switch {
	case s.failed(p.oldest):
	case len(p.oldest.Val()) != layout.RingCell:
		s.damaged("the ring ends early, want a cell for each of its %d slices", s.Entries)
	default:
		s.Permits = p.ring.Since(layout.CellTotal(p.oldest.Val()))
	}
}
