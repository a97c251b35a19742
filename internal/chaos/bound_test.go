package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// The bounds of calls whose caller set none.
const (
	boundAlone      = time.Second
	boundWithPolicy = 100 * time.Millisecond
)

// boundSlack is how much later than its bound a call may end on a busy machine, without the time in which all of this
// process stood still.
const boundSlack = 2 * time.Second

// unbounded is when a call is taken for one that never ends, in a long run: it shows how long calls really take.
const unbounded = time.Minute

// cell is one kind of client and one way to send, with its calls.
type cell struct {
	client, mode string
	rdb          redis.UniversalClient
	calls        []boundCall
}

// result is how a call ended.
type result struct {
	boundCall
	outcome
	took time.Duration // less the time in which the process stood still
	late bool          // it had not ended by then
}

// TestBounds has Redis fail in the ways that make callers wait, and makes every call on every kind of client, with
// no options and no deadline: each ends by its bound, with an error, or with the answer of its policy. It prints
// the slowest calls of each. With -chaos=full it waits up to a minute for calls that have outlived their bounds, to
// print how long they take.
func TestBounds(t *testing.T) {
	inParallel(t)
	s := newStage(t)
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(rows, "fault\tclient\tround trips\tno policy, ms\tslowest\tpolicy, ms\tslowest\n")
	for _, fault := range boundFaults {
		t.Run(fault.String(), func(t *testing.T) { testBounds(t, s, fault, rows) })
	}
	_ = rows.Flush()
	t.Logf("bounds: %v without a policy, %v with one\n%s", boundAlone, boundWithPolicy, table.String())
}

func testBounds(t *testing.T, s *stage, fault boundFault, rows *tabwriter.Writer) {
	var cells []*cell
	t.Cleanup(func() { closeAll(cells) }) // when the fault has ended
	if !fault.cold {
		cells = newCells(t, s, fault)
		warmUp(t, cells)
	}
	fault.begin(t, s, fault, cells)
	if fault.cold {
		cells = newCells(t, s, fault)
	}
	for i, results := range askAll(cells, watchStalls(t)) {
		check(t, fault, cells[i], results)
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\n",
			fault, cells[i].client, cells[i].mode, slowest(results, false), slowest(results, true))
	}
}

// roundTrips are the ways to send: with a client that knows nothing of deadlines, as by default, and one that does.
var roundTrips = []struct {
	name           string
	keepsDeadlines bool // ContextTimeoutEnabled
	opts           []loader.Option
}{
	{"alone", false, nil},
	{"alone, in this goroutine", true, nil},
	{"shared", false, []loader.Option{loader.ShareRoundTrips()}},
}

// newCells makes every kind of client, once for each way to send.
func newCells(t *testing.T, s *stage, fault boundFault) []*cell {
	t.Helper()
	var cells []*cell
	for _, kind := range boundClients {
		for _, mode := range roundTrips {
			rdb := kind.make(s, fault.pool, mode.keepsDeadlines)
			prefix := strings.NewReplacer(" ", "-", ",", "").Replace(fault.String() + "." + kind.name + "." + mode.name + ".")
			cells = append(cells, &cell{
				client: kind.name, mode: mode.name, rdb: rdb,
				calls: boundCalls(t, loader.New(rdb, mode.opts...), prefix),
			})
		}
	}
	return cells
}

