package scripttest_test

import (
	"crypto/sha1"
	"encoding/hex"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
)

var tables = []table{zsetLogV1, listLogV1, sliceRingV1, tokenBucketV1, tokenBucketSetV1, gcraV1}

func TestEveryScriptHasATable(t *testing.T) {
	tabled := map[string]bool{}
	for _, tab := range tables {
		tabled[tab.script.File] = true
	}
	for _, script := range sluice.All() {
		if !tabled[script.File] {
			t.Errorf("%s has no time lines", script.File)
		}
	}
}

func TestTimelines(t *testing.T) {
	for _, tab := range tables {
		t.Run(tab.script.Name, func(t *testing.T) {
			tab.run(t, func(t *testing.T) target { return startHarness(t, false) })
		})
	}
}

// Correctness does not rest on expiry: the same answers where no TTL ever fires.
func TestTimelinesWithoutExpiry(t *testing.T) {
	for _, tab := range tables {
		t.Run(tab.script.Name, func(t *testing.T) {
			tab.run(t, func(t *testing.T) target { return startHarness(t, true) })
		})
	}
}

func TestTimelinesOnMiniredis(t *testing.T) {
	for _, tab := range tables {
		t.Run(tab.script.Name, func(t *testing.T) {
			tab.run(t, func(t *testing.T) target { return startMiniredis(t) })
		})
	}
}

func TestServerTimelines(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		for _, tab := range tables {
			t.Run(tab.script.Name, func(t *testing.T) {
				tab.run(t, func(t *testing.T) target {
					r := connectServer(t, server.Addr)
					r.do("FLUSHALL")
					return r
				})
			})
		}
	})
}

func sha1Hex(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}
