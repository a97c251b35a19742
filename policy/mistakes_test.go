package policy_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/policy"
)

var update = flag.Bool("update", false, "write testdata/mistakes.txt")

const (
	mistakesFile = "testdata/mistakes.txt"
	begins       = "=== "
	arrow        = "--->\n"
)

// Every kind of mistake has a file in testdata/mistakes.txt, and below it what is said of it.
func TestMistakes(t *testing.T) {
	golden, err := os.ReadFile(mistakesFile)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(golden), "\n"+begins)
	for i, part := range parts[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		src, want, found := strings.Cut(rest, arrow)
		if !found {
			t.Fatalf("%q has no arrow", title)
		}
		_, err := policy.Parse("limits.yaml", []byte(src))
		var mistakes policy.Mistakes
		if !errors.As(err, &mistakes) || len(mistakes) == 0 {
			t.Errorf("%s: got the error %v, want mistakes", title, err)
			continue
		}
		got := mistakes.Error() + "\n"
		if diff := cmp.Diff(strings.TrimRight(want, "\n")+"\n", got); diff != "" && !*update {
			t.Errorf("%s: (-golden +got)\n%s", title, diff)
		}
		parts[i+1] = title + "\n" + src + arrow + got
	}
	if *update {
		err = os.WriteFile(mistakesFile, []byte(strings.Join(parts, "\n"+begins)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