// warmUp makes every call while all is well, until Redis has answered it: scripts are loaded, nodes are known and
// connections are there.
func warmUp(t *testing.T, cells []*cell) {
	t.Helper()
	each(cells, func(c *cell) {
		for _, call := range c.calls {
			if o := call.settle(); o.err != nil || o.degraded {
				t.Errorf("%s, %s: %s before the fault: %+v", c.client, c.mode, call.name, o)
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// settle makes a call until Redis answers it, for some seconds: on a busy machine a policy may be faster.
func (c boundCall) settle() (o outcome) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if o = c.ask(context.Background(), "before/"+c.name); o.err == nil && !o.degraded {
			break
		}
	}
	return o
}

// closeAll closes what the calls use, and the clients.
func closeAll(cells []*cell) {
	each(cells, func(c *cell) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		each(c.calls, func(call boundCall) {
			if call.close != nil {
				_ = call.close(ctx) // what it gives back may have been lost
			}
		})
		_ = c.rdb.Close()
	})
}

// each does something with all elements at the same time.
func each[E any](all []E, do func(E)) {
	var work sync.WaitGroup
	for _, e := range all {
		work.Go(func() { do(e) })
	}
	work.Wait()
}

// askAll makes all calls of all cells at once, each about a subject of its own.
func askAll(cells []*cell, s *stalls) [][]result {
	results := make([][]result, len(cells))
	var work sync.WaitGroup
	for i, c := range cells {
		results[i] = make([]result, len(c.calls))
		for j, call := range c.calls {
			work.Go(func() { results[i][j] = call.measure(s, "fault/"+call.name) })
		}
	}
	work.Wait()
	return results
}

// stalls measures how long this process stood still: by how much goroutines that sleep wake too late.
type stalls struct{ total atomic.Int64 }

// stallTick is how long they sleep, and the least that counts as late.
const stallTick = 10 * time.Millisecond

func watchStalls(t *testing.T) *stalls {
	s, ended := &stalls{}, make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for due := time.Now().Add(stallTick); ; due = time.Now().Add(stallTick) {
			select {
			case <-ended:
				return
			case <-time.After(time.Until(due)):
			}
			if late := time.Since(due); late > stallTick {
				s.total.Add(int64(late))
			}
		}
	})
	t.Cleanup(func() { close(ended); watcher.Wait() })
	return s
}

func (s *stalls) sum() time.Duration { return time.Duration(s.total.Load()) }

// measure makes a call and returns what became of it, or that it has not ended. The time in which the process stood
// still does not count.
func (c boundCall) measure(s *stalls, subject string) result {
	began, before := time.Now(), s.sum()
	took := func() time.Duration { return max(time.Since(began)-(s.sum()-before), 0) }
	ended := make(chan outcome, 1)
	go func() { ended <- c.ask(context.Background(), subject) }()
	for {
		select {
		case o := <-ended:
			return result{boundCall: c, outcome: o, took: took()}
		case <-time.After(c.patience() - took()):
		}
		if t := took(); t > c.patience() {
			return result{boundCall: c, took: t, late: true}
		}
	}
}

// bound is how long the call may take.
func (c boundCall) bound() time.Duration {
	if c.policy {
		return boundWithPolicy
	}
	return boundAlone
}

// patience is how long a call is waited for.
func (c boundCall) patience() time.Duration {
	if full() {
		return unbounded
	}
	return c.bound() + boundSlack
}

// check wants every call to have ended by its bound, with an error, or with the answer of its policy.
func check(t *testing.T, fault boundFault, c *cell, results []result) {
	t.Helper()
	var late, wrong []string
	for _, r := range results {
		switch {
		case r.late, r.took > r.bound()+boundSlack:
			late = append(late, fmt.Sprintf("%s (%s of %v)", r.name, r.ms(), r.bound()))
		case r.policy && r.err != nil, r.policy && !r.degraded && !r.silent && !fault.passes:
			wrong = append(wrong, fmt.Sprintf("%s: %v, degraded %v", r.name, r.err, r.degraded))
		case !r.policy && r.err == nil && !r.offline && !fault.passes:
			wrong = append(wrong, r.name+" has an answer")
		case fault.unsent() && errors.Is(r.err, loader.ErrOutcomeUnknown):
			wrong = append(wrong, fmt.Sprintf("%s: %v, though nothing was sent", r.name, r.err))
		}
	}
	c.complain(t, late, "have outlived their bounds")
	c.complain(t, wrong, "went wrong")
}

// complain fails the test where there is something to complain of, and names the first few.
func (c *cell) complain(t *testing.T, of []string, what string) {
	t.Helper()
	if len(of) == 0 {
		return
	}
	const named = 5
	t.Errorf("%s, %s: %d of %d calls %s: %s", c.client, c.mode, len(of), len(c.calls), what,
		strings.Join(of[:min(named, len(of))], "; "))
}

// ms is how long a call took, in milliseconds.
func (r result) ms() string {
	if r.late {
		return fmt.Sprint("> ", r.took.Milliseconds())
	}
	return fmt.Sprint(r.took.Milliseconds())
}

// slowest is the slowest of the calls with or without a policy, as two columns.
func slowest(results []result, policy bool) string {
	var out result
	for _, r := range results {
		if r.policy == policy && r.took > out.took {
			out = r
		}
	}
	return out.ms() + "\t" + out.name
}
