package wire

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-redis/sluice/internal/rarelog"
)

// TestPanicOfAStartedTask has a function panic that nobody waits for: it is logged.
func TestPanicOfAStartedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		ts := tasks{log: rarelog.New(slog.New(slog.NewTextHandler(&lines, nil)))}
		ts.Start(func() { panic("in the background") })
		synctest.Wait()
		if text := lines.String(); !strings.Contains(text, `msg="panic given up" panic="in the background"`) {
			t.Errorf("the log is %q", text)
		}
	})
}
