package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// The sizes of loads.
var (
	serveCallers     = []int{1, 16, 256}
	serveKeys        = []int{1000, 10} // of each limit of 100 a second: 10 of them are full
	serveDescriptors = []int{1, 3}
)

// serviceLimits are the names of the equal limits in serviceFile.
var serviceLimits = []string{"user", "path", "tenant"}

// serve measures sluiced beside envoyproxy/ratelimit, each a process of its own, on one Redis: loads, and an audit.
func (b *bench) serve(ctx context.Context) ([]*Row, error) {
	folder, err := os.MkdirTemp("", "sluice-serve-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	services, err := b.startServices(ctx, folder)
	if err != nil {
		return nil, err
	}
	defer stopServices(services)
	var rows []*Row
	for _, callers := range serveCallers {
		for _, keys := range serveKeys {
			for _, descriptors := range serveDescriptors {
				of, err := b.serveLoads(ctx, services, callers, keys, descriptors)
				if err != nil {
					return nil, err
				}
				rows = append(rows, of...)
			}
		}
	}
	for _, s := range services {
		b.progress("%s: audit", s.name)
		row, err := s.audit(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// serveLoads is one load on each service in turn, in each round. sluiced is the first.
func (b *bench) serveLoads(ctx context.Context, services []*service, callers, keys, descriptors int) ([]*Row, error) {
	load := load{goroutines: callers, batch: 1, span: b.serveSpan}
	size := fmt.Sprintf("%d | %d | %d", callers, keys, descriptors)
	b.progress("callers, keys, descriptors: %s", size)
	requests := make([]*ratelimitv3.RateLimitRequest, 1000) // about each limit's keys
	for i := range requests {
		var entries []string
		for _, name := range serviceLimits[:descriptors] {
			entries = append(entries, name, subjectOf(rand.IntN(keys)))
		}
		requests[i] = request(entries...)
	}
	rows := map[*service]*Row{}
	for _, s := range services {
		rows[s] = &Row{Name: size, Where: s.name}
	}
	err := inTurn(b, services, func(s *service, _ int) error {
		load.call = func(ctx context.Context, i int) error {
			_, err := s.ask(ctx, requests[i%len(requests)])
			return err
		}
		before, err1 := s.cpu()
		sample, err2 := b.load(ctx, load)
		after, err3 := s.cpu()
		if err := errors.Join(err1, err2, err3); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rows[s].noteLoad(sample)
		rows[s].note("service cpu us", (after-before)/float64(len(sample.latencies)))
		return nil
	})
	var list []*Row
	for _, s := range services {
		if err != nil {
			return nil, err
		}
		for round, sluiced := range rows[services[0]].rounds["per second"] {
			rows[s].note("sluiced to it", sluiced/rows[s].rounds["per second"][round])
		}
		list = append(list, rows[s])
	}
	return list, nil
}

// audit attacks a limit across the edge of its window, and counts what calls about two limits, of which one is full,
// are charged to the other.
func (s *service) audit(ctx context.Context) (*Row, error) {
	decide := func(ctx context.Context, subject string) (bool, error) {
		return s.grants(ctx, request("user", subject))
	}
	attack := saturate(ctx, slices.Repeat([]decider{decide}, auditors), time.Second, 1500*time.Millisecond, s.name)
	row := &Row{Name: "audit", Where: s.name, Audits: []Audit{attack}}
	var err error
	remaining := func() int64 {
		response, failed := s.ask(ctx, request("wide", "charged"))
		err = errors.Join(err, failed)
		return int64(response.GetStatuses()[0].GetLimitRemaining())
	}
	charged, denied := remaining(), 0
	for begin := time.Now(); time.Since(begin) < time.Second && err == nil; {
		granted, failed := s.grants(ctx, request("user", "full", "wide", "charged"))
		if err = errors.Join(err, failed); granted {
			charged--
		} else {
			denied++
		}
	}
	row.note("charged", float64(charged-remaining()-1))
	row.note("denied", float64(denied))
	return row, err
}
