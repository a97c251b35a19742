package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// Parse never panics, says the same of the same bytes, and names a place in the file for each mistake. What it accepts
// has limiters that are right, and matches any request without a panic.
func FuzzParse(f *testing.F) {
	golden, err := os.ReadFile(mistakesFile)
	if err != nil {
		f.Fatal(err)
	}
	for _, part := range strings.Split(string(golden), "\n"+begins)[1:] {
		_, rest, _ := strings.Cut(part, "\n")
		src, _, _ := strings.Cut(rest, arrow)
		f.Add(src)
	}
	examples, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(examples) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	limits := loader.New(redistest.Client(f, "localhost:1"))
	f.Fuzz(func(t *testing.T, src string) {
		file, err := policy.Parse("f.yaml", []byte(src))
		_, again := policy.Parse("f.yaml", []byte(src))
		if diff := cmp.Diff(textOf(err), textOf(again)); diff != "" {
			t.Errorf("two answers: %s", diff)
		}
		if err != nil {
			wantPlaces(t, src, err)
			return
		}
		wantLimiters(t, limits, file)
		for _, a := range []policy.Attributes{{}, from(""), from("2001:db8::7")} {
			_, _ = file.Match(a) // only that it returns
			for _, p := range file.Policies {
				_, _ = p.Counts(a)
			}
		}
	})
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func wantPlaces(t *testing.T, src string, err error) {
	var mistakes policy.Mistakes
	if !errors.As(err, &mistakes) || len(mistakes) == 0 {
		t.Fatalf("the error is not Mistakes: %v", err)
	}
	lines := len(regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]").Split(src, -1))
	for _, m := range mistakes {
		if m.Line < 1 || m.Line > lines+1 || m.Column < 1 || m.What == "" || m.Want == "" {
			t.Errorf("%+v, of %d lines", m, lines)
		}
	}
}

func wantLimiters(t *testing.T, limits *loader.Loader, file *policy.File) {
	for _, p := range file.Policies {
		all := [][]loader.Limit{p.Rates}
		if p.Rates == nil {
			all = nil
		}
		for _, plan := range p.Plans {
			all = append(all, plan.Rates)
		}
		for _, rates := range all {
			if err := (policy.Match{Policy: p, Rates: rates}).Limiter(limits).Check(); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
}
