package scripttest_test

import (
	"sync"
	"testing"

	"github.com/sluice-redis/sluice/scripttest"
)

// Several goroutines compile and run one script at once, each on a store of its own, counted by one Coverage. `make
// test` runs this under the race detector: what the runs share is read only, or locked. No count is lost.
func TestScriptsRunAtOnce(t *testing.T) {
	const goroutines = 4
	for _, tab := range tables {
		t.Run(tab.script.Name, func(t *testing.T) {
			alone := tab.hitsOf(t, 1)
			if together := tab.hitsOf(t, goroutines); alone == 0 || together != goroutines*alone {
				t.Errorf("%d hits by %d goroutines, want as many times %d", together, goroutines, alone)
			}
		})
	}
}

// hitsOf is how many statements are reached where so many goroutines play the first two time lines.
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
