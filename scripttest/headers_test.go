package scripttest_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

var sentenceEnds = regexp.MustCompile(`\. |\.$`)

// sentences are those of a script's header: its prose, and what stands beside arguments, replies, errors, layout and
// cost.
func sentences(script *sluice.Script) (all []string) {
	texts := []string{strings.ReplaceAll(script.About, "\n", " "), script.Layout, script.Cost}
	for _, field := range slices.Concat(script.Args, script.Reply) {
		texts = append(texts, field.Text)
	}
	for _, e := range script.Errors {
		texts = append(texts, e.Text)
	}
	for _, text := range texts {
		for _, sentence := range sentenceEnds.Split(text, -1) {
			if sentence != "" && !slices.Contains(all, sentence) {
				all = append(all, sentence)
			}
		}
	}
	return all
}

// Every sentence of the headers of rings and budgets is in the tables of docs/testing.md, with tests that there are.
func TestSentencesHaveTests(t *testing.T) {
	_, page, _ := strings.Cut(read(t, "../docs/testing.md"), "## What the headers of rings say")
	sources := ""
	files, _ := filepath.Glob("*_test.go")
	for _, file := range files {
		sources += read(t, file)
	}
	ofRing := sentences(&sliceRingV1Script)
	for _, tab := range []table{sliceRingV1, sliceRingManyV1, sliceRingReturnV1, budgetV1, budgetSettleV1} {
		_, section, _ := strings.Cut(page, "\n### "+tab.script.Name+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		want := sentences(tab.script)
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			if len(cells) != 2 || cells[0] == "| sentence" {
				continue
			}
			sentence := strings.TrimPrefix(cells[0], "| ")
			if !slices.Contains(want, sentence) {
				t.Errorf("docs/testing.md: %s does not say %q", tab.script.File, sentence)
			}
			want = slices.DeleteFunc(want, func(s string) bool { return s == sentence })
			for _, test := range strings.Split(strings.TrimSuffix(cells[1], " |"), "; ") {
				named := func(c check) bool { return c.name == test }
				if !slices.ContainsFunc(tab.checks(), named) && !strings.Contains(sources, "\nfunc "+test+"(") {
					t.Errorf("docs/testing.md: %s has no test %q", tab.script.File, test)
				}
			}
		}
		for _, sentence := range want {
			if tab.script == sliceRingV1.script || !slices.Contains(ofRing, sentence) {
				t.Errorf("%s says %q, want a row in docs/testing.md", tab.script.File, sentence)
			}
		}
	}
}
