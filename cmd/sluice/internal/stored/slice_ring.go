package stored

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Ring is the header of a slice_ring.
type Ring struct {
	Slice int64 `json:"slice"` // length of a slice in microseconds
	Size  int64 `json:"size"`  // slices
	Last  int64 `json:"-"`     // number of the last slice: its start / Slice
	total int64 // permits granted so far, modulo 2^44
}

const (
	ringHeader = 24
	ringCell   = 7       // bytes
	ringWrap   = 1 << 44 // of totals
	maxSlices  = 10000
)

// cellTotal decodes the total of a cell: its upper 44 bits. The lower 12 name the next slice with permits.
func cellTotal(cell string) int64 { return bigEndian(cell[:6]) >> 4 }

// parseRing decodes the header: slice, size, last slice, total.
func parseRing(header string) (*Ring, error) {
	if len(header) < ringHeader {
		return nil, fmt.Errorf("it holds %d bytes, want %d and a ring", len(header), ringHeader)
	}
	r := &Ring{
		Slice: bigEndian(header[:6]),
		Size:  bigEndian(header[6:12]),
		Last:  bigEndian(header[12:18]),
		total: bigEndian(header[18:24]),
	}
	if r.Slice < 1000 || r.Slice > 86_400_000_000 || r.Size < 1 || r.Size > maxSlices || r.Last > maxTime/r.Slice {
		return nil, fmt.Errorf("it holds %d slices of %d us up to slice %d, want up to %d slices",
			r.Size, r.Slice, r.Last, maxSlices)
	}
	return r, nil
}

// Current returns the number of the current slice: that of now, but never before the last one written.
func (r Ring) Current(now int64) int64 { return max(now/r.Slice, r.Last) }

// Start returns the first time that the ring covers.
func (r Ring) Start(now int64) int64 { return (r.Current(now) - r.Size + 1) * r.Slice }

// offset returns the position of a slice's cell in the string. The cell holds the total before the slice.
func (r Ring) offset(slice int64) int64 { return ringHeader + ringCell*(slice%r.Size) }

// since returns how many permits were granted after the total was before.
func (r Ring) since(before int64) int64 { return (r.total%ringWrap - before + ringWrap) % ringWrap }

// ringProbe reads the header, then the cell of the first slice that the ring covers now.
type ringProbe struct {
	header *redis.StringCmd
	first  *redis.StringCmd
	ring   *Ring
	now    int64
}

func (p *ringProbe) ask(ctx context.Context, pipe redis.Pipeliner, key string) {
	p.header = pipe.GetRange(ctx, key, 0, ringHeader-1)
}

func (p *ringProbe) read(s *Summary) bool {
	if s.failed(p.header) || p.header.Val() == "" {
		return false
	}
	s.Exists = true
	ring, err := parseRing(p.header.Val())
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
	at := p.ring.offset(max(p.ring.Start(p.now)/p.ring.Slice, 0))
	p.first = pipe.GetRange(ctx, key, at, at+ringCell-1)
}

func (p *ringProbe) readMore(s *Summary) {
	switch {
	case s.failed(p.first):
	case len(p.first.Val()) != ringCell:
		s.damaged("the ring ends early, want a cell for each of its %d slices", p.ring.Size)
	default:
		s.Permits = p.ring.since(cellTotal(p.first.Val()))
	}
}

// ringUpTo counts the permits of the slices before each time's slice: one GETRANGE of up to 70 KB.
func ringUpTo(ctx context.Context, rdb *redis.Client, s Summary, times []int64) ([]int64, error) {
	cells, err := rdb.GetRange(ctx, s.Key.Text, ringHeader, ringHeader+ringCell*s.Ring.Size-1).Result()
	if err != nil {
		return nil, err
	}
	if int64(len(cells)) != ringCell*s.Ring.Size {
		return nil, fmt.Errorf("the ring ends early, want a cell for each of its %d slices", s.Ring.Size)
	}
	counts := make([]int64, len(times))
	for i, at := range times {
		slice := max(at/s.Ring.Slice, s.Ring.Last-s.Ring.Size+1, 0)
		counts[i] = s.Permits
		if slice <= s.Ring.Last {
			before := cellTotal(cells[ringCell*(slice%s.Ring.Size):])
			counts[i] = s.Permits - s.Ring.since(before)
		}
	}
	return counts, nil
}
