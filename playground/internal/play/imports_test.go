package play

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A browser loads this package and lua51, so they bring no client, no test framework and no templates along.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list -deps: %v\n%s", err, out)
	}
	imported := strings.Fields(string(out))
	for _, heavy := range []string{"testing", "text/template", "html/template", "github.com/redis/go-redis/v9", "flag"} {
		if slices.Contains(imported, heavy) {
			t.Errorf("%s is imported", heavy)
		}
	}
	if !slices.Contains(imported, "github.com/sluice-redis/sluice/internal/lua51") {
		t.Errorf("go list -deps printed\n%s", out)
	}
}
