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

// Of many mistakes the first ones are shown, and how many more there are.
func TestManyMistakes(t *testing.T) {
	for _, test := range []struct {
		src, last string
		found     int
	}{
		{"limits: {a: {by: request.ip, rates: [" + strings.Repeat("3/1x, ", 19) + "]}}", "limits.yaml:1:146: rate", 20},
		{"limits: {a: {by: request.ip, rates: [" + strings.Repeat("3/1x, ", 20) + "]}}", "limits.yaml: and 1 more", 21},
		{"limits: {a: {by: [" + strings.Repeat("foo, ", 300) + "], rates: 3/1m}}", "limits.yaml: and 280 more", 300},
		{"limits: {a: {by: request.ip, rates: 3/1m, when: 'true" + strings.Repeat(" and true", 90_000) + "'}}",
			"limits.yaml: and 80 more", 100},
		{"limits: {" + strings.Repeat("a: {by: foo, rates: 3/1x}, ", 30_000) + "}", "limits.yaml: and at least 980 more",
			1000},
		{"limits: {a: {by: request.ip, rates: 3/1m, " + strings.Repeat("wehn", 10_000) + ": 3}}",
			`limits.yaml:1:43: unknown word "wehn`, 1},
	} {
		_, err := policy.Parse("limits.yaml", []byte(test.src))
		mistakes, _ := errors.AsType[policy.Mistakes](err)
		shown := strings.Split(mistakes.Error(), "\n")
		if len(mistakes) != test.found || len(shown) > 21 || len(mistakes.Error()) > 30_000 ||
			!strings.HasPrefix(shown[len(shown)-1], test.last) {
			t.Errorf("%.60s: %d mistakes in %d lines, want %d, and at the end %q:\n%.5000s", test.src, len(mistakes), len(shown),
				test.found, test.last, mistakes)
		}
	}
}

// Every kind of mistake has a file in testdata/mistakes.txt, and below it what is said of it.
func TestMistakes(t *testing.T) {
	golden, err := os.ReadFile(mistakesFile)
	must(t, err)
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
	must(t, err)
}
