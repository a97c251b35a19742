//go:build unix

package soak

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// failure is what went wrong in one way.
type failure struct {
	first string // text of the first
	where tally
}

// failed notes a failure, of the fault that happens or happened last.
func (a *attack) failed(rule string, r *row, text string) {
	way := rule + ": before any fault"
	if e := a.last.Load(); e != nil {
		way, text = rule+": "+e.name, fmt.Sprintf("event %d: %s", e.number, text)
	}
	where := "this process"
	if r != nil {
		way, where = way+": "+r.usage, r.script.name+" on "+r.site.name
		text = fmt.Sprintf("%v: %s", r, text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures[way] == nil {
		a.failures[way] = &failure{first: text}
	}
	a.failures[way].where.add(where, 1)
}

// sample is what this process holds while no call is made: bytes of live heap, without what the proxies keep for their
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

// heapGrew reports whether the heap is larger than it was at first, by more than a quarter and what comes and goes.
func (s sample) heapGrew(first sample) bool { return s.heap > first.heap+first.heap/4+heapSlack }

// measure compares what is in use with what was after the first faults.
func (a *attack) measure(e *event) sample {
	if most := goroutineSlack + int(a.first.goroutines); a.steady && e != nil {
		if stacks := moreThan(most); stacks != "" {
			a.failed("goroutines", nil, fmt.Sprintf("more than %d of them:\n%s", most, stacks))
		}
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	now := sample{heap: int64(memory.HeapAlloc), goroutines: int64(len(goroutines()))}
	for _, s := range a.sites {
		for _, proxy := range s.proxies {
			now.heap -= proxy.Counts().Open * proxyBuffers
		}
	}
	if e == nil {
		a.first.goroutines = now.goroutines
	}
	if e == nil || e.number <= len(faults)/2 {
		a.first.heap = max(a.first.heap, now.heap)
	} else if a.steady && now.heapGrew(a.first) {
		a.failed("heap", nil, fmt.Sprintf("%v, after the first faults it was %v", now, a.first))
	}
	a.worst = sample{max(a.worst.heap, now.heap), max(a.worst.goroutines, now.goroutines)}
	return now
}

// report prints what happened, fails the test for what was wrong, and returns the share of it that could be judged.
func (a *attack) report() (judged float64) {
	a.t.Helper()
	a.t.Logf("seed %d: %v", a.seed, &a.counts)
	a.t.Logf("in use at first: %v; at worst: %v; a server to which nothing happened answered %v late at worst",
		a.first, a.worst, round(a.pulse.worst))
	missed, unjudged := a.untold()
	for _, text := range missed {
		a.t.Errorf("seed %d: %s", a.seed, text)
	}
	of := len(a.faults) * len(a.rows)
	if unjudged > 0 {
		a.t.Logf("too slow a machine to judge when service is back: %d of %d faults and limiters", unjudged, of)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, way := range slices.Sorted(maps.Keys(a.failures)) {
		a.t.Errorf("seed %d: %s: %v\n    the first: %s", a.seed, way, &a.failures[way].where, a.failures[way].first)
	}
	return 1 - float64(unjudged)/float64(of)
}

// untold says which faults met no call of a row, which the short form is too short for; and for how many pairs of a
// fault and a row the time until service was back has never been judged, because this machine was too slow for it.
func (a *attack) untold() (missed []string, unjudged int) {
	for _, fault := range a.faults {
		for _, r := range a.rows {
			if a.full && r.met.of(fault) == 0 {
				missed = append(missed, fmt.Sprintf("%s met no call of %v", fault, r))
			}
			if r.judged.of(fault) == 0 {
				unjudged++
			}
		}
	}
	return missed, unjudged
}
