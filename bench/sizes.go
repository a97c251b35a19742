package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-redis/sluice"
)

// A Size is what one of many subjects takes: used_memory, divided by their number. It has what MEMORY USAGE leaves out:
// the entries of the two tables of keys, and what the allocator rounds up.
type Size struct {
	Subject string  `json:"subject"`
	Permits int64   `json:"permits"`
	Bytes   float64 `json:"bytes"`
}

// sized are the scripts of a sizing.
func sized() []subject {
	list := []subject{ring(201, 1), ring(201, 2), budget(201), newOurs(sluice.ConcurrencyV1(), subject{
		kind: grants, keys: []string{""}, most: 1e4, atOnce: 1, longest: day,
		args: func(a ask) []any { return []any{a.limit, a.window.Microseconds(), 0, a.id} },
	})}
	for _, s := range ours() {
		if s.kind != rings {
			list = append(list, s)
		}
	}
	return list
}

// counted are the permits of each subject. A small sorted set has up to 128 entries; ids of a budget grow evenly.
func (s subject) counted() []int64 {
	if s.kind == rings || s.kind == buckets {
		return []int64{1, 11}
	}
	return []int64{1, 100, 200}
}

// sizing fills a server with subjects, each with so many permits.
func (b *bench) sizing(ctx context.Context) ([]Size, error) {
	var rows []Size
	for _, s := range sized() {
		for _, permits := range s.counted() {
			bytes, err := b.sizeOf(ctx, s, permits)
			if err != nil {
				return nil, err
			}
			b.progress("sizes: %s, %d permits: %.0f bytes", s.name, permits, bytes)
			rows = append(rows, Size{s.name, permits, bytes})
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}

func (b *bench) sizeOf(ctx context.Context, s subject, permits int64) (float64, error) {
	fill, err := b.server.ScriptLoad(ctx, s.filler()).Result()
	if err != nil {
		return 0, err
	}
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	before, err := b.server.usedMemory(ctx)
	if err != nil {
		return 0, err
	}
	each, h := s.spreadOut(permits)
	args := append([]any{h.from.UnixMicro(), h.step.Microseconds(), h.calls},
		s.args(ask{limit: permits, window: s.longest, permits: each, id: "loader<id>"})...) // 22 bytes, as the loader's
	const pipelined = 50 // so that its buffers do not count
	for done := 0; done < b.subjects; done += pipelined {
		p := b.server.Pipeline()
		for i := done; i < min(done+pipelined, b.subjects); i++ {
			p.EvalSha(ctx, fill, s.at(fmt.Sprintf("sluice:api:{user-%05d}:xx1", i)), args...)
		}
		if _, err := p.Exec(ctx); err != nil {
			return 0, fmt.Errorf("filling %s: %w", s.name, err)
		}
	}
	after, err := b.server.usedMemory(ctx)
	return (after - before) / float64(b.subjects), err
}

func (s *server) usedMemory(ctx context.Context) (float64, error) {
	info, err := s.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	used, _ := infoField(info, "used_memory:")
	return strconv.ParseFloat(used, 64)
}
