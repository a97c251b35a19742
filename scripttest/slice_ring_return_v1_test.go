package scripttest_test

import (
	"fmt"
	"testing"

	"github.com/sluice-redis/sluice"
)

// moment permits slice_1 size_1 ... -> returned
var sliceRingReturnV1 = table{
	script: &sliceRingReturnV1Script,
	keys:   []string{ringSubject},
	timelines: []timeline{
		{"what is given back in the same slice can be granted again", []line{
			{"0s", "slice_ring 2 0 1s 3 2", "2 0 0 3s 2"},
			{"0.5s", "slice_ring 1 0 1s 3 2", "0 0 2.5s 2.5s 2"},
			{"0.5s", "@0s 1 1s 3", "1"},
			{"0.5s", "slice_ring 1 0 1s 3 2", "1 0 0 2.5s 2"},
			{"0.5s", "slice_ring 1 0 1s 3 2", "0 0 2.5s 2.5s 2"},
		}},
		{"in later slices it leaves each window that held it", []line{
			{"0s", "slice_ring 3 0 1s 1 9 1s 2 9 1s 4 9", "3 6 0 4s 3 3 3"},
			{"1s", "slice_ring 2 0 1s 1 9 1s 2 9 1s 4 9", "2 4 0 4s 2 5 5"},
			{"2s", "slice_ring 1 0 1s 1 9 1s 2 9 1s 4 9", "1 3 0 4s 1 3 6"},
			{"2s", "@1.999999s 1 1s 1 1s 2 1s 4", "1"},
			{"2s", "slice_ring 0 0 1s 1 9 1s 2 9 1s 4 9", "0 4 0 4s 1 2 5"},
			{"2s", "@0.5s 2 1s 1 1s 2 1s 4", "2"},
			{"2s", "slice_ring 0 0 1s 1 9 1s 2 9 1s 4 9", "0 6 0 4s 1 2 3"},
			{"4s", "slice_ring 0 0 1s 1 9 1s 2 9 1s 4 9", "0 7 0 2s 0 0 2"},
			{"5s", "slice_ring 0 0 1s 1 9 1s 2 9 1s 4 9", "0 8 0 1s 0 0 1"},
		}},
		{"only the windows that are named", []line{
			{"0s", "slice_ring 3 0 1s 3 9 1s 4 9", "3 6 0 4s 3 3"},
			{"0s", "@0s 2 1s 4", "2"},
			{"0s", "slice_ring 0 0 1s 3 9 1s 4 9", "0 6 0 4s 3 1"},
		}},
		{"no more than the slice holds", []line{
			{"0s", "slice_ring 3 0 1s 3 9", "3 6 0 3s 3"},
			{"1s", "slice_ring 4 0 1s 3 9", "4 2 0 3s 7"},
			{"1s", "@0s 4 1s 3", "3"},
			{"1s", "@0s 4 1s 3", "0"},
			{"1s", "@1s 1000000000 1s 3", "4"},
			{"1s", "@1s 1 1s 3", "0"},
			{"1s", "slice_ring 9 0 1s 3 9", "9 0 0 3s 9"},
		}},
		{"in windows with slices of their own, as long as each holds it", []line{
			{"0s", "slice_ring 2 0 1s 2 9 5s 3 9 20s 4 9", "2 7 0 80s 2 2 2"},
			{"4s", "slice_ring 3 0 1s 2 9 5s 3 9 20s 4 9", "3 4 0 76s 3 5 5"},
			{"4s", "@0s 1 1s 2 5s 3 20s 4", "1"},
			{"4s", "slice_ring 0 0 1s 2 9 5s 3 9 20s 4 9", "0 5 0 76s 3 4 4"},
			{"15s", "slice_ring 1 0 1s 2 9 5s 3 9 20s 4 9", "1 4 0 65s 1 1 5"},
			{"15s", "@4s 3 1s 2 5s 3 20s 4", "3"},
			{"15s", "slice_ring 0 0 1s 2 9 5s 3 9 20s 4 9", "0 7 0 65s 1 1 2"},
			{"15s", "@15s 9 1s 2 5s 3 20s 4", "2"},
			{"15s", "slice_ring 0 0 1s 2 9 5s 3 9 20s 4 9", "0 9 0 65s 0 0 0"},
		}},
		{"at most 1000 slices in all windows together", []line{
			{"0s", "slice_ring 2 0 1s 1000 9 2s 1000 9 3s 1000 9", "2 7 0 3000s 2 2 2"},
			{"500s", "slice_ring 1 0 1s 1000 9 2s 1000 9 3s 1000 9", "1 6 0 2998s 3 3 3"},
			{"500s", "@0s 1 1s 1000 2s 1000 3s 1000", "1"},
			{"500s", "slice_ring 0 0 1s 1000 9 2s 1000 9 3s 1000 9", "0 7 0 2998s 2 2 2"},
			{"650s", "slice_ring 1 0 1s 1000 9 2s 1000 9 3s 1000 9", "1 6 0 2998s 3 3 3"},
			{"650s", "@0s 1 1s 1000 2s 1000 3s 1000", "1"},
			{"650s", "slice_ring 0 0 1s 1000 9 2s 1000 9 3s 1000 9", "0 6 0 2998s 2 2 3"},
			{"650s", "@0s 1 3s 1000 1s 1000", "1"},
			{"650s", "slice_ring 0 0 1s 1000 9 2s 1000 9 3s 1000 9", "0 7 0 2998s 2 2 2"},
		}},
		{"slices of a window that is passed over do not count among the 1000", []line{
			{"0s", "slice_ring 2 0 1s 1000 9 2s 1000 9", "2 7 0 2000s 2 2"},
			{"650s", "slice_ring 1 0 1s 1000 9 2s 1000 9", "1 6 0 2000s 3 3"},
			{"650s", "@0s 1 1s 1000 1s 1000 2s 1000", "1"},
			{"650s", "slice_ring 0 0 1s 1000 9 2s 1000 9", "0 7 0 2000s 2 2"},
		}},
		{"1000 slices back in all, and one more", []line{
			{"0s", "slice_ring 2 0 1s 1000 9 3s 1000 9", "2 7 0 3000s 2 2"},
			{"750s", "slice_ring 1 0 1s 1000 9 3s 1000 9", "1 6 0 3000s 3 3"},
			{"750s", "@0s 1 1s 1000 3s 1000", "1"},
			{"750s", "slice_ring 0 0 1s 1000 9 3s 1000 9", "0 7 0 3000s 2 2"},
			{"751s", "slice_ring 1 0 1s 1000 9 3s 1000 9", "1 6 0 2999s 3 3"},
			{"751s", "@0s 1 1s 1000 3s 1000", "1"},
			{"751s", "slice_ring 0 0 1s 1000 9 3s 1000 9", "0 6 0 2999s 2 3"},
		}},
		{"across the end of the ring", []line{
			{"-1s", "slice_ring 1 0 1s 3 9", "1 8 0 3s 1"},
			{"0s", "slice_ring 2 0 1s 3 9", "2 6 0 3s 3"},
			{"1s", "slice_ring 3 0 1s 3 9", "3 3 0 3s 6"},
			{"2s", "slice_ring 1 0 1s 3 9", "1 3 0 3s 6"},
			{"2s", "@0s 1 1s 3", "1"},
			{"2s", "slice_ring 0 0 1s 3 9", "0 4 0 3s 5"},
			{"3s", "slice_ring 1 0 1s 3 9", "1 4 0 3s 5"},
			{"3s", "@1s 3 1s 3", "3"},
			{"", "!STRLEN $1/1sx3", "37"},
			{"3s", "slice_ring 0 0 1s 3 9", "0 7 0 3s 2"},
			{"4s", "slice_ring 0 0 1s 3 9", "0 7 0 2s 2"},
			{"4s", "@2s 1 1s 3", "1"},
			{"4s", "slice_ring 0 0 1s 3 9", "0 8 0 2s 1"},
			{"5s", "slice_ring 0 0 1s 3 9", "0 8 0 1s 1"},
		}},
		{"the oldest slice of the ring, and the one before it", []line{
			{"0s", "slice_ring 1 0 1s 3 9", "1 8 0 3s 1"},
			{"1s", "slice_ring 1 0 1s 3 9", "1 7 0 3s 2"},
			{"3s", "slice_ring 1 0 1s 3 9", "1 7 0 3s 2"},
			{"3s", "@0.999999s 1 1s 3", "0"},
			{"3s", "@1s 1 1s 3", "1"},
			{"3s", "@4s 1 1s 3", "0"},
			{"3s", "slice_ring 0 0 1s 3 9", "0 8 0 3s 1"},
		}},
		{"a skipped slice holds nothing", []line{
			{"0s", "slice_ring 1 0 1s 5 9", "1 8 0 5s 1"},
			{"3s", "slice_ring 1 0 1s 5 9", "1 7 0 5s 2"},
			{"3s", "@2s 1 1s 5", "0"},
			{"3s", "slice_ring 0 0 1s 5 9", "0 7 0 5s 2"},
		}},
		{"what is reported goes back too", []line{
			{"0s", "slice_ring 0 5 1s 5 3", "0 0 5s 5s 5"},
			{"1s", "@0s 4 1s 5", "4"},
			{"1s", "slice_ring 2 0 1s 5 3", "2 0 0 5s 3"},
		}},
		{"a ring that is gone, or begun again", []line{
			{"0s", "@0s 1 1s 3", "0"},
			{"0s", "0 1 1s 3", "0"},
			{"", "!EXISTS $1/1sx3", "0"},
			{"0s", "slice_ring 3 0 1s 3 9", "3 6 0 3s 3"},
			{"", "!DEL $1/1sx3", "1"},
			{"1s", "slice_ring 1 0 1s 3 9", "1 8 0 3s 1"},
			{"1s", "@0s 3 1s 3", "0"},
			{"1s", "slice_ring 0 0 1s 3 9", "0 8 0 3s 1"},
			{"10s", "slice_ring 1 0 1s 3 9", "1 8 0 3s 1"},
			{"10s", "@1s 1 1s 3", "0"},
			{"10s", "@9s 1 1s 3", "0"},
			{"10s", "slice_ring 0 0 1s 3 9", "0 8 0 3s 1"},
		}},
		{"a slice that has left by the clock, and not by a later charge", []line{
			{"0s", "slice_ring 3 0 1s 3 9", "3 6 0 3s 3"},
			{"3s", "@0s 1 1s 3", "1"},
			{"3s", "slice_ring 9 0 1s 3 9", "9 0 0 3s 9"},
			{"3s", "@0s 1 1s 3", "0"},
		}},
		{"more than was granted, or twice, takes permits of others", []line{
			{"0s", "slice_ring 3 0 1s 3 9", "3 6 0 3s 3"},
			{"0s", "slice_ring 2 0 1s 3 9", "2 4 0 3s 5"},
			{"0s", "@0s 2 1s 3", "2"},
			{"0s", "@0s 2 1s 3", "2"},
			{"0s", "slice_ring 0 0 1s 3 9", "0 8 0 3s 1"},
		}},
		{"permits granted while the clock was behind", []line{
			{"5s", "slice_ring 1 0 1s 4 9", "1 8 0 4s 1"},
			{"3s", "slice_ring 2 0 1s 4 9", "2 6 0 6s 3"},
			{"3s", "@3s 2 1s 4", "0"},
			{"3s", "slice_ring 0 0 1s 4 9", "0 6 0 6s 3"},
		}},
		{"permits granted while the clock was behind, and others of that time", []line{
			{"0s", "slice_ring 2 0 1s 11 10", "2 8 0 11s 2"},
			{"5s", "slice_ring 1 0 1s 11 10", "1 7 0 11s 3"},
			{"0.5s", "slice_ring 3 0 1s 11 10", "3 4 0 15.5s 6"},
			{"0.5s", "@0.5s 3 1s 11", "2"},
			{"5s", "slice_ring 0 0 1s 11 10", "0 6 0 11s 4"},
			{"15s", "slice_ring 0 0 1s 11 10", "0 6 0 1s 4"},
		}},
		{"totals that wrap at 2^48", []line{
			// The total before slice 0 becomes 2^48 - 1, that before slice 1 becomes 2, that of all 4.
			{"1s", "!SET $1/1sx3 ring:@1s:4:281474976710655:281474976710655:2:281474976710655", "OK"},
			{"1s", "slice_ring 0 0 1s 3 9", "0 4 0 3s 5"},
			{"1s", "@0s 3 1s 3", "3"},
			{"", "!GET $1/1sx3", "ring:@1s:1:281474976710655:281474976710655:281474976710655:281474976710655"},
			{"1s", "slice_ring 0 0 1s 3 9", "0 7 0 3s 2"},
			{"1s", "@1s 2 1s 3", "2"},
			{"", "!GET $1/1sx3", "ring:@1s:281474976710655:281474976710655:281474976710655:281474976710655:281474976710655"},
			{"1s", "slice_ring 0 0 1s 3 9", "0 9 0 3s 0"},
		}},
		{"the largest counts", []line{
			{"0s", "slice_ring 1000000000 0 1s 1 1000000000", "1000000000 0 0 1s 1000000000"},
			{"0s", "@0s 1000000000 1s 1", "1000000000"},
			{"0s", "slice_ring 1000000000 0 1s 1 1000000000", "1000000000 0 0 1s 1000000000"},
		}},
		{"the time of the last charge and the expiry stay", []line{
			{"0s", "slice_ring 3 0 1s 3 9", "3 6 0 3s 3"},
			{"1s", "@0s 3 1s 3", "3"},
			{"", "!GET $1/1sx3", "ring:@0s:0:0:0:0:0"},
			{"1s", "slice_ring 0 0 1s 3 9", "0 9 0 2s 0"},
		}},
		{"the same window twice gives back once", []line{
			{"0s", "slice_ring 3 0 1s 3 9", "3 6 0 3s 3"},
			{"1s", "@0s 1 1s 3 1s 3", "1"},
			{"1s", "slice_ring 0 0 1s 3 9", "0 7 0 2s 2"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "slice_ring 1 0 1s 4 9", "1 8 0 4s 1"},
			{"0s", "!RPUSH $1/1sx3 x", "1"},
			{"0s", "@0s 1 1s 4 1s 3", wrongType},
			{"", "!LRANGE $1/1sx3 0 -1", "[x]"},
			{"0s", "slice_ring 0 0 1s 4 9", "0 8 0 4s 1"},
		}},
		{"an unreadable ring", []line{
			{"0s", `!SET $1/1sx3 ""`, "OK"},
			{"0s", "@0s 1 1s 3", "0"},
			{"", "!SET $1/1sx3 x", "OK"},
			{"0s", "@0s 1 1s 3", badRing},
			{"", "!SET $1/1sx3 " + cut(ringHeader(0, 1, 0)), "OK"},
			{"0s", "@1s 1 1s 3", badRing},
			{"0s", "@0s 1 1s 4 1s 3", "BADSTATE ring_2: want 19 bytes and its cells"},
			{"", "!SET $1/1sx3 " + ringHeader(0, 1, 0), "OK"},
			{"0s", "@0s 1 1s 3", badRing},
			{"0s", "@1s 1 1s 3", "0"},
			{"", "!SET $1/1sx3 " + cut(ringHeader(2, 1, 0, 0, 1, 1)), "OK"},
			{"2s", "@2s 1 1s 3", badRing},
			{"2s", "@0s 1 1s 3", badRing},
		}},
	},
}

// checkReturnsToDamage: whatever byte of a ring is damaged and wherever it ends, a return ends: with BADSTATE and the
// bytes as they were, or an answer.
func checkReturnsToDamage(script *sluice.Script, args ...string) func(testing.TB) {
	return func(t testing.TB) {
		tab := table{script: script, keys: budgetV1.keys[:len(script.Keys)]}
		for at := range 19 + 6*4 {
			for _, value := range []int{-1, 0, 0x80, 0xff} {
				h := startHarness(t, true)
				for second := range int64(6) {
					sliceRingV1.play(h, timeline{lines: after(fmt.Sprintf("%ds 2 0 1s 4 9", second))})
				}
				ring := []byte(stored(h, ringSubject+"1000000x4", "").Text)
				if value < 0 {
					ring = ring[:at]
				} else {
					ring[at] = byte(value)
				}
				h.do("SET", ringSubject+"1000000x4", string(ring))
				h.do("SET", budgetV1.keys[1], packed("charge:"+absolute("@3s")+":2:1s:4"))
				_, failed := h.call(script, false, tab.keysOf(args), args) // which compares the store
				if failed != "" && failed != badRing {
					t.Errorf("byte %d = %d: %s", at, value, failed)
				}
			}
		}
	}
}
