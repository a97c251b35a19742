package clientaddr

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Who trusts everybody is warned.
func TestTrustsEverybody(t *testing.T) {
	for proxy, want := range map[string]bool{"0.0.0.0/0": true, "::/0": true, "10.0.0.0/8": false, "unix": false} {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		var f Finder
		err := f.TrustXForwardedFor(proxy)
		slog.SetDefault(before)
		if got := strings.Contains(log.String(), "level=WARN"); err != nil || got != want {
			t.Errorf("%s: %v, warned %t: %s", proxy, err, got, &log)
		}
	}
}

func TestTrustHopsMistakes(t *testing.T) {
	var f Finder
	for _, n := range []int{-1, 0, 101} {
		if f.TrustHops(n) == nil {
			t.Errorf("%d hops have no error", n)
		}
	}
	if f.TrustHops(2) != nil || f.TrustHops(2) == nil || f.TrustXForwardedFor("10.0.0.0/8") == nil {
		t.Error("one option alone may say whom to trust")
	}
}
