package lua51

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCountedComputesTheSame runs the corpus plain and counted: replies, errors and their lines are the same.
func TestCountedComputesTheSame(t *testing.T) {
	servers := [2]*Redis{Start(t), Start(t)}
	for _, group := range slices.Concat(corpus, drawn) {
		for _, source := range group.fragments {
			plain, err := Compile("fragment", source)
			counted, errCounted := CompileCounted("fragment", source)
			if err != nil || errCounted != nil {
				if (err == nil) != (errCounted == nil) {
					t.Errorf("%s: %v, counted %v", source, err, errCounted)
				}
				continue
			}
			keys, args := []string{"k1", "k2"}, []string{"a", "10", "1e3"}
			servers[0].FlushAll()
			servers[1].FlushAll()
			want := plain.Run(servers[0], keys, args)
			got := counted.Run(servers[1], keys, args)
			if diff := cmp.Diff(want.Reply, got.Reply); diff != "" {
				t.Errorf("%s\n%s", source, diff)
			}
			if got.Instructions > want.Instructions*3/2+20 {
				t.Errorf("%s\n%d instructions, counted %d", source, want.Instructions, got.Instructions)
			}
			if text, counted := fmt.Sprint(want.Err), fmt.Sprint(got.Err); text != counted {
				t.Errorf("%s\n%s\n%s", source, text, counted)
			}
		}
	}
}
