package scripttest_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-redis/sluice/scripttest"
)

var coveragePage = flag.String("coverage-page", "", "write the covered sources to this file, as HTML")

// The fast tests reach every line and take every branch of every script. What no call of a script can reach in a part
// that is printed into several is reached in the first of them.
func TestCoverage(t *testing.T) {
	var cov scripttest.Coverage
	var all sync.WaitGroup
	for _, tab := range tables {
		all.Go(func() { tab.cover(t, &cov) })
	}
	all.Wait()
	for _, script := range cov.Scripts() {
		for _, missing := range script.Missing() {
			if !reachedElsewhere(script.Source, missing) {
				t.Error(missing)
			}
		}
	}
	if err := cov.WriteTable(os.Stdout); err != nil {
		t.Error(err)
	}
	if *coveragePage != "" {
		writePage(t, &cov)
	}
}

// cover runs the fast tests on the counted script.
func (tab table) cover(t *testing.T, cov *scripttest.Coverage) {
	script, err := cov.Compile(tab.script.File, tab.script.Source)
	if err != nil {
		t.Error(err)
		return
	}
	for _, c := range tab.checks() {
		if failure := noticed(t, tab, script, c); failure != "" {
			t.Errorf("%s, counted, fails %s: %s", tab.script.File, c.name, failure)
		}
	}
}

// reachedElsewhere tells whether a missing line is of a part that another script before it has.
func reachedElsewhere(source, missing string) bool {
	number, _ := strconv.Atoi(strings.Split(missing, ":")[1])
	part := partsByLine(source)[number]
	first := slices.IndexFunc(tables, func(tab table) bool { return strings.Contains(tab.script.Source, "-- PART "+part+":") })
	return part != "" && tables[first].script.Source != source
}

func writePage(t *testing.T, cov *scripttest.Coverage) {
	must(t, os.MkdirAll(filepath.Dir(*coveragePage), 0o755))
	page, err := os.Create(*coveragePage)
	must(t, err)
	defer page.Close()
	if err := cov.WriteHTML(page); err != nil {
		t.Error(err)
	}
}

// Several goroutines compile and run one script at once, each on a store of its own, counted by one Coverage. `make
// test` runs this under the race detector: what the runs share is read only, or locked. No count is lost.
func TestScriptsRunAtOnce(t *testing.T) {
	const goroutines = 4
	eachTable(t, func(t *testing.T, tab table) {
		alone := tab.hitsOf(t, 1)
		if together := tab.hitsOf(t, goroutines); alone == 0 || together != goroutines*alone {
			t.Errorf("%d hits by %d goroutines, want as many times %d", together, goroutines, alone)
		}
	})
}

// hitsOf is how many statements are reached where so many goroutines play the first two timelines.
func (tab table) hitsOf(t *testing.T, goroutines int) (hits int64) {
	var cov scripttest.Coverage
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			script, err := cov.Compile(tab.script.File, tab.script.Source)
			if err != nil {
				t.Error(err)
				return
			}
			for _, c := range tab.checks()[:2] {
				if failure := noticed(t, tab, script, c); failure != "" {
					t.Errorf("%s: %s", c.name, failure)
				}
			}
		})
	}
	all.Wait()
	for _, script := range cov.Scripts() {
		for _, line := range script.Lines {
			hits += line.Hits
		}
	}
	return hits
}
