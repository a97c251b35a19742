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

// Run decides all requests of the log. If ctx ends before, or reading fails, it returns the report of the requests until
// then with the error.
//
// The subjects are spread over the cores. Requests that several enforced policies decide together, by different keys,
// are decided on one core, because the order of all of them matters.
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
	report := &Report{}
	d := dispatcher{shards: shards, together: together(c.File)}
	report.read(ctx, c, lines, progress, &d)
	d.flush()
	for _, s := range shards {
		close(s.jobs)
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

// dispatcher spreads jobs over the shards.
type dispatcher struct {
	shards   []*shard
	together bool // enforced policies may have different keys in one request
}

// together reports whether several policies of a file are enforced and have different keys.
func together(f *policy.File) bool {
	var enforced []*policy.Policy
	for _, p := range f.Policies {
		if p.Mode == policy.Enforce {
			enforced = append(enforced, p)
		}
	}
	return slices.ContainsFunc(enforced, func(p *policy.Policy) bool {
		return !slices.Equal(p.By, enforced[0].By) || p.Empty != enforced[0].Empty
	})
}

// dispatch makes the jobs of a request: one of what is enforced, and one of each policy in shadow mode.
func (d *dispatcher) dispatch(r request) {
	enforced := job{at: r.at, line: r.line}
	for i, m := range r.matches {
		free := r.free >> i & 1
		if m.Mode == policy.Enforce {
			enforced.free |= free << len(enforced.matches)
			enforced.matches = append(enforced.matches, m)
			continue
		}
		d.send(job{at: r.at, line: r.line, matches: r.matches[i : i+1], free: free})
	}
	if len(enforced.matches) > 0 {
		d.send(enforced)
	}
}

// send sends a job to the shard of its subject.
func (d *dispatcher) send(j job) {
	to := d.shards[0]
	if !d.together || j.matches[0].Mode != policy.Enforce {
		hash := fnv.New32a()
		_, _ = io.WriteString(hash, j.matches[0].Subject)
		to = d.shards[hash.Sum32()%uint32(len(d.shards))]
	}
	to.add(j)
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
	jobs      chan []job
	next      []job // not sent yet
}

func (c Config) newShards() (shards []*shard, err error) {
	for range c.Cores {
		s := &shard{keys: map[keyOf]*keyCounts{}, decided: c.Decided, jobs: make(chan []job, 4)}
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
			d.close()
		}
	}
}

// add hands jobs over in groups.
func (s *shard) add(j job) {
	if s.next = append(s.next, j); len(s.next) >= batchLines {
		s.flush()
	}
}

func (s *shard) flush() {
	if len(s.next) > 0 {
		s.jobs <- s.next
		s.next = nil
	}
}

func (s *shard) work() {
	var verdicts []Verdict
	for jobs := range s.jobs {
		for _, j := range jobs {
			for i, d := range s.deciders {
				verdicts = d.decide(j, verdicts[:0])
				s.scenarios[i].add(j, verdicts)
				if i == 0 {
					s.note(j, verdicts)
				}
			}
		}
	}
}

// note notes the verdicts with the file's rates.
func (s *shard) note(j job, verdicts []Verdict) {
	addKeys(s.keys, j, verdicts)
	for i := range verdicts {
		if s.decided != nil {
			s.decided(j.line, j.matches[i], verdicts[i])
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
