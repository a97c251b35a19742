package scripttest_test

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
)

var tables = []table{zsetLogV1, listLogV1, sliceRingV1, tokenBucketV1, tokenBucketSetV1, gcraV1, sliceRingReturnV1}

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
func TestGrantsRemoveABoundedNumber(t *testing.T) { checkGrantsRemoveABoundedNumber(t) }

func checkGrantsRemoveABoundedNumber(t testing.TB) {
	h := startHarness(t, true)
	h.setTime(epoch)
	key := zsetLogV1.keys[0]
	for _, id := range []string{"a", "b"} {
		h.call(&sluice.ZSetLogV1, false, []string{key}, []string{"1000", "10000000", "500", "0", id})
	}
	h.setTime(epoch + 9_999_999)
	h.call(&sluice.ZSetLogV1, false, []string{key}, []string{"2000", "10000000", "1", "0", "c"})
	h.setTime(epoch + 10_000_000)
	for i, c := range []struct {
		permits string
		want    string // members afterwards
	}{
		{"1", "901"},   // 1001 - 101 + 1
		{"300", "801"}, // 901 - 400 + 300
		{"1", "701"},
		{"500", "803"}, // the last 398 expired ones, and no live one
		{"1", "804"},
	} {
		h.call(&sluice.ZSetLogV1, false, []string{key}, []string{"2000", "10000000", c.permits, "0", "r" + strconv.Itoa(i)})
		if members := h.do("ZCARD", key); members != c.want {
			t.Errorf("%s members after a grant of %s, want %s", members, c.permits, c.want)
		}
	}
}

// The same of list_log, in larger steps; what remains is exact also where more has left than is removed.
func TestListLogRemovesABoundedNumber(t *testing.T) { checkListLogRemovesABoundedNumber(t) }

func checkListLogRemovesABoundedNumber(t testing.TB) {
	h := startHarness(t, true)
	key := listLogV1.keys[0]
	fill := make([]string, 0, 1002)
	fill = append(fill, "RPUSH", key)
	for range 1000 {
		fill = append(fill, strconv.FormatInt(epoch, 10))
	}
	for range 25 {
		h.do(fill...)
	}
	h.setTime(epoch + 9_000_000)
	for range 3 {
		h.call(&sluice.ListLogV1, false, []string{key}, []string{"1000000", "10000000", "1", "0"})
	}
	h.setTime(epoch + 10_000_000)
	for _, c := range []struct {
		permits   string
		remaining int64
		want      string // entries afterwards
	}{
		{"0", 999_997, "25003"},
		{"1", 999_996, "15003"},
		{"500", 999_496, "5003"},
		{"0", 999_496, "5003"},
		{"1", 999_495, "505"},
		{"1", 999_494, "506"},
	} {
		reply, failed := h.call(&sluice.ListLogV1, c.permits == "0", []string{key}, []string{"1000000", "10000000", c.permits, "0"})
		if failed != "" || reply[1] != c.remaining {
			t.Errorf("%s permits: %v, %s; want %d remaining", c.permits, reply, failed, c.remaining)
		}
		if entries := h.do("LLEN", key); entries != c.want {
			t.Errorf("%s entries after %s permits, want %s", entries, c.permits, c.want)
		}
	}
}

// Where more has left than is removed, and more lives than the limit, as after a lowered one: it looks no
// further from the newest than the limit.
func TestListLogLooksNoFurtherThanTheLimit(t *testing.T) {
	const limit = 100
	h := startHarness(t, true)
	key := listLogV1.keys[0]
	for i := range 30 {
		fill := []string{"RPUSH", key}
		for range 1000 {
			fill = append(fill, strconv.Itoa(epoch+i))
		}
		h.do(fill...)
	}
	h.setTime(epoch + 10_000_014)
	result := h.result(&sluice.ListLogV1, false, []string{key}, []string{strconv.Itoa(limit), "10000000", "2", "0"})
	if result.Err != nil || result.Reply.([]any)[1] != int64(0) {
		t.Fatalf("%v, %v; want nothing remaining", result.Reply, result.Err)
	}
	for _, command := range result.Commands {
		if command.Args[0] != "LINDEX" {
			continue
		}
		if index, _ := strconv.Atoi(command.Args[2]); index < -limit {
			t.Errorf("it looks at entry %d", index)
		}
	}
}
