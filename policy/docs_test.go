package policy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/policy"
)

const page = "../docs/policy.md"

// The page names every word, name and function that a file may use, and its files are right.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	must(t, err)
	known := slices.Concat(policy.FileWords, policy.PolicyWords, policy.Names(), policy.FunctionNames)
	if len(known) < 30 {
		t.Fatalf("only %d words are known", len(known))
	}
	for _, word := range known {
		named := regexp.MustCompile("`[^`]*\\b" + regexp.QuoteMeta(word) + "\\b[^`]*`")
		if !named.Match(text) {
			t.Errorf("%s does not explain %s", page, word)
		}
	}
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		parse(t, string(file[1]))
	}
}

func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(paths) < 2 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	for _, path := range paths {
		f, err := policy.ParseFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		src, err := os.ReadFile(path)
		must(t, err)
		for _, p := range f.Policies {
			if line := strings.Split(string(src), "\n")[p.Line-1]; strings.TrimSpace(line) != p.Name+":" {
				t.Errorf("%s:%d is %q, want %s", path, p.Line, line, p.Name)
			}
		}
	}
}
