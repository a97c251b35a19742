//go:build unix

package soak

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

// extent says how long the runs with killed servers are.
var extent = flag.String("chaos", "quick", "quick or full: how many decisions, and how many faults")

// full reports whether the long runs are asked for.
func full() bool { return *extent == "full" }

// byExtent is the one or the other number, as the flag says.
func byExtent(quick, long int64) int64 {
	if full() {
		return long
	}
	return quick
}

// TestMain silences go-redis, which would tell of every connection that is refused, and fails when
// goroutines of the loader or of go-redis outlive all clients.
func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable()
	code := m.Run()
	if stacks := moreThan(0); code == 0 && stacks != "" {
		fmt.Printf("goroutines are left over:\n%s\n", stacks)
		code = 1
	}
	os.Exit(code)
}
