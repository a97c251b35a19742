package scripttest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sluice-redis/sluice/scripttest"
)

// permits reported slice_1 size_1 limit_1 ... -> granted remaining wait reset_after count_1 ...
var sliceRingV1 = table{
	script: &sliceRingV1Script,
	keys:   []string{ringSubject},
	timelines: slices.Concat([]timeline{
		{"grant, deny, and grant when the slice has left", []line{
			{"0s", "1 0 1s 3 2", "1 1 0 3s 1"},
			{"500ms", "1 0 1s 3 2", "1 0 0 2.5s 2"},
			{"1s", "1 0 1s 3 2", "0 0 2s 2s 2"},
			{"2.999999s", "1 0 1s 3 2", "0 0 1us 1us 2"},
			{"3s", "1 0 1s 3 2", "1 1 0 3s 1"},
		}},
		{"a look writes nothing", []line{
			{"0s", "0 0 1s 3 2", "0 2 0 0 0"},
			{"", "!EXISTS $1/1sx3", "0"},
			{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
			{"1s", "0 0 1s 3 2 1s 1 2", "0 0 2s 2s 2 0"},
			{"", "!EXISTS $1/1sx1", "0"},
			{"3s", "0 0 1s 3 2", "0 2 0 0 0"},
		}},
		{"a look waits for one permit", []line{
			{"0s", "1 0 1s 5 3", "1 2 0 5s 1"},
			{"1s", "2 0 1s 5 3", "2 0 0 5s 3"},
			{"2s", "0 0 1s 5 3", "0 0 3s 4s 3"},
			{"2s", "1 0 1s 5 3", "0 0 3s 4s 3"},
			{"2s", "2 0 1s 5 3", "0 0 4s 4s 3"},
		}},
		{"n permits together or not at all", []line{
			{"0s", "2 0 1s 3 5", "2 3 0 3s 2"},
			{"1s", "2 0 1s 3 5", "2 1 0 3s 4"},
			{"1s", "3 0 1s 3 5", "0 1 2s 3s 4"},
			{"2s", "5 0 1s 3 5", "0 1 2s 2s 4"},
			{"3s", "3 0 1s 3 5", "3 0 0 3s 5"},
		}},
		{"several windows, all or nothing", []line{
			{"0s", "1 0 1s 1 2 1s 10 3", "1 1 0 10s 1 1"},
			{"0s", "1 0 1s 1 2 1s 10 3", "1 0 0 10s 2 2"},
			{"0s", "1 0 1s 1 2 1s 10 3", "0 0 1s 10s 2 2"},
			{"1s", "1 0 1s 1 2 1s 10 3", "1 0 0 10s 1 3"},
			{"1s", "1 0 1s 1 2 1s 10 3", "0 0 9s 10s 1 3"},
			{"2s", "1 0 1s 1 2 1s 10 3", "0 0 8s 9s 0 3"},
			{"10s", "2 0 1s 1 2 1s 10 3", "2 0 0 10s 2 3"},
		}},
		{"each window by slices of its own", []line{
			{"0s", "2 0 1s 3 3 10s 4 5", "2 1 0 40s 2 2"},
			{"1s", "1 0 1s 3 3 10s 4 5", "1 0 0 39s 3 3"},
			{"2s", "1 0 1s 3 3 10s 4 5", "0 0 1s 38s 3 3"},
			{"3s", "1 0 1s 3 3 10s 4 5", "1 1 0 37s 2 4"},
			{"9s", "2 0 1s 3 3 10s 4 5", "0 1 31s 31s 0 4"},
			{"9s", "1 0 1s 3 3 10s 4 5", "1 0 0 31s 1 5"},
			{"10s", "1 0 1s 3 3 10s 4 5", "0 0 30s 30s 1 5"},
			{"10s", "1 0 10s 4 5 1s 3 3", "0 0 30s 30s 5 1"},
			{"39.9s", "0 0 1s 3 3 10s 4 5", "0 0 100ms 100ms 0 5"},
			{"40s", "2 0 1s 3 3 10s 4 5", "2 1 0 40s 2 2"},
			{"40s", "2 0 1s 3 3 10s 4 5", "0 1 3s 40s 2 2"},
		}},
		{"slices that do not divide each other", []line{
			{"0s", "1 0 700ms 4 2 1.5s 5 3", "1 1 0 7500ms 1 1"},
			{"1.5s", "1 0 700ms 4 2 1.5s 5 3", "1 0 0 7500ms 2 2"},
			{"2.1s", "1 0 700ms 4 2 1.5s 5 3", "0 0 300ms 6900ms 2 2"},
			{"2.8s", "1 0 700ms 4 2 1.5s 5 3", "1 0 0 6200ms 2 3"},
			{"2.8s", "1 0 700ms 4 2 1.5s 5 3", "0 0 4700ms 6200ms 2 3"},
			{"6s", "0 0 700ms 4 2 1.5s 5 3", "0 0 1500ms 3s 0 3"},
			{"7.5s", "1 0 700ms 4 2 1.5s 5 3", "1 0 0 7500ms 1 3"},
		}},
		{"the wait is that of the fullest window", []line{
			{"0s", "1 0 1s 1 1 1s 4 2 1s 8 2", "1 0 0 8s 1 1 1"},
			{"1s", "1 0 1s 1 1 1s 4 2 1s 8 2", "1 0 0 8s 1 2 2"},
			{"1s", "1 0 1s 1 1 1s 4 2 1s 8 2", "0 0 7s 8s 1 2 2"},
			{"1s", "1 0 1s 1 1 1s 4 2 1s 8 3", "0 0 3s 8s 1 2 2"},
			{"1s", "1 0 1s 1 1 1s 4 3 1s 8 3", "0 0 1s 8s 1 2 2"},
			{"1s", "1 0 1s 8 2 1s 1 9 1s 4 9", "0 0 7s 8s 2 1 2"},
			{"1s", "1 0 1s 4 2 1s 1 9 1s 8 9", "0 0 3s 8s 2 1 2"},
		}},
		{"idle for exactly one lap, for several, for less and for more", []line{
			{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
			{"3s", "1 0 1s 3 2", "1 1 0 3s 1"},
			{"5s", "1 0 1s 3 2", "1 0 0 3s 2"},
			{"6s", "0 0 1s 3 2", "0 1 0 2s 1"},
			{"9s", "2 0 1s 3 2", "2 0 0 3s 2"},
			{"39s", "2 0 1s 3 2", "2 0 0 3s 2"},
			{"43s", "1 0 1s 3 2", "1 1 0 3s 1"},
			{"1000000.5s", "0 0 1s 3 2", "0 2 0 0 0"},
			{"1000000.5s", "2 0 1s 3 2", "2 0 0 2.5s 2"},
		}},
		{"a gap across the end of the ring clears the slices it skipped", []line{
			{"0s", "1 0 1s 5 9", "1 8 0 5s 1"},
			{"1s", "1 0 1s 5 9", "1 7 0 5s 2"},
			{"2s", "1 0 1s 5 9", "1 6 0 5s 3"},
			{"3s", "1 0 1s 5 9", "1 5 0 5s 4"},
			{"4s", "1 0 1s 5 9", "1 4 0 5s 5"},
			{"7s", "1 0 1s 5 9", "1 6 0 5s 3"},
			{"8s", "0 0 1s 5 9", "0 7 0 4s 2"},
			{"9s", "0 0 1s 5 9", "0 8 0 3s 1"},
			{"11s", "0 0 1s 5 9", "0 8 0 1s 1"},
		}},
		{"a window that is new begins empty", []line{
			{"0s", "1 0 1s 2 5", "1 4 0 2s 1"},
			{"1s", "1 0 1s 2 5 1s 10 5", "1 3 0 10s 2 1"},
			{"1s", "3 0 1s 2 5", "3 0 0 2s 5"},
			{"1s", "0 0 1s 10 5 1s 3 5", "0 4 0 10s 1 0"},
		}},
		{"a call counts only in the windows that it names", []line{
			{"0s", "1 0 1s 3 9 2s 5 9", "1 8 0 10s 1 1"},
			{"1s", "2 0 1s 3 9", "2 6 0 3s 3"},
			{"1s", "0 0 2s 5 9", "0 8 0 9s 1"},
			{"9s", "1 0 2s 5 9", "1 7 0 9s 2"},
			{"9s", "0 0 1s 3 9", "0 9 0 0 0"},
		}},
		{"a ninth window changes nothing in the other eight", []line{
			{"0s", "2 0 1s 2 9 1s 3 9 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9", "2 7 0 9s 2 2 2 2 2 2 2 2"},
			{"1s", "1 0 1s 10 9", "1 8 0 10s 1"},
			{"1s", "0 0 1s 2 9 1s 3 9 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9", "0 7 0 8s 2 2 2 2 2 2 2 2"},
			{"3s", "0 0 1s 2 9 1s 3 9 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9", "0 7 0 6s 0 0 2 2 2 2 2 2"},
		}},
		{"a report beside a window that is new", []line{
			{"0s", "4 0 1s 11 10", "4 6 0 11s 4"},
			{"9s", "4 0 1s 11 10", "4 2 0 11s 8"},
			{"9.5s", "5 1 2s 6 10", "5 4 0 10.5s 6"},
			{"9.5s", "5 0 2s 6 10", "0 4 10.5s 10.5s 6"},
			{"19.999999s", "5 0 2s 6 10", "0 4 1us 1us 6"},
			{"20s", "5 0 2s 6 10", "5 5 0 12s 5"},
		}},
		{"a long window that is new does not hold what a short one did", []line{
			{"0s", "100 0 60s 2 100", "100 0 0 120s 100"},
			{"0s", "1 0 60s 61 100", "1 99 0 3660s 1"},
		}},
		{"a return reaches only the windows that it names", []line{
			{"0s", "5 0 1s 11 10", "5 5 0 11s 5"},
			{"10s", "3 0 1s 11 10", "3 2 0 11s 8"},
			{"12s", "1 0 1s 11 10", "1 6 0 11s 4"},
			{"12.5s", "1 0 1s 11 10 60s 61 5", "1 4 0 3647.5s 5 1"},
			{"12.5s", "slice_ring_return @0s 5 1s 11", "0"},
			{"12.5s", "0 0 1s 11 10 60s 61 5", "0 4 0 3647.5s 5 1"},
		}},
		{"the same window twice is one ring, charged once", []line{
			{"0s", "1 0 1s 3 2 1s 3 3", "1 1 0 3s 1 1"},
			{"1s", "1 0 1s 3 2 1s 3 3", "1 0 0 3s 2 2"},
			{"2s", "1 0 1s 3 3 1s 3 2", "0 0 1s 2s 2 2"},
			{"3s", "1 0 1s 3 3 1s 3 2", "1 0 0 3s 2 2"},
			{"3s", "0 5 1s 3 9 1s 3 9", "0 2 0 3s 7 7"},
			{"3s", "0 0 1s 3 9", "0 2 0 3s 7"},
		}},
		{"a changed limit applies at once", []line{
			{"0s", "3 0 1s 5 3", "3 0 0 5s 3"},
			{"1s", "1 0 1s 5 6", "1 2 0 5s 4"},
			{"2s", "1 0 1s 5 2", "0 0 3s 4s 4"},
			{"2s", "2 0 1s 5 2", "0 0 4s 4s 4"},
		}},
		{"denied until so many have left", []line{
			{"0s", "1 0 1s 60 6", "1 5 0 60s 1"},
			{"5s", "1 0 1s 60 6", "1 4 0 60s 2"},
			{"6s", "1 0 1s 60 6", "1 3 0 60s 3"},
			{"30s", "1 0 1s 60 6", "1 2 0 60s 4"},
			{"31s", "1 0 1s 60 6", "1 1 0 60s 5"},
			{"59s", "1 0 1s 60 6", "1 0 0 60s 6"},
			{"59s", "1 0 1s 60 6", "0 0 1s 60s 6"},
			{"59s", "2 0 1s 60 6", "0 0 6s 60s 6"},
			{"59s", "3 0 1s 60 6", "0 0 7s 60s 6"},
			{"59s", "4 0 1s 60 6", "0 0 31s 60s 6"},
			{"59s", "5 0 1s 60 6", "0 0 32s 60s 6"},
			{"59s", "6 0 1s 60 6", "0 0 60s 60s 6"},
			{"59s", "1 0 1s 60 4", "0 0 7s 60s 6"},
			{"70s", "3 0 1s 60 6", "3 0 0 60s 6"},
			{"70s", "4 0 1s 60 6", "0 0 60s 60s 6"},
		}},
		{"denied in the largest ring", []line{
			{"0s", "2 0 1s 1000 2", "2 0 0 1000s 2"},
			{"0s", "1 0 1s 1000 2", "0 0 1000s 1000s 2"},
			{"999s", "1 0 1s 1000 2", "0 0 1s 1s 2"},
			{"999s", "1 0 1s 1000 3", "1 0 0 1000s 3"},
			{"999s", "1 0 1s 1000 3", "0 0 1s 1000s 3"},
			{"1000s", "1 0 1s 1000 1", "0 0 999s 999s 1"},
			{"1998s", "1 0 1s 1000 1", "0 0 1s 1s 1"},
		}},
		{"a slice whose permits were given back holds no one up", []line{
			{"0s", "1 0 1s 10 3", "1 2 0 10s 1"},
			{"3s", "1 0 1s 10 3", "1 1 0 10s 2"},
			{"5s", "1 0 1s 10 3", "1 0 0 10s 3"},
			{"6s", "slice_ring_return @0s 1 1s 10", "1"},
			{"6s", "1 0 1s 10 3", "1 0 0 10s 3"},
			{"6s", "1 0 1s 10 3", "0 0 7s 10s 3"},
		}},
		{"what was given back counts until the last charge has left in reset_after alone", []line{
			{"0s", "5 0 1s 11 10", "5 5 0 11s 5"},
			{"0s", "slice_ring_return @0s 5 1s 11", "5"},
			{"0s", "10 0 1s 11 10", "10 0 0 11s 10"},
			{"0s", "slice_ring_return @0s 10 1s 11", "10"},
			{"0s", "0 0 1s 11 10", "0 10 0 11s 0"},
			{"11s", "0 0 1s 11 10", "0 10 0 0 0"},
		}},
		{"a ring that is lost, a limit that changes and a return let more through", []line{
			{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
			{"", "!DEL $1/1sx3", "1"},
			{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
			{"1s", "1 0 1s 3 3", "1 0 0 3s 3"},
			{"1s", "slice_ring_return @0s 2 1s 3", "2"},
			{"1s", "2 0 1s 3 3", "2 0 0 3s 3"},
		}},
		{"a window of one slice", []line{
			{"0.25s", "1 0 1s 1 2", "1 1 0 750ms 1"},
			{"0.999999s", "1 0 1s 1 2", "1 0 0 1us 2"},
			{"0.999999s", "1 0 1s 1 2", "0 0 1us 1us 2"},
			{"1s", "2 0 1s 1 2", "2 0 0 1s 2"},
		}},
		{"up to 2 * limit in size * slice, and limit in (size - 1) * slice", []line{
			{"0.9s", "2 0 1s 3 2", "2 0 0 2.1s 2"},
			{"2.999999s", "2 0 1s 3 2", "0 0 1us 1us 2"},
			{"3s", "2 0 1s 3 2", "2 0 0 3s 2"},
		}},
		{"a time that the slices do not divide is covered by one more, rounded up", []line{ // 2.5s by slices of a second
			{"0.999999s", "2 0 1s 4 2 1s 3 2", "2 0 0 3000001us 2 2"},
			{"3.499999s", "1 0 1s 3 2", "1 1 0 2500001us 1"},
			{"3.499999s", "1 0 1s 4 2", "0 0 500001us 500001us 2"},
		}},
		{"whatever a key is called, it is read by slice and size", []line{
			{"", "!SET $1/1sx4 ring:@0s:2:0:0:0:0", "OK"},
			{"0s", "1 0 1s 4 5", "1 2 0 4s 3"},
			{"3s", "0 0 1s 4 5", "0 2 0 1s 3"},
		}},
	}, sliceRingV1Reports, sliceRingV1Clocks, sliceRingV1Stored),
}

// sliceRingV1Reports are calls that report permits.
var sliceRingV1Reports = []timeline{
	{"a report is charged whatever the window holds, and asks for nothing", []line{
		{"0s", "0 2 1s 3 3", "0 1 0 3s 2"},
		{"1s", "0 5 1s 3 3", "0 0 3s 3s 7"},
		{"2s", "0 0 1s 3 3", "0 0 2s 2s 7"},
		{"3s", "1 0 1s 3 3", "0 0 1s 1s 5"},
		{"4s", "1 0 1s 3 3", "1 2 0 3s 1"},
	}},
	{"what is asked for besides is decided after the report", []line{
		{"0s", "1 2 1s 3 3", "1 0 0 3s 3"},
		{"1s", "1 0 1s 3 3", "0 0 2s 2s 3"},
		{"3s", "2 2 1s 3 3", "0 1 3s 3s 2"},
		{"4s", "1 0 1s 3 3", "1 0 0 3s 3"},
		{"6s", "2 1 1s 3 3", "0 1 1s 3s 2"},
	}},
	{"a report that leaves no room leaves with its slice", []line{
		{"0.5s", "1 3 1s 3 3", "0 0 2.5s 2.5s 3"},
		{"1s", "1 9 1s 3 3", "0 0 3s 3s 12"},
		{"4s", "3 0 1s 3 3", "3 0 0 3s 3"},
	}},
	{"room beside a report comes when older permits leave", []line{
		{"0s", "2 0 1s 3 3", "2 1 0 3s 2"},
		{"1s", "1 1 1s 3 3", "0 0 2s 3s 3"},
		{"2s", "2 1 1s 3 3", "0 0 2s 3s 4"},
		{"3s", "1 0 1s 3 3", "1 0 0 3s 3"},
	}},
	{"several windows: the report counts in each, the decision in none or all", []line{
		{"0s", "0 2 1s 3 3 10s 4 5", "0 1 0 40s 2 2"},
		{"5s", "1 3 1s 3 3 10s 4 5", "0 0 35s 35s 3 5"},
		{"8s", "1 0 1s 3 3 10s 4 5", "0 0 32s 32s 0 5"},
		{"8s", "0 1 1s 3 3 10s 4 9", "0 2 0 32s 1 6"},
		{"8s", "3 0 1s 3 4 10s 4 9", "3 0 0 32s 4 9"},
	}},
	{"the window that waits longest need not be the last", []line{
		{"0s", "1 3 4s 3 3 1s 3 9", "0 0 12s 12s 3 3"},
		{"4s", "1 9 1s 3 3 4s 3 30", "0 0 3s 12s 9 12"},
	}},
	{"a report by a clock that is behind counts in the last slice", []line{
		{"5s", "1 0 1s 3 3", "1 2 0 3s 1"},
		{"3s", "0 2 1s 3 3", "0 0 5s 5s 3"},
		{"7s", "1 2 1s 3 3", "0 0 1s 3s 5"},
	}},
	{"of a void ring only the report counts", []line{
		{"50000h", "3 0 1s 3 3", "3 0 0 3s 3"},
		{"0s", "1 1 1s 3 3", "1 1 0 3s 2"},
	}},
	{"a count stops at 10^13", []line{
		{"0s", "!SET $1/1sx3 ring:@0s:9999999999999:0:0:0:0", "OK"},
		{"0s", "0 0 1s 3 3", "0 0 3s 3s 9999999999999"},
		{"0s", "0 2 1s 3 3", "0 0 3s 3s 10000000000000"},
		{"1s", "1 1000000000 1s 3 1000000000", "0 0 2s 3s 10000000000000"},
		{"", "!GET $1/1sx3", "ring:@1s:10000000000000:0:0:10000000000000:0"},
		{"3s", "1 1 1s 3 3", "1 1 0 3s 2"},
	}},
	{"a wait behind a report that a full ring takes only in part", []line{
		{"0s", "!SET $1/1sx3 ring:@0s:9999999999999:0:0:0:0", "OK"},
		{"1s", "1 9 1s 3 2", "0 0 2s 3s 10000000000000"},
		{"3s", "1 0 1s 3 2", "1 0 0 3s 2"},
	}},
	{"arguments", []line{
		{"0s", "4 2 1s 3 3", "BADARG permits: want up to every limit"},
		{"0s", "3 0 1s 3 4 1s 5 2 1s 6 4", "BADARG permits: want up to every limit"},
		{"0s", "0 1000000001 1s 3 3", "BADARG reported: want 0..1000000000"},
		{"0s", "1 0 1s 1001 3", "BADARG size_1: want 1..1000"},
		{"", "!EXISTS $1/1sx3", "0"},
		{"0s", "3 0 1s 3 3 1s 5 4", "3 0 0 5s 3 3"},
		{"0s", "1 1000000000 1s 4 3", "0 0 4s 4s 1000000000"},
	}},
}

// sliceRingV1Clocks are steps of the clock.
var sliceRingV1Clocks = []timeline{
	{"the clock is behind: permits count in the last slice", []line{
		{"5s", "1 0 1s 3 2", "1 1 0 3s 1"},
		{"2s", "1 0 1s 3 2", "1 0 0 6s 2"},
		{"2s", "1 0 1s 3 2", "0 0 6s 6s 2"},
		{"8s", "1 0 1s 3 2", "1 1 0 3s 1"},
	}},
	{"denied while the clock is behind", []line{
		{"0s", "1 0 1s 20 3", "1 2 0 20s 1"},
		{"7s", "1 0 1s 20 3", "1 1 0 20s 2"},
		{"2s", "1 0 1s 20 3", "1 0 0 25s 3"},
		{"2s", "1 0 1s 20 3", "0 0 18s 25s 3"},
		{"2s", "2 0 1s 20 3", "0 0 25s 25s 3"},
		{"19.5s", "1 0 1s 20 3", "0 0 500ms 7.5s 3"},
	}},
	{"the clock is behind the last charge of one window, and not of the other", []line{
		{"5s", "1 0 1s 3 2", "1 1 0 3s 1"},
		{"2s", "1 0 1s 3 2 1s 4 2", "1 0 0 6s 2 1"},
		{"2s", "1 0 1s 3 2 1s 4 2", "0 0 6s 6s 2 1"},
		{"7s", "0 0 1s 3 2 1s 4 2", "0 0 1s 1s 2 0"},
	}},
	{"a step back of a window and 60 s voids nothing, a microsecond more does", []line{
		{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
		{"-63s", "1 0 1s 3 2", "0 0 66s 66s 2"},
		{"-63.000001s", "0 0 1s 3 2", "0 2 0 0 0"},
		{"-63.000001s", "2 0 1s 3 2", "2 0 0 2.000001s 2"},
		{"-63.000001s", "1 0 1s 3 2", "0 0 2.000001s 2.000001s 2"},
	}},
	{"each window is void by its own width", []line{
		{"0s", "2 0 1s 3 2 1s 10 2", "2 0 0 10s 2 2"},
		{"-70s", "0 0 1s 3 2 1s 10 2", "0 0 80s 80s 0 2"},
		{"-70.000001s", "2 0 1s 3 2 1s 10 2", "2 0 0 9.000001s 2 2"},
	}},
	{"while the clock is far behind, a ring is empty, and comes back if it was not charged", []line{
		{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
		{"-64s", "2 0 1s 10 2", "2 0 0 10s 2"},
		{"-64s", "1 0 1s 3 2 1s 10 2", "0 0 10s 10s 0 2"},
		{"-54s", "1 0 1s 3 2 1s 10 2", "0 0 57s 57s 2 0"},
	}},
	{"the clock steps back three years: afresh at once", []line{
		{"0s", "2 0 1s 3 2", "2 0 0 3s 2"},
		{"-26280h", "2 0 1s 3 2", "2 0 0 3s 2"},
		{"-26280h", "1 0 1s 3 2", "0 0 3s 3s 2"},
	}},
	{"eight windows, and the largest counts", []line{
		{"0s", "1000000000 0 1s 1 1000000000 1s 1000 1000000000", "1000000000 0 0 1000s 1000000000 1000000000"},
		{"1s", "1000000000 0 1s 1 1000000000", "1000000000 0 0 1s 1000000000"},
		{"1s", "0 1000000000 1s 1000 1000000000", "0 0 1000s 1000s 2000000000"},
		{"1s", "1 0 1s 1 1000000000 1s 2 1 1s 3 1 1s 4 1 1s 5 1 1s 6 1 1s 7 1 1s 1000 1",
			"0 0 1000s 1000s 1000000000 0 0 0 0 0 0 2000000000"},
	}},
	{"the largest limit is what remains", []line{
		{"0s", "0 0 1s 3 1000000000", "0 1000000000 0 0 0"},
	}},
}

const badRing = "BADSTATE ring_1: want 19 bytes and its cells"

// sliceRingV1Stored are about what is stored.
var sliceRingV1Stored = []timeline{
	{"what is stored", []line{
		{"0s", "2 0 1s 3 9", "2 7 0 3s 2"},
		{"", "!GET $1/1sx3", "ring:@0s:2:0:0:0:0"},
		{"0.5s", "1 0 1s 3 9", "1 6 0 2.5s 3"},
		{"", "!GET $1/1sx3", "ring:@500ms:3:0:0:0:0"},
		{"2s", "1 0 1s 3 9", "1 5 0 3s 4"},
		{"", "!GET $1/1sx3", "ring:@2s:4:0:0:3:3"},
		{"2s", "slice_ring_return @0s 1 1s 3", "1"},
		{"", "!GET $1/1sx3", "ring:@2s:3:0:0:2:2"},
		{"4s", "2 0 1s 3 9", "2 6 0 3s 3"},
		{"", "!GET $1/1sx3", "ring:@4s:5:2:3:3:2"},
		{"9s", "1 0 1s 3 9", "1 8 0 3s 1"},
		{"", "!GET $1/1sx3", "ring:@9s:1:0:0:0:0"},
	}},
	{"totals wrap at 2^48", []line{
		{"0s", "!SET $1/1sx3 ring:@0s:281474976710655:281474976710655:281474976710655:281474976710655:281474976710655", "OK"},
		{"0s", "0 0 1s 3 9", "0 9 0 3s 0"},
		{"0s", "1 0 1s 3 9", "1 8 0 3s 1"},
		{"", "!GET $1/1sx3", "ring:@0s:0:281474976710655:281474976710655:281474976710655:281474976710655"},
		{"0s", "2 0 1s 3 9", "2 6 0 3s 3"},
		{"1s", "2 0 1s 3 9", "2 4 0 3s 5"},
		{"2s", "5 0 1s 3 9", "0 4 1s 2s 5"},
		{"3s", "0 0 1s 3 9", "0 7 0 1s 2"},
	}},
	{"a key of another type is left alone", []line{
		{"0s", "!RPUSH $1/1sx3 x", "1"},
		{"0s", "1 0 1s 3 2", wrongType},
		{"0s", "0 0 1s 3 2", wrongType},
		{"0s", "1 5 1s 4 2 1s 3 2", wrongType},
		{"", "!LRANGE $1/1sx3 0 -1", "[x]"},
		{"", "!EXISTS $1/1sx4", "0"},
	}},
	{"an empty string is no ring", []line{
		{"0s", `!SET $1/1sx3 ""`, "OK"},
		{"0s", "0 0 1s 3 2", "0 2 0 0 0"},
		{"0s", "1 0 1s 3 2", "1 1 0 3s 1"},
		{"", "!STRLEN $1/1sx3", "37"},
	}},
	{"an unreadable ring", []line{
		{"0s", "!SET $1/1sx3 x", "OK"},
		{"0s", "1 0 1s 3 2", badRing},
		{"0s", "1 0 1s 4 2 1s 3 2", "BADSTATE ring_2: want 19 bytes and its cells"},
		{"", "!EXISTS $1/1sx4", "0"},
		{"", "!SET $1/1sx3 " + cut(ringHeader(0, 1, 0)), "OK"},
		{"0s", "1 9 1s 3 2", badRing},
		{"", "!DEL $1/1sx3", "1"},
		{"0s", "1 0 1s 3 2", "1 1 0 3s 1"},
	}},
	{"a ring that ends too soon", []line{
		{"0s", "!SET $1/1sx3 " + cut(ringHeader(0, 1, 0, 0, 0, 0)), "OK"},
		{"1s", "0 0 1s 3 2", badRing},
		{"2s", "!SET $1/1sx3 " + cut(ringHeader(2, 1, 0, 0, 0, 0)), "OK"},
		{"2s", "1 0 1s 3 1", badRing},
		{"1s", "!SET $1/1sx3 " + cut(ringHeader(1, 2, 0, 0, 1, 0)), "OK"},
		{"1s", "1 0 1s 3 2", badRing},
		{"0s", "!SET $1/1sx3 " + ringHeader(0, 1, 0), "OK"},
		{"1s", "1 0 1s 3 1", badRing},
		{"3s", "1 0 1s 3 1", "1 0 0 3s 1"},
	}},
	{"a ring is read as far as the call needs", []line{
		{"0s", "!SET $1/1sx3 " + cut(ringHeader(0, 1, 0, 0, 0, 0)), "OK"},
		{"2s", "1 0 1s 3 1", badRing},
		{"0s", "!SET $1/1sx3 ring:0:0:0", "OK"},
		{"0s", "0 0 1s 3 2", "0 2 0 0 0"},
		{"0s", "!SET $1/1sx3 " + ringHeader(0, 1, 0), "OK"},
		{"0s", "0 0 1s 3 2", "0 1 0 3s 1"},
		{"0s", "1 0 1s 3 2", "1 0 0 3s 2"},
		{"0s", "1 0 1s 3 2", badRing},
		{"1s", "1 0 1s 3 9", badRing},
	}},
	{"what stands behind the ring does not matter", []line{
		{"0s", "1 0 1s 3 9", "1 8 0 3s 1"},
		{"", "!APPEND $1/1sx3 xxxxxxxxxxxx", "49"},
		{"2s", "1 0 1s 3 9", "1 7 0 3s 2"},
		{"2s", "8 0 1s 3 9", "0 7 1s 3s 2"},
		{"", "!STRLEN $1/1sx3", "49"},
	}},
}

// ringHeader is a ring with slices of a second, charged last so many seconds behind the epoch.
func ringHeader(last uint64, numbers ...uint64) string {
	return inWidths(append([]uint64{epoch + last*1_000_000}, numbers...), 7, 6, 6, 6)
}

// cut is a text without its last byte.
func cut(text string) string { return text[:len(text)-1] }

// ringInstructions is what any call with one window ends within: about twice what the dearest takes. There is no loop
// over slices: a gap is cleared by string.rep.
const ringInstructions = 2500

// ringCaller calls a script about one ring of slices of a second, on a server that expires nothing.
func (tab table) ringCaller(t testing.TB, size int64) (*scripttest.Redis,
	func(second, permits, reported int64) scripttest.Result) {
	r := scripttest.Start(t)
	r.NeverExpire(true)
	script := compile(t, tab.script.File, tab.script.Source)
	script.Budget = ringInstructions
	return r, func(second, permits, reported int64) scripttest.Result {
		r.SetTime(epoch + second*1_000_000)
		args := decimals(permits, reported, 1_000_000, size, 1_000_000_000)
		result := script.Run(r, tab.keysOf(args), args)
		reply, _ := result.Reply.([]any)
		for one := range oneByOne(tab.script, 1, reply) {
			result.Reply = one
		}
		return result
	}
}

// count is what a ring holds.
func count(t testing.TB, result scripttest.Result) int64 {
	if result.Err != nil {
		t.Fatalf("%d instructions: %v", result.Instructions, result.Err)
	}
	return result.Reply.([]any)[5].(int64)
}

// checkRingGaps: for every size, start and gap, and however many slices were charged before it, a ring holds what it
// should until all has left. A call ends within its instructions.
func (tab table) checkRingGaps(t testing.TB) {
	for size := int64(1); size <= 5; size++ {
		for start := range size {
			for filled := int64(1); filled <= size; filled++ {
				for gap := range 2*size + 2 {
					tab.checkRingGap(t, size, start, filled, gap)
				}
			}
		}
	}
	for _, size := range []int64{60, 1000} {
		for _, gap := range []int64{1, 2, size - 1, size, size + 1, 2*size + 1, 100_000_000, -1, 1 - size} {
			tab.checkRingGap(t, size, 3, 5, gap)
			tab.checkRingGap(t, size, size-2, 5, gap)
		}
	}
}

// checkRingGap charges 1, 2, 4 and so on in slices from start on, and once more behind a gap.
func (tab table) checkRingGap(t testing.TB, size, start, filled, gap int64) {
	_, call := tab.ringCaller(t, size)
	charged := map[int64]int64{}
	for i := range filled {
		charged[start+i] = 1 << i
		count(t, call(start+i, 1<<i, 0))
	}
	last := start + filled - 1
	later := max(last+gap, last) // a clock that is behind stands still
	charged[later] += 1 << filled
	seen := count(t, call(last+gap, 1<<filled, 0))
	for now := later; now <= later+min(size, 6); now++ {
		want := int64(0)
		for slice, permits := range charged {
			if slice > now-size {
				want += permits
			}
		}
		if seen != want {
			t.Errorf("size %d, start %d, %d filled, gap %d: %d slices later %d, want %d", size, start, filled, gap,
				now-later, seen, want)
		}
		seen = count(t, call(now+1, 0, 0))
	}
}

// checkRingDamage: whatever byte is damaged and wherever it ends, a call ends: with BADSTATE and the bytes as they were,
// or with an answer.
func (tab table) checkRingDamage(t testing.TB) {
	for at := range 19 + 6*4 {
		for _, damage := range []func(ring []byte) []byte{
			func(ring []byte) []byte { return ring[:at] },
			func(ring []byte) []byte { ring[at] = 0; return ring },
			func(ring []byte) []byte { ring[at] ^= 0x7f; return ring },
			func(ring []byte) []byte { ring[at] = 0xff; return ring },
		} {
			r, call := tab.ringCaller(t, 4)
			for second := range int64(6) {
				call(second, 1, 0)
			}
			key := ringSubject + "1000000x4"
			stored, _ := r.Do("GET", key)
			_, _ = r.Do("SET", key, damage([]byte(stored.(string))))
			for _, second := range []int64{5, 6, 7, 11, -3} {
				before := r.Snapshot()
				result := call(second, 1_000_000_000, 0)
				if _, refused := result.Err.(scripttest.ErrorReply); result.Err != nil && !refused {
					t.Fatalf("byte %d, second %d: %v", at, second, result.Err)
				}
				reply, _ := result.Reply.([]any)
				if (result.Err != nil || reply[0].(int64) <= 0) && r.Snapshot() != before {
					t.Errorf("byte %d, second %d: %v %v, and the store changed", at, second, reply, result.Err)
				}
			}
		}
	}
}

// checkWaits: every wait that is told is true. Until it has passed the permits are denied, and then they are granted.
func checkWaits(t testing.TB) {
	windows := []string{"1s 4 ", "700ms 6 ", "2s 3 ", "100ms 1 ", "1s 1 "}
	random := rand.New(rand.NewPCG(4, 1))
	waits := 0
	for range 25 {
		h, now := startHarness(t, false), int64(epoch)
		for range 20 {
			now += random.Int64N(1_500_000) - 200_000
			asks, do := 1+random.Int64N(3), ""
			for _, i := range random.Perm(len(windows))[:1+random.IntN(3)] {
				do += windows[i] + strconv.FormatInt(asks+random.Int64N(5), 10) + " "
			}
			ask := func(now, reported int64) []int64 {
				h.setTime(now)
				args := sliceRingV1.arguments(fmt.Sprintf("%d %d %s", asks, reported, do))
				reply, failed := h.call(sliceRingV1.script, false, sliceRingV1.keysOf(args), args)
				if failed != "" {
					t.Fatal(failed)
				}
				return reply
			}
			reply := ask(now, random.Int64N(9)/7)
			if reply[0] > 0 {
				continue
			}
			waits++
			now += reply[2]
			if early := ask(now-1, 0); early[0] > 0 || early[2] != 1 {
				t.Errorf("%d of %s: wait %d, and 1 us before its end %v", asks, do, reply[2], early)
			}
			if late := ask(now, 0); late[0] != asks {
				t.Errorf("%d of %s: wait %d, and at its end %v", asks, do, reply[2], late)
			}
		}
	}
	if waits < 100 {
		t.Errorf("%d waits", waits)
	}
}

// checkBounds: a call for as many rings of 1000 slices as there may be ends within so many instructions for each ring:
// where they are new, behind a gap through all slices, and denied deep in each.
func (tab table) checkBounds(t testing.TB) {
	const instructions = 700 // for a ring, about twice what the dearest takes
	r := scripttest.Start(t)
	r.NeverExpire(true)
	args := decimals(1, 0)
	for i := range int64(8) {
		args = append(args, decimals(1_000_008-i, 1000, 1_000_000_000)...) // the last is searched first
	}
	if tab.script.KeyGroup != nil {
		tab.keys = append(tab.keys, tab.more[0])
	}
	keys := tab.keysOf(args)
	script := compile(t, tab.script.File, tab.script.Source)
	script.Budget = instructions * len(keys)
	for _, step := range []struct{ second, permits int64 }{
		{0, 1}, {0, 1}, {999, 1}, {1000, 999_999_998}, {1000, 1_000_000_000}, {3000, 1}, {3000, 1_000_000_000},
	} {
		r.SetTime(epoch + step.second*1_000_000)
		args[0] = strconv.FormatInt(step.permits, 10)
		if result := script.Run(r, keys, args); result.Err != nil {
			t.Errorf("%d permits at %d s: %d instructions, %v", step.permits, step.second, result.Instructions, result.Err)
		}
	}
}
