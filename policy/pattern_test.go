package policy

import (
	"regexp"
	"testing"
)

// The steps of a pattern bound what the regexp package does for it. Patterns as files have them are far below.
func TestPatternSteps(t *testing.T) {
	for _, c := range []struct {
		pattern string
		allowed bool
	}{
		{"^/v[0-9]+/", true},
		{"^/users/[^/]+/orders(/[0-9]+)?$", true},
		{"^/(alpha|beta|gamma|delta|epsilon|zeta|eta)/[a-z]+$", true},
		{"^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}$", true},
		{"^[a-z]{1000}x", true}, // 1000 steps: one for each byte
		{`\.(js|css|png)$`, true},
		{`\.(jpe?g|png|svg|woff2?)(\?|$)`, true},
		{"(a*)*b", true},
		{"[a-z]{1000}x", false},
		{"[a-z]{40}x", false},
		{"^(a?){1000}x", false},
		{"(a?){1000}x", false},
		{"(?:^|a)[a-z]{1000}x", false},
		{"(.*a){20}b", false},
	} {
		steps := stepsOf(regexp.MustCompile(c.pattern), maxText)
		if got := steps <= maxSteps; got != c.allowed {
			t.Errorf("%s: %d steps, allowed: %v", c.pattern, steps, got)
		}
	}
}
