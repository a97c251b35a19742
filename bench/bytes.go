package main

import (
	"context"
	"fmt"
	"slices"
)

// A Memory is what one limiter takes: MEMORY USAGE with SAMPLES 0, over its keys.
type Memory struct {
	Subject string `json:"subject"`
	Permits int64  `json:"permits"`
	Slices  int64  `json:"slices,omitempty"`
	Bytes   int64  `json:"bytes"`
}

// Each is the bytes of a permit, or of a slice where there are slices.
func (m Memory) Each() float64 {
	if m.Slices > 0 {
		return float64(m.Bytes) / float64(m.Slices)
	}
	return float64(m.Bytes) / float64(m.Permits)
}

// memorySizes are the permits to weigh, as far as the limit and the run go. For a ring they make no difference.
func (b *bench) memorySizes(s subject) []int64 {
	if s.kind == rings {
		return []int64{1e3}
	}
	return slices.DeleteFunc([]int64{10, 100, 1e3, 1e4, 1e5}, func(n int64) bool { return n > min(s.most, b.mostLive) })
}

// memories fills one limiter for each row.
func (b *bench) memories(ctx context.Context, list []subject) ([]Memory, error) {
	var rows []Memory
	for _, s := range list {
		b.progress("bytes: %s", s.name)
		for _, permits := range b.memorySizes(s) {
			limiter := fmt.Sprintf("{bytes/%s/%d}", s.name, permits)
			each, h := s.spreadOut(permits)
			a := ask{limit: permits, window: s.longest, permits: each}
			if err := s.fill(ctx, b.server, limiter, a, h); err != nil {
				return nil, err
			}
			bytes, err := b.server.memory(ctx, s.at(limiter))
			if err != nil {
				return nil, err
			}
			rows = append(rows, Memory{s.name, permits, s.slices * s.windows, bytes})
		}
	}
	return rows, b.server.FlushAll(ctx).Err()
}
