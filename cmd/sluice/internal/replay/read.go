package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/policy"
)

// batchLines is how many lines are read together.
const batchLines = 256

// maxExamples is how many of the lines that cannot be read are kept.
const maxExamples = 5

// BadLine is a line that could not be read.
type BadLine struct {
	Line int64  `json:"line"`
	Why  string `json:"why"`
}

// NotApplied is a policy that could not be applied to requests, because the log does not say what it asks for.
type NotApplied struct {
	Policy   string `json:"policy"`
	Requests int64  `json:"requests"`
	Line     int64  `json:"line"` // the first one
	Why      string `json:"why"`  // of the first one
}

// batch is some lines of the log, and what was found in them.
type batch struct {
	number  int64 // of the first line, from 1
	lines   [][]byte
	lengths []int // of the lines; one that is too long is nil
	ready   chan struct{}

	requests   []request
	entries    int64 // lines that could be read
	matched    int64
	from, to   int64
	bad        []BadLine
	unread     int64
	notApplied []NotApplied
}

// readBatches reads the log, and sends its batches to the workers and, in their order, to the sorter.
func readBatches(ctx context.Context, lines *accesslog.Lines, work, ordered chan<- *batch) {
	defer close(ordered)
	defer close(work)
	for next := int64(1); ; next += batchLines {
		b := &batch{number: next, ready: make(chan struct{})}
		for range batchLines {
			line, length, ok := lines.Next()
			if !ok {
				break
			}
			b.lines, b.lengths = append(b.lines, slices.Clone(line)), append(b.lengths, length)
			if line != nil && b.lines[len(b.lines)-1] == nil {
				b.lines[len(b.lines)-1] = []byte{}
			}
		}
		if len(b.lines) == 0 || !sendBatch(ctx, b, work, ordered) {
			return
		}
	}
}

func sendBatch(ctx context.Context, b *batch, to ...chan<- *batch) bool {
	for _, c := range to {
		select {
		case c <- b:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// parser parses lines and matches the policies.
type parser struct {
	file   *policy.File
	format *accesslog.Format
}

// work parses batches until there are no more.
func (p parser) work(batches <-chan *batch, ended *sync.WaitGroup) {
	defer ended.Done()
	for b := range batches {
		for i, line := range b.lines {
			p.parse(b, b.number+int64(i), line, b.lengths[i])
		}
		b.lines = nil
		close(b.ready)
	}
}

func (p parser) parse(b *batch, number int64, line []byte, length int) {
	if line == nil {
		b.addBad(number, fmt.Errorf("it has %d bytes: want at most %d", length, accesslog.MaxLine))
		return
	}
	entry, err := p.format.Parse(line)
	if err != nil {
		b.addBad(number, err)
		return
	}
	p.file.SetClient(entry.Attributes.Request)
	r := request{at: entry.At.UnixMicro(), line: number}
	b.addEntry(r.at)
	r.matches, err = p.file.Match(&entry.Attributes)
	b.addNotApplied(number, err)
	b.removeRefused(&r)
	for i, m := range r.matches {
		counts, err := m.Counts(&entry.Attributes)
		b.addNotApplied(number, err)
		if err == nil && !counts {
			r.free.add(i)
		}
	}
	if len(r.matches) > 0 {
		b.matched++
		b.requests = append(b.requests, r)
	}
}

// removeRefused removes the matches that refuse nobody: those in shadow, and those of a value that is not in the log,
// which are counted as not applied.
func (b *batch) removeRefused(r *request) {
	r.matches = slices.DeleteFunc(r.matches, func(m policy.Match) bool {
		unknown := m.Refused && m.Missing != "" && !strings.HasPrefix(m.Missing, "request.")
		if unknown { // the application may well have had it
			b.addNotApplied(r.line, &policy.AttributeError{
				Policy: m.Name, Word: "by", Err: fmt.Errorf("%w: %s is not in the log", policy.ErrEmptyKey, m.Missing)})
		}
		return unknown || m.Refused && m.Mode == policy.Shadow
	})
}

func (b *batch) addEntry(at int64) {
	if b.entries++; b.entries == 1 {
		b.from, b.to = at, at
	}
	b.from, b.to = min(b.from, at), max(b.to, at)
}

func (b *batch) addBad(line int64, err error) {
	b.unread++
	if len(b.bad) < maxExamples {
		b.bad = append(b.bad, BadLine{line, err.Error()})
	}
}

// addNotApplied counts the policies that could not be applied.
func (b *batch) addNotApplied(line int64, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			b.addNotApplied(line, one)
		}
		return
	}
	attribute, ok := errors.AsType[*policy.AttributeError](err)
	if !ok {
		return
	}
	b.notApplied = joinNotApplied(b.notApplied, NotApplied{
		Policy: attribute.Policy, Requests: 1, Line: line, Why: fmt.Sprintf("%s: %v", attribute.Word, attribute.Err)})
}

// joinNotApplied adds to the counts of a policy.
func joinNotApplied(all []NotApplied, more NotApplied) []NotApplied {
	for i := range all {
		if all[i].Policy == more.Policy {
			all[i].Requests += more.Requests
			return all
		}
	}
	return append(all, more)
}

// take adds what was found in a batch to the report.
func (r *Report) take(b *batch) {
	r.Lines += b.entries + b.unread
	r.Unread += b.unread
	r.Bad = append(r.Bad, b.bad[:min(len(b.bad), maxExamples-len(r.Bad))]...)
	r.Requests += b.entries
	r.Matched += b.matched
	for _, more := range b.notApplied {
		r.NotApplied = joinNotApplied(r.NotApplied, more)
	}
	if b.entries > 0 {
		if r.from = min(r.from, b.from); r.Requests == b.entries {
			r.from = b.from
		}
		r.to = max(r.to, b.to)
	}
}

// sortNotApplied sorts by the place of the policy in the file.
func (r *Report) sortNotApplied(file *policy.File) {
	place := func(name string) int {
		return slices.IndexFunc(file.Policies, func(p *policy.Policy) bool { return p.Name == name })
	}
	slices.SortFunc(r.NotApplied, func(a, b NotApplied) int { return cmp.Compare(place(a.Policy), place(b.Policy)) })
}
