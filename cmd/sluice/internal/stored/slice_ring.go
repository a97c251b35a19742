package stored

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Ring is a slice_ring, of one window.
type Ring = layout.Ring

// ringProbe reads a ring: 1.2 KB for a window of 200 slices.
type ringProbe struct {
	one
	window string // the last part of the key
	text   *redis.StringCmd
}

func (p *ringProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.text = pipe.GetRange(ctx, key, 0, layout.RingBytes-1)
}

func (p *ringProbe) read(s *Summary) bool {
	if s.failed(p.text) || p.text.Val() == "" {
		return false
	}
	s.Exists = true
	ring, err := layout.ParseRing(p.window, p.text.Val())
	if err != nil {
		s.damaged("%v", err)
		return false
	}
	s.Ring, s.Permits, s.Newest = ring, ring.Count(s.Now), ring.Last
	s.Oldest = (ring.Current(s.Now) - ring.Size + 1) * ring.Slice
	return false
}
