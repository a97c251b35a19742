package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluice-redis/sluice/loader"
)

// Serve is sluiced beside envoyproxy/ratelimit and a service that grants every call at once, each a process of its own,
// on one Redis.
type Serve struct {
	Date   string       `json:"date"`
	Server string       `json:"server"`
	CPU    string       `json:"cpu"`
	Rounds int          `json:"rounds"`
	Loads  []ServeLoad  `json:"loads"`
	Audits []ServeAudit `json:"audits"`
	Full   []ServeFull  `json:"full"`
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

// A ServeFull is how many calls were granted of those about three limits that are full: callers who share a limit could
// refuse each other.
type ServeFull struct {
	Way     string `json:"way"`
	Granted Spread `json:"granted_per_second"`
	Most    int64  `json:"most"` // that the limits allow
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
	if r.Full, err = b.serveFull(ctx, services); err != nil {
		return nil, err
	}
	for _, s := range services {
		if s.name == emptyServer {
			continue
		}
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
		for i := range loads {
			if err := loads[(i+round)%len(loads)].run(ctx, b); err != nil {
				return nil, fmt.Errorf("%s: %w", loads[(i+round)%len(loads)].way, err)
			}
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

// fullCallers call about limits that are full.
const fullCallers = 16

// serveFull asks about 10 keys of three limits, by sluiced and by loader.All in this process, in turns.
func (b *bench) serveFull(ctx context.Context, services []*service) ([]ServeFull, error) {
	b.progress("serve: callers who share full limits")
	limits := loader.New(b.server.Client, loader.ShareRoundTrips())
	var rings []loader.SliceRing
	for _, name := range serviceLimits {
		rings = append(rings, limits.SliceRing(name, []loader.Limit{loader.PerSecond(100)}, loader.Slice(4*time.Millisecond)))
	}
	requests := serveRequests(10, len(serviceLimits))
	ways := []struct {
		name   string
		grants func(ctx context.Context, i int) (bool, error)
	}{
		{"loader.All", func(ctx context.Context, i int) (bool, error) {
			all := limits.All()
			for k, d := range requests[i%len(requests)].Descriptors {
				all.Allow(rings[k], d.Entries[0].Value)
			}
			d, err := all.Do(ctx)
			return d.Granted, err
		}},
		{sluiced, func(ctx context.Context, i int) (bool, error) {
			return services[0].grants(ctx, requests[i%len(requests)])
		}},
	}
	span, granted := 3*b.serveSpan, make([][]float64, len(ways))
	for range b.serveRounds() {
		for w, way := range ways {
			time.Sleep(1100 * time.Millisecond) // until the limits are empty
			var n atomic.Int64
			l := load{goroutines: fullCallers, caller: caller{way.name, 1, func(ctx context.Context, i int) error {
				ok, err := way.grants(ctx, i)
				if ok {
					n.Add(1)
				}
				return err
			}}}
			if err := l.run(ctx, span); err != nil {
				return nil, err
			}
			granted[w] = append(granted[w], float64(n.Load())/span.Seconds())
		}
	}
	most := int64(math.Ceil(span.Seconds()) * 10 * fullLimit / span.Seconds())
	var rows []ServeFull
	for w, way := range ways {
		rows = append(rows, ServeFull{way.name, spreadOf(granted[w]), most})
	}
	return rows, nil
}

// Text is a cell of the page.
func (l ServeLoad) Text() string {
	return fmt.Sprintf("%.0f (%.1f / %.1f ms)", l.PerSecond.Median, l.P50/1000, l.P99/1000)
}

// Spent is cells of the processor times.
func (l ServeLoad) Spent() string { return fmt.Sprintf("%.0f | %.0f", l.CPU.Median, l.RedisCPU.Median) }

// Table is a row for each load, of all services beside each other.
func (s *Serve) Table() [][]ServeLoad { return slices.Collect(slices.Chunk(s.Loads, 3)) }
