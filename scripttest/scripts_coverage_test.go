package scripttest_test

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluice-redis/sluice/scripttest"
)

var coveragePage = flag.String("coverage-page", "", "write the covered sources to this file, as HTML")

// The fast tests reach every line and take every branch of every script.
func TestCoverage(t *testing.T) {
	var cov scripttest.Coverage
	var all sync.WaitGroup
	for _, tab := range tables {
		all.Go(func() { tab.cover(t, &cov) })
	}
	all.Wait()
	for _, missing := range cov.Missing() {
		t.Error(missing)
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

func writePage(t *testing.T, cov *scripttest.Coverage) {
	if err := os.MkdirAll(filepath.Dir(*coveragePage), 0o755); err != nil {
		t.Fatal(err)
	}
	page, err := os.Create(*coveragePage)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if err := cov.WriteHTML(page); err != nil {
		t.Error(err)
	}
}
