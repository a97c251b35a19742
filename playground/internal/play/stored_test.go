package play

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/layout"
)

// What is stored is shown as what it is: after grants of 1, 2 and 1 permits at 0.1 s, 0.1 s and 0.9 s.
func TestStored(t *testing.T) {
	const traffic = "&rate=0&calls=100ms,900ms&cost=2&burst=6&for=2s"
	log := []Entry{{100_000, 2}, {900_000, 2}}
	for lane, want := range map[string][]Key{
		"list_log":     {{Type: "list", Expires: us(1_901_000), Text: "4 entries", Entries: log}},
		"zset_log":     {{Type: "zset", Expires: us(1_901_000), Text: "4 members", Entries: log}},
		"s2":           {{Type: "zset", Expires: us(2_900_000), Text: "4 members", Entries: log}},
		"fixed_window": {{Type: "string", Expires: us(1_100_000), Text: "4"}},
		"token_bucket": {
			{Type: "hash", Expires: us(2_001_000), Text: "3 fields",
				Value: map[string]string{"rate": "5", "interval": "1000000", "scope": "0"}},
			{Type: "list", Expires: us(1_901_000), Text: "2 entries", Entries: log},
		},
		"quota": {{Type: "string", Expires: us(1_001_000), Level: &Level{Used: 4, Capacity: 5}, Text: "1893456000000000 4"}},
		"tutorial_bucket": {{Type: "hash", Expires: us(2_900_000), Text: "2 fields",
			Value: map[string]string{"tokens": "3", "time": "1893456000900000"}, Level: &Level{Used: 2, Capacity: 5}}},
		"s4": {{Type: "string", Text: "1"}, {Type: "zset", Text: "2 members", Entries: log}},
		"gcra": {{Type: "string", Expires: us(1_301_000), Level: &Level{Used: 2, Capacity: 6},
			Text: fmt.Sprintf("%x", layout.GCRA(startTime+1_300_000, 0, 5, startTime+900_000, 1_000_000))}},
	} {
		run, _ := runLink(t, "lanes="+lane+traffic)
		got, err := run.Stored(0)
		if err != nil || got.Now != 900_000 {
			t.Errorf("%s: %+v, %v", lane, got, err)
		}
		for i := range got.Keys {
			if !strings.HasPrefix(got.Keys[i].Key, "sluice:play:{everybody}:") {
				t.Errorf("%s: key %s", lane, got.Keys[i].Key)
			}
			got.Keys[i].Key = ""
		}
		if !reflect.DeepEqual(got.Keys, want) {
			t.Errorf("%s: %s\nwant %s", lane, JSON(got.Keys), JSON(want))
		}
	}
}

func us(n int64) *int64 { return &n }

func TestStoredRing(t *testing.T) {
	run, _ := runLink(t, "lanes=slice_ring&permits=9&window=60ms&rate=0&calls=100ms,102.5ms,102.9ms,130ms&cost=2")
	stored, err := run.Stored(0)
	if err != nil || len(stored.Keys) != 1 || stored.Keys[0].Cells == nil {
		t.Fatalf("%+v, %v", stored, err)
	}
	cells := stored.Keys[0].Cells
	counts := map[int64]int64{}
	for i, n := range cells.Counts {
		if n != 0 {
			counts[cells.First+int64(i)*cells.Slice] = n
		}
	}
	want := map[int64]int64{100_000: 2, 102_000: 4, 130_000: 2}
	if cells.Slice != 1000 || len(cells.Counts) != 61 || cells.First != 70_000 || !reflect.DeepEqual(counts, want) {
		t.Errorf("%+v: %v, want %v", cells, counts, want)
	}
}

// The oldest entries and cells are left out where there are many.
func TestStoredMany(t *testing.T) {
	for link, most := range map[string]int{
		"lanes=list_log&permits=3000&cost=1000&rate=0&calls=0s,1us,2us":            3000 - maxEntries,
		"lanes=zset_log&permits=3000&cost=500&rate=0&calls=0s,1us,2us,3us,4us,5us": 3000 - maxEntries,
	} {
		run, _ := runLink(t, link)
		stored, err := run.Stored(0)
		if err != nil || len(stored.Keys) != 1 || stored.Keys[0].More != most {
			t.Errorf("%s: %.300s, %v; want %d more", link, JSON(stored), err, most)
		}
	}
}

// The bytes that are stored are those of keys and values.
func TestBytes(t *testing.T) {
	const key = len("sluice:play:{everybody}:")
	for lane, want := range map[string]int{
		"list_log":        key + len("ll1") + 4*16,
		"zset_log":        key + len("zl1") + len("1") + len("1||2") + len("2") + len("2||2") + 4*8,
		"gcra":            key + len("gcra1") + 26,
		"slice_ring":      key + len("sr1:5000x201") + 19 + 201*6,
		"tutorial_bucket": key + len("tutorial_bucket") + len("tokens") + len("3") + len("time") + 16,
	} {
		run, _ := runLink(t, "lanes="+lane+"&rate=0&calls=100ms,900ms&cost=2")
		if got := run.Audit().Lanes[0].Bytes; got != int64(want) {
			t.Errorf("%s: %d bytes, want %d", lane, got, want)
		}
	}
}
