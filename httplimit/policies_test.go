package httplimit

import (
	"fmt"
	"testing"
)

// The texts of policies are those of the limits, also of more limits than are kept.
func TestPolicies(t *testing.T) {
	var kept policies
	for range 2 {
		for quota := range int64(maxPolicies + 100) {
			want := fmt.Sprintf(`"a\"b";q=%d;w=60`, quota)
			if got := kept.text(policy{name: `a"b`, quota: quota, window: 60}); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
	if len(kept.texts) != maxPolicies {
		t.Errorf("%d are kept, want %d", len(kept.texts), maxPolicies)
	}
}
