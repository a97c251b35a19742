//go:build unix

package attack

import (
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

// TestMain silences go-redis, which would tell of every connection that is refused.
func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable()
	os.Exit(m.Run())
}
