//go:build unix

package attack

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-redis/sluice/internal/audit"
)

// failure is what went wrong in one way with one row under one fault.
type failure struct {
	rule  string
	text  string // of the first
	times int
}

// failed notes a failure. Each has the fault that happens or happened last.
func (a *attack) failed(rule string, r *row, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	during := "before any fault"
	if a.last != nil {
		during = a.last.name
	}
	where := "process"
	if r != nil {
		where = r.String()
	}
	key := rule + ": " + during + ": " + where
	if a.failures[key] == nil {
		a.failures[key] = &failure{rule: rule, text: text}
		if a.last != nil {
			a.failures[key].text = fmt.Sprintf("event %d: %s", a.last.number, text)
		}
	}
	a.failures[key].times++
}

// recoveryKey is a fault and a row.
type recoveryKey struct {
	fault int
	row   *row
}

// recovered notes how long a row was without service after a fault.
func (a *attack) recovered(e *event, r *row, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := recoveryKey{e.index, r}
	a.recoveries[key] = max(a.recoveries[key], took)
}

// sample is what this process holds while nobody calls: bytes of live heap, without what the proxies keep for their
// connections, and goroutines of the loader and go-redis.
type sample struct{ heap, goroutines int64 }

func (s sample) String() string {
	return fmt.Sprintf("heap %.1f MiB, goroutines %d", float64(s.heap)/(1<<20), s.goroutines)
}

// What may be in use beyond what was at first.
const (
	heapSlack      = 8 << 20
	goroutineSlack = 8
	proxyBuffers   = 2 * 16 << 10 // of a connection
)

// measure compares what is in use with what was after the first faults.
func (a *attack) measure(e *event) sample {
	most := goroutineSlack + int(a.first.goroutines)
	if e == nil {
		most = len(audit.Goroutines())
	}
	if stacks := audit.MoreThan(most); stacks != nil {
		a.failed("goroutines", nil, fmt.Sprintf("more than %d of them:\n%s", most, stacks))
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	now := sample{heap: int64(memory.HeapAlloc), goroutines: int64(len(audit.Goroutines()))}
	for _, s := range a.sites {
		now.heap -= s.connections() * proxyBuffers
	}
	if e == nil {
		a.first.goroutines = now.goroutines
	}
	if e == nil || e.number <= len(faults)/2 {
		a.first.heap = max(a.first.heap, now.heap)
	} else if now.heap > a.first.heap+a.first.heap/4+heapSlack {
		a.failed("heap", nil, fmt.Sprintf("%v, after the first faults it was %v", now, a.first))
	}
	a.worst = sample{max(a.worst.heap, now.heap), max(a.worst.goroutines, now.goroutines)}
	return now
}

// report prints what happened and fails the test for what was wrong.
func (a *attack) report() {
	a.t.Helper()
	a.t.Logf("calls under way while a fault happened to their server, on each site:\n%s", a.table(a.cell))
	a.t.Logf("longest time from a fault's end until service was back, in ms, on each site:\n%s", a.table(a.recovery))
	a.t.Logf("seed %d: %d calls, %d hooks panicked, %d of these panics reached a caller", a.seed,
		a.calls.Load(), a.panics.Load(), a.raised.Load())
	a.t.Logf("audited: %d permits by what was charged, %d grants by their moments; the outcome of %d permits was unknown",
		a.audited.Load(), a.timed.Load(), a.unknown.Load())
	a.t.Logf("in use at first: %v; at worst: %v", a.first, a.worst)
	for _, missed := range a.missed() {
		a.t.Errorf("seed %d: %s", a.seed, missed)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(a.failures)) {
		a.t.Errorf("seed %d: %s: %d x, the first at %s", a.seed, key, a.failures[key].times, a.failures[key].text)
	}
}

// missed says which faults met no call of a row. The short form is too short for all to.
func (a *attack) missed() (missed []string) {
	for _, i := range wantedFaults() {
		for k, r := range a.rows {
			if a.full && a.met[i][k].Load() == 0 {
				missed = append(missed, fmt.Sprintf("%s met no call of %v", faults[i].name, r))
			}
		}
	}
	return missed
}

// cell is how many calls of some rows met a fault.
func (a *attack) cell(i int, r *row) string { return fmt.Sprint(a.met[i][a.numberOf[r]].Load()) }

// recovery is how long it took a row to be back, in milliseconds.
func (a *attack) recovery(i int, r *row) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprint(a.recoveries[recoveryKey{i, r}].Milliseconds())
}

// table has a column for each fault and a line for each kind of row, with a value for each site.
func (a *attack) table(value func(fault int, r *row) string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	wanted := wantedFaults()
	for _, i := range wanted {
		fmt.Fprint(w, "\t", faults[i].name)
	}
	fmt.Fprintln(w)
	for _, r := range a.rowsOf(a.sites[0]) {
		fmt.Fprint(w, r.kind())
		for _, i := range wanted {
			var values []string
			for _, s := range a.sites {
				values = append(values, value(i, a.sameOn(s, r)))
			}
			fmt.Fprint(w, "\t", strings.Join(values, " / "))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return b.String()
}

// sameOn is the row of another site that is of the same kind.
func (a *attack) sameOn(s *site, r *row) *row {
	return a.rows[slices.IndexFunc(a.rows, func(other *row) bool { return other.site == s && other.kind() == r.kind() })]
}
