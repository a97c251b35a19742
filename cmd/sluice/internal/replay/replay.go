package replay

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/policy"
)

// Config is what to replay.
type Config struct {
	File   *policy.File
	Format *accesslog.Format
	WhatIf bool // also with half and twice the permits
	Cores  int  // that decide: 1 or more

	// Decided is called with each verdict about a policy with the file's rates, if it is not nil; from several
	// goroutines at once, for one key in the order of the log.
	Decided func(line int64, m policy.Match, v Verdict)
}

// Progress is how many lines were read so far. It is safe for concurrent use.
type Progress struct{ lines atomic.Int64 }

// Lines returns the number of lines.
func (p *Progress) Lines() int64 { return p.lines.Load() }

// factors is those of the rates: first that of the file.
func (c Config) factors() []float64 {
	if c.WhatIf {
		return []float64{1, 0.5, 2}
	}
	return []float64{1}
}

// Run decides all requests of the log. If ctx ends before, or reading fails, it returns the report of the requests
// until then with the error.
//
// The subjects are spread over the cores. Policies with different keys are decided on one core, because the decision
// about one key depends on those about others.
//
// Memory: about a kilobyte for each key and what the scripts store for it, and the lines of MaxDisorder.
func Run(ctx context.Context, c Config, log io.Reader, progress *Progress) (*Report, error) {
	lines, err := accesslog.NewLines(log)
	if err != nil {
		return nil, err
	}
	shards, err := c.newShards()
	if err != nil {
		return nil, err
	}
	defer closeShards(shards)
	var deciding sync.WaitGroup
	for _, s := range shards {
		deciding.Go(s.work)
	}
	report := newReport()
	d := dispatcher{shards: shards, together: together(c.File)}
	report.read(ctx, c, lines, progress, &d)
	d.flush()
	for _, s := range shards {
		close(s.requests)
	}
	deciding.Wait()
	report.collect(c, shards)
	return report, errors.Join(ctx.Err(), lines.Err(), failureOf(shards))
}

// read reads the log and dispatches its requests in the order of their times.
func (r *Report) read(ctx context.Context, c Config, lines *accesslog.Lines, progress *Progress, d *dispatcher) {
	work, ordered := make(chan *batch, c.Cores), make(chan *batch, 4*c.Cores)
	var parsing sync.WaitGroup
	for range c.Cores {
		parsing.Add(1)
		go parser{c.File, c.Format}.work(work, &parsing)
	}
	defer parsing.Wait()
	go readBatches(ctx, lines, work, ordered)
	s := sorter{pass: d.dispatch}
	for b := range ordered {
		<-b.ready
		r.take(b)
		for _, request := range b.requests {
			s.add(request)
		}
		progress.lines.Store(r.Lines)
	}
	s.passUpTo(s.newest)
	r.Late = s.late
}

// dispatcher spreads requests over the shards.
type dispatcher struct {
	shards   []*shard
	together bool // policies may have different keys in one request
}

// together reports whether policies of a file have different keys in one request.
func together(f *policy.File) bool {
	return slices.ContainsFunc(f.Policies, func(p *policy.Policy) bool {
		return !slices.Equal(p.By, f.Policies[0].By) || p.Empty != f.Policies[0].Empty
	})
}

// dispatch sends a request to the shard of its subject.
func (d *dispatcher) dispatch(r request) {
	to := d.shards[0]
	if !d.together {
		hash := fnv.New32a()
		_, _ = io.WriteString(hash, r.matches[0].Subject)
		to = d.shards[hash.Sum32()%uint32(len(d.shards))]
	}
	to.add(r)
}

func (d *dispatcher) flush() {
	for _, s := range d.shards {
		s.flush()
	}
}

// shard decides the requests of some subjects.
type shard struct {
	deciders  []*decider // one for each factor
	scenarios []scenario
	keys      map[keyOf]*keyCounts
	decided   func(line int64, m policy.Match, v Verdict)
	requests  chan []request
	next      []request // not sent yet
}

func (c Config) newShards() (shards []*shard, err error) {
	for range c.Cores {
		s := &shard{keys: map[keyOf]*keyCounts{}, decided: c.Decided, requests: make(chan []request, 4)}
		shards = append(shards, s)
		for _, factor := range c.factors() {
			d, err := newDecider(factor)
			if err != nil {
				closeShards(shards)
				return nil, err
			}
			s.deciders = append(s.deciders, d)
			s.scenarios = append(s.scenarios, scenario{policies: map[*policy.Policy]*Counts{}})
		}
	}
	return shards, nil
}

func closeShards(shards []*shard) {
	for _, s := range shards {
		for _, d := range s.deciders {
			d.Close()
		}
	}
}

// add hands requests over in groups.
func (s *shard) add(r request) {
	if s.next = append(s.next, r); len(s.next) >= batchLines {
		s.flush()
	}
}

func (s *shard) flush() {
	if len(s.next) > 0 {
		s.requests <- s.next
		s.next = nil
	}
}

func (s *shard) work() {
	var verdicts []Verdict
	for requests := range s.requests {
		for _, r := range requests {
			for i, d := range s.deciders {
				verdicts = d.decide(r, verdicts[:0])
				s.scenarios[i].add(r, verdicts)
				if i == 0 {
					s.note(r, verdicts)
				}
			}
		}
	}
}

// note notes the verdicts with the file's rates.
func (s *shard) note(r request, verdicts []Verdict) {
	addKeys(s.keys, r, verdicts)
	for i := range verdicts {
		if s.decided != nil {
			s.decided(r.line, r.matches[i], verdicts[i])
		}
	}
}

// failureOf returns the first failure of each decider.
func failureOf(shards []*shard) error {
	var errs []error
	for _, s := range shards {
		for _, d := range s.deciders {
			errs = append(errs, d.failure)
		}
	}
	return errors.Join(errs...)
}
