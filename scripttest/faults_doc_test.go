package scripttest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

// The package doc's table of faults names tests, benchmarks and faulty scripts that are there, and every
// faulty script stands in it.
func TestFaultsDoc(t *testing.T) {
	_, doc, found := strings.Cut(read(t, "doc.go"), "# The faults of")
	if !found {
		t.Fatal("doc.go has no table of faults")
	}
	var tests strings.Builder
	files, _ := filepath.Glob("*_test.go")
	for _, file := range files {
		tests.WriteString(read(t, file))
	}
	for _, name := range regexp.MustCompile(`(Test|Benchmark)[A-Z]\w+`).FindAllString(doc, -1) {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("doc.go names %s, which is not there", name)
		}
	}
	for _, name := range regexp.MustCompile(`\b(s\d_\w+|clients_clock)\b`).FindAllString(doc, -1) {
		if _, err := os.Stat(filepath.Join("testdata", "faulty", name+".lua")); err != nil {
			t.Errorf("doc.go names a script that is not there: %v", err)
		}
	}
	faulty, _ := filepath.Glob("testdata/faulty/*.lua")
	for _, file := range faulty {
		if name := strings.TrimSuffix(filepath.Base(file), ".lua"); !strings.Contains(doc, name) {
			t.Errorf("doc.go does not name %s", name)
		}
	}
	if len(faulty) == 0 {
		t.Error("there are no faulty scripts")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// S0: two keys without a shared hash tag. S4: five keys a limiter. Ours have three at most, with one tag,
// so that every call has one slot of a cluster.
func TestKeysOfACallShareTheirSlot(t *testing.T) {
	tag := regexp.MustCompile(`\{[^{}]+\}`)
	for _, script := range sluice.All() {
		if len(script.Keys) > 3 {
			t.Errorf("%s has %d keys, want 3 at most", script.File, len(script.Keys))
		}
		for _, key := range script.Keys {
			if got := tag.FindString(key.Pattern); got != "{<subject>}" {
				t.Errorf("%s: the tag of %s is %q, want {<subject>}", script.File, key.Pattern, got)
			}
		}
	}
}
