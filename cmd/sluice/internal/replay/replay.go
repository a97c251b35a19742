// Package replay decides the requests of an access log by a policy file: by the scripts themselves, on the clock of the
// log, without a server.
package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// Config is what to replay.
type Config struct {
	File     *policy.File
	Format   *accesslog.Format
	Rates    map[Rated][]loader.Limit // in place of the file's
	Cores    int                      // that decide: 1 or more
	Progress func(lines int64)        // called from time to time; may be nil

	// Decided is called with each verdict about a policy, if it is not nil; from several goroutines at once, for one
	// key in the order of the log.
	Decided func(line int64, m policy.Match, v Verdict)
}

// Rated is what rates belong to: a policy, and one of its plans if it has plans.
type Rated struct{ Policy, Plan string }

// batchLines is how many requests are handed over together, and how many lines are read between two calls of Progress.
const batchLines = 256

// Run decides all requests of the log. If ctx ends before, or reading fails, it returns the report of the requests
// until then with the error.
//
// The subjects are spread over the cores. Policies with different keys are decided on one core, because the decision
// about one key depends on those about others.
//
// Memory: about half a kilobyte for each key and what the scripts store for it, and the lines of MaxDisorder.
func Run(ctx context.Context, c Config, log io.Reader) (*Report, error) {
	lines, err := accesslog.NewLines(log)
	if err != nil {
		return nil, err
	}
	shards, err := c.newShards()
	if err != nil {
		return nil, err
	}
	var deciding sync.WaitGroup
	for _, s := range shards {
		deciding.Go(s.work)
	}
	report := &Report{Bad: []BadLine{}, NotApplied: []NotApplied{}, Busiest: []Key{}, MostDenied: []Key{}}
	report.read(ctx, c, lines, shards)
	for _, s := range shards {
		s.flush()
		close(s.requests)
	}
	deciding.Wait()
	report.collect(c, shards)
	errs := []error{ctx.Err(), lines.Err()}
	for _, s := range shards {
		errs = append(errs, s.failure)
		s.Close()
	}
	return report, errors.Join(errs...)
}

// read reads the log and dispatches its requests in the order of their times.
func (r *Report) read(ctx context.Context, c Config, lines *accesslog.Lines, shards []*shard) {
	together := slices.ContainsFunc(c.File.Policies, func(p *policy.Policy) bool { // with different keys in one request
		return !slices.Equal(p.By, c.File.Policies[0].By) || p.Empty != c.File.Policies[0].Empty
	})
	s := sorter{pass: func(r request) {
		hash := fnv.New32a()
		if !together {
			_, _ = io.WriteString(hash, r.matches[0].Subject)
		}
		shards[hash.Sum32()%uint32(len(shards))].add(r)
	}}
	for ctx.Err() == nil {
		line, length, ok := lines.Next()
		if !ok {
			break
		}
		if r.Lines++; r.Lines%batchLines == 0 && c.Progress != nil {
			c.Progress(r.Lines)
		}
		request, err := r.parse(c, line, length)
		if err != nil {
			r.addBad(err)
		} else if len(request.matches) > 0 {
			s.add(request)
		}
	}
	s.passUpTo(s.newest)
	r.Late = s.late
}

// parse parses a line and matches the policies.
func (r *Report) parse(c Config, line []byte, length int) (request, error) {
	if line == nil && length > 0 {
		return request{}, fmt.Errorf("it has %d bytes: want at most %d", length, accesslog.MaxLine)
	}
	entry, err := c.Format.Parse(line)
	if err != nil {
		return request{}, err
	}
	c.File.SetClient(entry.Attributes.Request)
	entry.Attributes.At = entry.At
	q := request{at: entry.At.UnixMicro(), line: r.Lines}
	r.addEntry(entry.At)
	before := r.unknown
	q.matches, err = c.File.Match(entry.Attributes)
	r.addNotApplied(err)
	r.removeRefused(&q)
	for i, m := range q.matches {
		counts, err := m.Policy.Counts(entry.Attributes)
		r.addNotApplied(err)
		if err == nil && !counts {
			q.free.add(i)
		}
	}
	switch {
	case len(q.matches) > 0:
		r.Matched++
	case r.unknown > before:
		r.Unknown++
	}
	return q, nil
}

// removeRefused removes the matches that refuse nobody: those in shadow, and those of a value that is not in the log,
// which are counted as not applied.
func (r *Report) removeRefused(q *request) {
	q.matches = slices.DeleteFunc(q.matches, func(m policy.Match) bool {
		unknown := m.Refused && m.Missing != "" && !strings.HasPrefix(m.Missing, "request.")
		if unknown { // the application may well have had it
			r.addNotApplied(&policy.AttributeError{
				Policy: m.Policy.Name, Word: "by", Err: fmt.Errorf("%w: %s is not in the log", policy.ErrEmptyKey, m.Missing)})
		}
		return unknown || m.Refused && m.Policy.Mode == policy.Shadow
	})
}

// addNotApplied counts the policies that could not be applied.
func (r *Report) addNotApplied(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			r.addNotApplied(one)
		}
		return
	}
	attribute, ok := errors.AsType[*policy.AttributeError](err)
	if !ok {
		return
	}
	r.unknown++
	at := slices.IndexFunc(r.NotApplied, func(n NotApplied) bool { return n.Policy == attribute.Policy })
	if at < 0 {
		at = len(r.NotApplied)
		r.NotApplied = append(r.NotApplied, NotApplied{Policy: attribute.Policy, Line: r.Lines,
			Why: fmt.Sprintf("%s: %v", attribute.Word, attribute.Err)})
	}
	r.NotApplied[at].Requests++
}

// shard decides the requests of some subjects.
type shard struct {
	*decider
	counts   map[*policy.Policy]*Counts
	denied   int64 // requests that an enforced policy denied
	keys     map[keyOf]*keyCounts
	decided  func(line int64, m policy.Match, v Verdict)
	requests chan []request
	next     []request // not sent yet
}

func (c Config) newShards() (shards []*shard, err error) {
	for range c.Cores {
		d, err := newDecider(c.Rates)
		if err != nil {
			return nil, err
		}
		s := &shard{decider: d, counts: map[*policy.Policy]*Counts{}, keys: map[keyOf]*keyCounts{}, decided: c.Decided,
			requests: make(chan []request, 4)}
		for _, p := range c.File.Policies {
			s.counts[p] = &Counts{}
		}
		shards = append(shards, s)
	}
	return shards, nil
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
			verdicts = s.decide(r, verdicts[:0])
			s.count(r, verdicts)
		}
	}
}

// count counts the verdicts about a request, for its policies and for their keys.
func (s *shard) count(r request, verdicts []Verdict) {
	denied := false
	for i, m := range r.matches {
		refused := verdicts[i] == Denied || verdicts[i] == Refused
		denied = denied || refused && m.Policy.Mode == policy.Enforce
		s.counts[m.Policy].add(verdicts[i])
		if m.Override != nil {
			s.counts[m.Policy].Overridden++
		}
		key := keyOf{m.Policy, m.Subject}
		counts := s.keys[key]
		if counts == nil {
			counts = &keyCounts{}
			key.subject = strings.Clone(key.subject) // it may be a part of a whole line
			s.keys[key] = counts
		}
		counts.requests++
		if refused {
			counts.denied++
		}
		if s.decided != nil {
			s.decided(r.line, m, verdicts[i])
		}
	}
	if denied {
		s.denied++
	}
}
