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

// Serve is sluiced beside envoyproxy/ratelimit, each a process of its own, on one Redis.
type Serve struct {
	Date   string       `json:"date"`
	Server string       `json:"server"`
	CPU    string       `json:"cpu"`
	Rounds int          `json:"rounds"`
	Loads  []ServeLoad  `json:"loads"`
	Audits []ServeAudit `json:"audits"`
}

// A ServeLoad is one service under so many callers at a time.
type ServeLoad struct {
	Service     string  `json:"service"`
	Callers     int     `json:"callers"`
	Keys        int     `json:"keys"`
	Descriptors int     `json:"descriptors"`
	PerSecond   Spread  `json:"per_second"`
	Ours        Spread  `json:"ours"` // sluiced's PerSecond to that of this service, in the same round
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	CPU         Spread  `json:"cpu_us"`       // of the service, a decision
	RedisCPU    Spread  `json:"redis_cpu_us"` // a decision
}

// A ServeAudit is what a service let through across the edge of a window, and what it charged for calls that it denied.
type ServeAudit struct {
	Service string `json:"service"`
	Audit
	Denied  int64 `json:"denied"`  // calls about two limits, of which one is full
	Charged int64 `json:"charged"` // hits, to the other
}

// The sizes of loads.
var (
	serveCallers     = []int{1, 16, 256}
	serveKeys        = []int{1000, 10} // of each limit of 100 a second: 10 of them are full
	serveDescriptors = []int{1, 3}
)

// serviceLimits are the names of the equal limits in serviceFile.
var serviceLimits = []string{"user", "path", "tenant"}

// serve measures all services.
func (b *bench) serve(ctx context.Context) (*Serve, error) {
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
	version, err := b.server.version(ctx)
	if err != nil {
		return nil, err
	}
	r := &Serve{Date: time.Now().UTC().Format(time.DateOnly), Server: version, CPU: cpu(), Rounds: b.serveRounds()}
	for _, callers := range serveCallers {
		for _, keys := range serveKeys {
			for _, descriptors := range serveDescriptors {
				rows, err := b.serveLoads(ctx, services, callers, keys, descriptors)
				if err != nil {
					return nil, err
				}
				r.Loads = append(r.Loads, rows...)
			}
		}
	}
	for _, s := range services {
		b.progress("serve: %s: audit", s.name)
		audit, err := s.audit(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		r.Audits = append(r.Audits, audit)
	}
	return r, b.server.FlushAll(ctx).Err()
}

func (b *bench) serveRounds() int { return max(b.rounds/3, 1) }

// serveRequests are about each limit's keys.
func serveRequests(keys, descriptors int) []*ratelimitv3.RateLimitRequest {
	requests := make([]*ratelimitv3.RateLimitRequest, 1000)
	for i := range requests {
		var entries []string
		for _, name := range serviceLimits[:descriptors] {
			entries = append(entries, name, subjectOf(rand.IntN(keys)))
		}
		requests[i] = request(entries...)
	}
	return requests
}

// A serviceLoad is a service under a load while it is measured.
type serviceLoad struct {
	load
	service       *service
	cpu, redisCPU []float64
}

// serveLoads is one load on each service in turn, in each round.
func (b *bench) serveLoads(ctx context.Context, services []*service, callers, keys, descriptors int) ([]ServeLoad, error) {
	b.progress("serve: %d callers, %d keys, %d descriptors", callers, keys, descriptors)
	requests := serveRequests(keys, descriptors)
	var loads []*serviceLoad
	for _, s := range services {
		loads = append(loads, &serviceLoad{service: s, load: load{goroutines: callers, caller: caller{s.name, 1,
			func(ctx context.Context, i int) error {
				_, err := s.ask(ctx, requests[i%len(requests)])
				return err
			}}}})
	}
	for round := range b.serveRounds() {
		if err := inTurn(round, loads, func(l *serviceLoad) error { return l.run(ctx, b) }); err != nil {
			return nil, err
		}
	}
	var rows []ServeLoad
	for _, l := range loads {
		ours := loads[0].load // sluiced is the first
		s := ours.serving(&l.load)
		rows = append(rows, ServeLoad{l.way, callers, keys, descriptors, spreadOf(l.perSecond), s.Ratio,
			l.serving(&l.load).P50, l.percentile(0.99), spreadOf(l.cpu), spreadOf(l.redisCPU)})
	}
	return rows, nil
}

// run is one round.
func (l *serviceLoad) run(ctx context.Context, b *bench) error {
	before, err1 := l.service.cpu()
	redisBefore, err2 := b.server.cpu(ctx)
	calls := len(l.latencies)
	err3 := l.load.run(ctx, b.serveSpan)
	after, err4 := l.service.cpu()
	redisAfter, err5 := b.server.cpu(ctx)
	decisions := float64(len(l.latencies) - calls)
	l.cpu = append(l.cpu, (after-before)/decisions)
	l.redisCPU = append(l.redisCPU, (redisAfter-redisBefore)/decisions)
	return errors.Join(err1, err2, err3, err4, err5)
}

// audit attacks a limit across the edge of its window, and counts what denied calls are charged.
func (s *service) audit(ctx context.Context) (ServeAudit, error) {
	most := attacks(ctx, func(ctx context.Context, subject string) (bool, error) {
		return s.grants(ctx, request("user", subject))
	}, s.name, fullLimit, time.Second)
	var err error
	a := ServeAudit{Service: s.name, Audit: most}
	remaining := func() int64 {
		response, failed := s.ask(ctx, request("wide", "charged"))
		err = errors.Join(err, failed)
		return int64(response.GetStatuses()[0].GetLimitRemaining())
	}
	before := remaining()
	for begin := time.Now(); time.Since(begin) < time.Second && err == nil; {
		granted, failed := s.grants(ctx, request("user", "full", "wide", "charged"))
		if err = errors.Join(err, failed); granted {
			a.Charged--
		} else {
			a.Denied++
		}
	}
	a.Charged += before - remaining() - 1
	return a, err
}

// Text is a cell of the page.
func (l ServeLoad) Text() string {
	return fmt.Sprintf("%.0f (%.1f / %.1f ms)", l.PerSecond.Median, l.P50/1000, l.P99/1000)
}

// Spent is cells of the processor times.
func (l ServeLoad) Spent() string { return fmt.Sprintf("%.0f | %.0f", l.CPU.Median, l.RedisCPU.Median) }

// Table is a row for each load, of both services beside each other.
func (s *Serve) Table() [][]ServeLoad { return slices.Collect(slices.Chunk(s.Loads, 2)) }
