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

// A grant removes a bounded number of what has expired, and more than it adds.
func TestGrantsRemoveABoundedNumber(t *testing.T) {
	h := startHarness(t, true)
	h.setTime(epoch)
	key := zsetLogV1.keys[0]
	for range 2 {
		h.call(&sluice.ZSetLogV1, false, []string{key}, []string{"1000", "10000000", "500", "0", ""})
	}
	h.setTime(epoch + 9_999_999)
	h.call(&sluice.ZSetLogV1, false, []string{key}, []string{"2000", "10000000", "1", "0", ""})
	h.setTime(epoch + 10_000_000)
	for _, c := range []struct {
		permits string
		want    string // members afterwards
	}{
		{"1", "901"},   // 1001 - 101 + 1
		{"300", "801"}, // 901 - 400 + 300
		{"1", "701"},
		{"500", "803"}, // the last 398 expired ones, and no live one
		{"1", "804"},
	} {
		h.call(&sluice.ZSetLogV1, false, []string{key}, []string{"2000", "10000000", c.permits, "0", ""})
		if members := h.do("ZCARD", key); members != c.want {
			t.Errorf("%s members after a grant of %s, want %s", members, c.permits, c.want)
		}
	}
}
