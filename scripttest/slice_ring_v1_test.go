package scripttest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/scripttest"
)

// permits slice_1 size_1 limit_1 ... -> granted remaining wait reset_after count_1 ...
var sliceRingV1 = table{
	script: &sliceRingV1Script,
	keys:   []string{"t:x:{u}:sr1"},
	timelines: append([]timeline{
		{"a link of 255, the last that fits in its lower byte", []line{
			{"2559s", "1 1s 3 1", "1 0 0 3s 1"},
			{"2560s", "1 1s 3 1", "0 0 2s 2s 1"},
		}},
		{"grant, deny, and grant when the slice has left", []line{
			{"0s", "1 1s 3 2", "1 1 0 3s 1"},
			{"500ms", "1 1s 3 2", "1 0 0 2.5s 2"},
			{"1s", "1 1s 3 2", "0 0 2s 2s 2"},
			{"2.999999s", "1 1s 3 2", "0 0 1us 1us 2"},
			{"3s", "1 1s 3 2", "1 1 0 3s 1"},
		}},
		{"a look writes nothing", []line{
			{"0s", "0 1s 3 2", "0 2 0 0 0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "2 1s 3 2", "2 0 0 3s 2"},
			{"1s", "0 1s 3 2 1s 1 2", "0 0 2s 2s 2 0"},
			{"3s", "0 1s 3 2 1s 1 2", "0 2 0 0 0 0"},
		}},
		{"n permits together or not at all", []line{
			{"0s", "2 1s 3 5", "2 3 0 3s 2"},
			{"1s", "2 1s 3 5", "2 1 0 3s 4"},
			{"1s", "3 1s 3 5", "0 1 2s 3s 4"},
			{"2s", "5 1s 3 5", "0 1 2s 2s 4"},
			{"3s", "3 1s 3 5", "3 0 0 3s 5"},
		}},
		{"several windows, all or nothing", []line{
			{"0s", "1 1s 1 2 1s 10 3", "1 1 0 10s 1 1"},
			{"0s", "1 1s 1 2 1s 10 3", "1 0 0 10s 2 2"},
			{"0s", "1 1s 1 2 1s 10 3", "0 0 1s 10s 2 2"},
			{"1s", "1 1s 1 2 1s 10 3", "1 0 0 10s 1 3"},
			{"1s", "1 1s 1 2 1s 10 3", "0 0 9s 10s 1 3"},
			{"2s", "1 1s 1 2 1s 10 3", "0 0 8s 9s 0 3"},
			{"10s", "2 1s 1 2 1s 10 3", "2 0 0 10s 2 3"},
		}},
		{"each window by slices of its own", []line{
			{"0s", "2 1s 3 3 10s 4 5", "2 1 0 40s 2 2"},
			{"1s", "1 1s 3 3 10s 4 5", "1 0 0 39s 3 3"},
			{"2s", "1 1s 3 3 10s 4 5", "0 0 1s 38s 3 3"},
			{"3s", "1 1s 3 3 10s 4 5", "1 1 0 37s 2 4"},
			{"9s", "2 1s 3 3 10s 4 5", "0 1 31s 31s 0 4"},
			{"9s", "1 1s 3 3 10s 4 5", "1 0 0 31s 1 5"},
			{"10s", "1 1s 3 3 10s 4 5", "0 0 30s 30s 1 5"},
			{"10s", "1 10s 4 5 1s 3 3", "0 0 30s 30s 5 1"},
			{"39.9s", "0 1s 3 3 10s 4 5", "0 0 100ms 100ms 0 5"},
			{"40s", "2 1s 3 3 10s 4 5", "2 1 0 40s 2 2"},
			{"40s", "2 1s 3 3 10s 4 5", "0 1 3s 40s 2 2"},
		}},
		{"slices that do not divide each other", []line{
			{"0s", "1 700ms 4 2 1.5s 5 3", "1 1 0 7500ms 1 1"},
			{"1.5s", "1 700ms 4 2 1.5s 5 3", "1 0 0 7500ms 2 2"},
			{"2.1s", "1 700ms 4 2 1.5s 5 3", "0 0 300ms 6900ms 2 2"},
			{"2.8s", "1 700ms 4 2 1.5s 5 3", "1 0 0 6200ms 2 3"},
			{"2.8s", "1 700ms 4 2 1.5s 5 3", "0 0 4700ms 6200ms 2 3"},
			{"6s", "0 700ms 4 2 1.5s 5 3", "0 0 1500ms 3s 0 3"},
			{"7.5s", "1 700ms 4 2 1.5s 5 3", "1 0 0 7500ms 1 3"},
		}},
		{"the wait is that of the fullest window", []line{
			{"0s", "1 1s 1 1 1s 4 2 1s 8 2", "1 0 0 8s 1 1 1"},
			{"1s", "1 1s 1 1 1s 4 2 1s 8 2", "1 0 0 8s 1 2 2"},
			{"1s", "1 1s 1 1 1s 4 2 1s 8 2", "0 0 7s 8s 1 2 2"},
			{"1s", "1 1s 1 1 1s 4 2 1s 8 3", "0 0 3s 8s 1 2 2"},
			{"1s", "1 1s 1 1 1s 4 3 1s 8 3", "0 0 1s 8s 1 2 2"},
		}},
		{"idle for exactly one lap, for several, for less and for more", []line{
			{"0s", "2 1s 3 2", "2 0 0 3s 2"},
			{"3s", "1 1s 3 2", "1 1 0 3s 1"},
			{"5s", "1 1s 3 2", "1 0 0 3s 2"},
			{"6s", "0 1s 3 2", "0 1 0 2s 1"},
			{"9s", "2 1s 3 2", "2 0 0 3s 2"},
			{"39s", "2 1s 3 2", "2 0 0 3s 2"},
			{"43s", "1 1s 3 2", "1 1 0 3s 1"},
			{"1000000.5s", "0 1s 3 2", "0 2 0 0 0"},
			{"1000000.5s", "2 1s 3 2", "2 0 0 2.5s 2"},
		}},
		{"idle for seven slices, one lap of a ring of seven", []line{
			{"0s", "3 1s 3 3", "3 0 0 3s 3"},
			{"7s", "3 1s 3 3", "3 0 0 3s 3"},
			{"21s", "3 1s 3 3", "3 0 0 3s 3"},
		}},
		{"a gap across the end of the ring clears the slices it skipped", []line{
			{"0s", "1 1s 5 9", "1 8 0 5s 1"},
			{"1s", "1 1s 5 9", "1 7 0 5s 2"},
			{"2s", "1 1s 5 9", "1 6 0 5s 3"},
			{"3s", "1 1s 5 9", "1 5 0 5s 4"},
			{"4s", "1 1s 5 9", "1 4 0 5s 5"},
			{"7s", "1 1s 5 9 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "1 6 0 5s 3 1 1 1 2"},
			{"8s", "0 1s 5 9 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 7 0 4s 2 0 1 1 1"},
		}},
		{"a gap that goes on at the start of the ring", []line{
			{"0s", "1 1s 5 9", "1 8 0 5s 1"},
			{"1s", "1 1s 5 9", "1 7 0 5s 2"},
			{"2s", "1 1s 5 9", "1 6 0 5s 3"},
			{"3s", "1 1s 5 9", "1 5 0 5s 4"},
			{"6s", "1 1s 5 9", "1 6 0 5s 3"},
			{"6s", "0 1s 5 9 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 6 0 5s 3 1 1 1 2"},
			{"9s", "0 1s 5 9 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 8 0 2s 1 0 0 0 1"},
		}},
		{"a ring that has gone round gets a longer window, as if all it still knows were new", []line{
			{"0s", "1 1s 2 9", "1 8 0 2s 1"},
			{"1s", "2 1s 2 9", "2 6 0 2s 3"},
			{"2s", "4 1s 2 9", "4 3 0 2s 6"},
			{"2s", "1 1s 7 9", "1 2 0 7s 7"},
			{"2s", "0 1s 7 9 1s 1 9 1s 2 9 1s 3 9 1s 6 9", "0 2 0 7s 7 5 7 7 7"},
			{"8s", "0 1s 7 9", "0 2 0 1s 7"},
		}},
		{"a longer window begins with what a shorter one holds", []line{
			{"0s", "1 1s 2 5", "1 4 0 2s 1"},
			{"1s", "1 1s 2 5", "1 3 0 2s 2"},
			{"2s", "0 1s 10 5", "0 3 0 9s 2"},
			{"2s", "1 1s 10 5", "1 2 0 10s 3"},
			{"2s", "0 1s 2 5", "0 3 0 2s 2"},
			{"9s", "0 1s 10 5", "0 2 0 3s 3"},
			{"10s", "0 1s 10 5", "0 2 0 2s 3"},
			{"11s", "0 1s 10 5", "0 4 0 1s 1"},
			{"11s", "1 1s 13 5", "1 1 0 13s 4"},
			{"14s", "0 1s 13 5 1s 4 5", "0 1 0 10s 4 1"},
		}},
		{"a longer window finds what has left a shorter one", []line{
			{"0s", "2 1s 2 5", "2 3 0 2s 2"},
			{"1.9s", "0 1s 10 5", "0 3 0 8.1s 2"},
			{"2s", "0 1s 2 5 1s 10 5", "0 3 0 8s 0 2"},
			{"2s", "1 1s 2 5 1s 10 5", "1 2 0 10s 1 3"},
			{"9s", "0 1s 10 5", "0 2 0 3s 3"},
		}},
		{"a shorter window leaves the longer one as it is", []line{
			{"0s", "1 1s 10 5", "1 4 0 10s 1"},
			{"3s", "1 1s 2 5", "1 4 0 2s 1"},
			{"6s", "1 1s 2 5", "1 4 0 2s 1"},
			{"9s", "0 1s 10 5", "0 2 0 7s 3"},
			{"12s", "0 1s 10 5", "0 3 0 4s 2"},
		}},
		{"a new window counts in the shortest that is as long, or else in the longest", []line{
			{"0s", "1 1s 3 9 10s 4 9 100s 3 9", "1 8 0 300s 1 1 1"},
			{"12s", "1 1s 3 9 10s 4 9 100s 3 9", "1 7 0 288s 1 2 2"},
			{"25s", "0 3s 2 9 1s 31 9 2s 100 9 50s 99 9", "0 7 0 4925s 0 2 2 2"},
			{"25s", "1 5s 3 9", "1 8 0 15s 1"},
			{"27s", "0 5s 3 9 1s 3 9 10s 4 9 100s 3 9", "0 6 0 273s 1 1 3 3"},
			{"39s", "1 5s 3 9 1s 3 9", "1 7 0 11s 2 1"},
			{"45s", "0 10s 4 9 5s 3 9", "0 6 0 25s 3 1"},
		}},
		{"a new window waits until another's slice has left it", []line{
			{"0s", "1 10s 6 1", "1 0 0 60s 1"},
			{"1s", "1 1s 20 1", "0 0 19s 19s 1"},
			{"19.999999s", "1 1s 20 1", "0 0 1 1 1"},
			{"20s", "1 1s 20 1", "1 0 0 20s 1"},
			{"20s", "1 1s 20 1", "0 0 20s 20s 1"},
			{"49s", "0 1s 20 1 10s 6 9", "0 1 0 31s 0 2"},
		}},
		{"a new window waits for a slice of another's, before its last", []line{
			{"0s", "2 10s 6 9", "2 7 0 60s 2"},
			{"15s", "1 10s 6 9", "1 6 0 55s 3"},
			{"16s", "1 1s 20 3", "0 0 13s 19s 3"},
			{"28.999999s", "1 1s 20 3", "0 0 1 6000001 3"},
			{"29s", "1 1s 20 3", "1 1 0 20s 2"},
		}},
		{"a window that is not asked for goes on counting", []line{
			{"0s", "1 1s 3 9 2s 5 9", "1 8 0 10s 1 1"},
			{"1s", "1 1s 3 9", "1 7 0 3s 2"},
			{"1s", "1 1s 3 9", "1 6 0 3s 3"},
			{"2s", "1 1s 3 9", "1 5 0 3s 4"},
			{"7s", "1 1s 3 9", "1 8 0 3s 1"},
			{"7s", "0 2s 5 9", "0 4 0 9s 5"},
			{"8s", "1 2s 5 9", "1 3 0 10s 6"},
			{"9s", "0 1s 3 9 2s 5 9", "0 3 0 9s 2 6"},
			{"", "!EXISTS $1", "1"},
		}},
		{"more than eight windows: those that are not asked for go", []line{
			{"0s", "2 1s 2 9 1s 3 9 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9", "2 7 0 8s 2 2 2 2 2 2 2"},
			{"1s", "1 1s 10 9", "1 6 0 10s 3"},
			{"3s", "1 1s 3 9 1s 9 9", "1 5 0 9s 2 4"},
			{"", "!STRLEN $1", "138"},
			{"4s", "0 1s 3 9 1s 9 9 1s 10 9", "0 5 0 9s 1 4 4"},
			{"11s", "0 1s 3 9 1s 9 9", "0 8 0 1s 0 1"},
			{"12s", "0 1s 3 9 1s 9 9", "0 9 0 0 0 0"},
		}},
		{"the same window twice", []line{
			{"0s", "1 1s 3 2 1s 3 3", "1 1 0 3s 1 1"},
			{"1s", "1 1s 3 2 1s 3 3", "1 0 0 3s 2 2"},
			{"2s", "1 1s 3 3 1s 3 2", "0 0 1s 2s 2 2"},
			{"3s", "1 1s 3 3 1s 3 2", "1 0 0 3s 2 2"},
		}},
		{"a changed limit applies at once", []line{
			{"0s", "3 1s 5 3", "3 0 0 5s 3"},
			{"1s", "1 1s 5 6", "1 2 0 5s 4"},
			{"2s", "1 1s 5 2", "0 0 3s 4s 4"},
		}},
		{"the clock is behind: permits count in the last slice", []line{
			{"5s", "1 1s 3 2", "1 1 0 3s 1"},
			{"2s", "1 1s 3 2", "1 0 0 6s 2"},
			{"2s", "1 1s 3 2", "0 0 6s 6s 2"},
			{"8s", "1 1s 3 2", "1 1 0 3s 1"},
		}},
		{"a step back of a window and 60 s voids nothing, a microsecond more does", []line{
			{"0s", "2 1s 3 2", "2 0 0 3s 2"},
			{"-63s", "1 1s 3 2", "0 0 66s 66s 2"},
			{"-63.000001s", "0 1s 3 2", "0 2 0 0 0"},
			{"-63.000001s", "2 1s 3 2", "2 0 0 2.000001s 2"},
			{"-63.000001s", "1 1s 3 2", "0 0 2.000001s 2.000001s 2"},
		}},
		{"a wide window's call is judged by its own width after a step back", []line{
			{"0s", "2 1s 3 2", "2 0 0 3s 2"},
			{"-70s", "1 1s 10 2", "0 0 80s 80s 2"},
			{"-70.000001s", "0 1s 10 2", "0 2 0 0 0"},
		}},
		{"a narrow window's call does not void what a wide one counts", []line{
			{"0s", "9 1s 600 9", "9 0 0 600s 9"},
			{"-500s", "1 1s 1 9", "0 0 501s 501s 9"},
			{"-500s", "0 1s 600 9", "0 0 1100s 1100s 9"},
			{"-660s", "0 1s 1 9", "0 0 661s 661s 9"},
			{"-660s", "0 1s 1 9 1s 600 9", "0 0 1260s 1260s 9 9"},
			{"-660.000001s", "0 1s 1 9 1s 600 9", "0 9 0 0 0 0"},
		}},
		{"the clock steps back three years: afresh at once", []line{
			{"0s", "2 1s 3 2", "2 0 0 3s 2"},
			{"-26280h", "2 1s 3 2", "2 0 0 3s 2"},
			{"-26280h", "1 1s 3 2", "0 0 3s 3s 2"},
		}},
		{"eight windows, and the largest counts", []line{
			{"0s", "1000000000 1s 1 1000000000 1s 9998 1000000000", "1000000000 0 0 9998s 1000000000 1000000000"},
			{"1s", "1000000000 1s 1 1000000000", "1000000000 0 0 1s 1000000000"},
			{"1s", "0 1s 2 1000000000 1s 9998 1000000000", "0 0 9998s 9998s 2000000000 2000000000"},
			{"1s", "0 1s 1 1 1s 2 1 1s 3 1 1s 4 1 1s 5 1 1s 6 1 1s 7 1 1s 8 1",
				"0 0 8s 8s 1000000000 2000000000 2000000000 2000000000 2000000000 2000000000 2000000000 2000000000"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!RPUSH $1 x", "1"},
			{"0s", "1 1s 3 2", wrongType},
			{"0s", "0 1s 3 2", wrongType},
			{"", "!LRANGE $1 0 -1", "[x]"},
		}},
		{"a header that ends too soon", []line{
			{"0s", "!SET $1 " + ringOf(3, 0, 5, 1, 2, 3)[:13], "OK"},
			{"0s", "1 1s 3 9", "BADSTATE ring: want 1..8 sections"},
			{"0s", "!SET $1 " + ringOf(3, 0, 5, 1, 2, 3)[:33], "OK"},
			{"0s", "1 1s 3 9", "BADSTATE ring: want 1..8 sections"},
		}},
		{"an unreadable ring", []line{
			{"0s", `!SET $1 ""`, "OK"},
			{"0s", "1 1s 3 2", "BADSTATE ring: want 1..8 sections"},
			{"", "!SET $1 x", "OK"},
			{"0s", "1 1s 3 2", "BADSTATE ring: want 1..8 sections"},
			{"", "!DEL $1", "1"},
			{"0s", "1 1s 3 2", "1 1 0 3s 1"},
			{"", "!SETRANGE $1 0 \x00", "55"},
			{"0s", "1 1s 3 2", "BADSTATE ring: want 1..8 sections"},
			{"", "!SETRANGE $1 0 \x02", "55"},
			{"0s", "1 1s 3 2 1s 4 2", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 0 \x03", "55"},
			{"0s", "1 1s 3 2", "BADSTATE ring: want 1..8 sections"},
			{"", "!SETRANGE $1 0 \x0e", "55"},
			{"0s", "1 1s 3 2", "BADSTATE ring: want 1..8 sections"},
		}},
		{"a section that is not asked for is no section", []line{
			{"0s", "1 1s 3 9 1s 2 9", "1 8 0 3s 1 1"},
			{"", "!SETRANGE $1 39 \x00\x00", "89"},
			{"1s", "1 1s 3 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 39 \xff\xff", "89"},
			{"1s", "1 1s 3 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 34 \x00\x00\x00\x00\x01\x00\x02", "89"},
			{"1s", "1 1s 3 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"1s", "0 1s 3 9", "0 8 0 2s 1"},
		}},
		{"the bounds of a section that is not asked for", []line{
			{"0s", "1 1s 9996 9 1s 3 9", "1 8 0 9996s 1 1"},
			{"", "!SETRANGE $1 34 " + layout.Integer(5, 999), "70047"},
			{"1s", "1 1s 9996 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"1s", "0 1s 2 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 34 " + layout.Integer(5, 1000) + layout.Integer(2, 4), "70047"},
			{"0s", "1 1s 9996 9", "1 7 0 9996s 2"},
			{"", "!SETRANGE $1 39 " + layout.Integer(2, 5), "70047"},
			{"1s", "1 1s 9996 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 39 " + layout.Integer(2, 10001), "70047"},
			{"1s", "0 1s 2 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 39 " + layout.Integer(2, 0), "70047"},
			{"1s", "0 1s 2 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
		}},
		{"as many slices as there may be", []line{
			{"0s", "1 1s 10000 9", "1 8 0 10000s 1"},
			{"1s", "0 1s 2 9", "0 8 0 1s 1"},
			{"1s", "1 1s 10000 9", "1 7 0 10000s 2"},
			{"1s", "1 1s 2 9", "1 6 0 2s 3"},
			{"", "!STRLEN $1", "48"},
		}},
		{"sections of one slice", []line{
			{"0s", "1 1s 1 9", "1 8 0 1s 1"},
			{"0s", "1 1s 1 9 2s 1 9", "1 7 0 2s 2 2"},
			{"1s", "0 1s 1 9 2s 1 9", "0 7 0 1s 0 2"},
		}},
		{"a section of shorter slices that is not asked for", []line{
			{"0s", "1 1s 3 9 10s 6 9", "1 8 0 60s 1 1"},
			{"1s", "1 10s 6 9", "1 7 0 59s 2"},
			{"3s", "0 1s 3 9 10s 6 9", "0 7 0 57s 1 2"},
			{"", "!DEL $1", "1"},
			{"0s", "1 10s 6 9 1s 3 9", "1 8 0 60s 1 1"},
			{"1s", "1 10s 6 9", "1 7 0 59s 2"},
			{"2s", "1 10s 6 9 10s 6 9", "1 6 0 58s 3 3"},
			{"3s", "0 1s 3 9 10s 6 9", "0 6 0 57s 2 3"},
			{"4s", "0 1s 3 9 10s 6 9", "0 6 0 56s 1 3"},
		}},
		{"a clock that has stepped back by less than a window that is not asked for", []line{
			{"200s", "1 1s 3 9 1s 100 9", "1 8 0 100s 1 1"},
			{"50s", "1 1s 3 9", "1 7 0 153s 2"},
			{"199s", "0 1s 3 9 1s 4 9", "0 7 0 5s 2 2"},
			{"49s", "0 1s 3 9 1s 4 9", "0 7 0 155s 2 2"},
			{"39.9s", "1 1s 3 9", "1 8 0 2.1s 1"},
		}},
		{"the first of two that are as long as a new window", []line{
			{"0s", "1 3s 3 9 1s 7 9 1s 8 9", "1 8 0 9s 1 1 1"},
			{"2s", "1 3s 3 9 1s 7 9 1s 8 9", "1 7 0 8s 2 2 2"},
			{"8s", "1 3s 3 9 1s 7 9 1s 8 9", "1 6 0 8s 3 2 2"},
			{"8s", "0 2s 4 9", "0 6 0 8s 3"},
			{"8s", "1 1s 7 9 1s 8 9 3s 3 9", "1 5 0 8s 3 3 4"},
			{"", "!STRLEN $1", "200"},
		}},
		{"a section that is a microsecond shorter", []line{
			{"0s", "1 1ms 4 9 1ms 5 9", "1 8 0 5000 1 1"},
			{"4ms", "1 1ms 4 9 1ms 5 9", "1 7 0 5000 1 2"},
			{"4ms", "0 3001us 2 9", "0 7 0 5695 2"},
		}},
		{"a link to a slice of which the low byte is full", []line{
			{"2559s", "1 1s 3 9", "1 8 0 3s 1"},
			{"2560s", "1 1s 3 9", "1 7 0 3s 2"},
			{"2561s", "0 1s 3 2", "0 0 1s 2s 2"},
			{"2561s", "0 1s 3 1", "0 0 2s 2s 2"},
			{"6654s", "1 1s 3 9", "1 8 0 3s 1"},
			{"6655s", "1 1s 3 9", "1 7 0 3s 2"},
			{"6656s", "1 1s 3 9", "1 6 0 3s 3"},
			{"6657s", "0 1s 3 1", "0 0 2s 2s 2"},
		}},
		{"a window that begins after many permits", []line{
			{"0s", "20 1s 3 99", "20 79 0 3s 20"},
			{"1s", "1 1s 3 99", "1 78 0 3s 21"},
			{"4s", "1 1s 3 99", "1 98 0 3s 1"},
			{"4s", "0 1s 3 99", "0 98 0 3s 1"},
		}},
		{"the seventh of eight windows is full", []line{
			{"0s", "1 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9 1s 3 9 1s 10 9", "1 8 0 10s 1 1 1 1 1 1 1 1"},
			{"1s", "1 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9 1s 3 9 1s 10 9", "1 7 0 10s 2 2 2 2 2 2 2 2"},
			{"2s", "1 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9 1s 3 9 1s 10 9", "1 6 0 10s 3 3 3 3 3 3 3 3"},
			{"2s", "2 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9 1s 3 3 1s 10 9", "0 0 2s 10s 3 3 3 3 3 3 3 3"},
			{"2s", "3 1s 4 9 1s 5 9 1s 6 9 1s 7 9 1s 8 9 1s 9 9 1s 3 3 1s 10 9", "0 0 3s 10s 3 3 3 3 3 3 3 3"},
		}},
		{"the cells of a section that is not asked for end too soon", []line{
			{"0s", "1 1s 3 9 1s 2 9", "1 8 0 3s 1 1"},
			{"", "!SETRANGE $1 39 \x00\x0f", "89"},
			{"1s", "1 1s 3 9", "BADSTATE ring: want a cell for each slice"},
		}},
		{"the last cell of a section that is not asked for is cut", []line{
			{"0s", "!SET $1 " + layout.SliceRingHeader(epoch, 1, unit(2), unit(3)) + strings.Repeat("\x00", 34), "OK"},
			{"1s", "1 1s 2 9", "BADSTATE ring: want a cell for each slice"},
		}},
		{"a ring that is longer by its header than by its bytes", []line{
			{"0s", "1 1s 3 2", "1 1 0 3s 1"},
			{"", "!SETRANGE $1 19 \x01", "55"},
			{"2s", "1 1s 3 2", "BADSTATE ring: want a cell for each slice"},
			{"2s", "0 1s 9 2", "BADSTATE ring: want a cell for each slice"},
		}},
	}, slices.Concat(sliceRingV1Links, sliceRingV1Edges)...),
}

// sliceRingV1Links are denials, which go from one slice with permits to the next.
var sliceRingV1Links = []timeline{
	{"denied where few slices hold permits", []line{
		{"0s", "1 1s 60 3", "1 2 0 60s 1"},
		{"20s", "1 1s 60 3", "1 1 0 60s 2"},
		{"41s", "1 1s 60 3", "1 0 0 60s 3"},
		{"45s", "1 1s 60 3", "0 0 15s 56s 3"},
		{"60s", "1 1s 60 3", "1 0 0 60s 3"},
		{"60s", "1 1s 60 3", "0 0 20s 60s 3"},
		{"80s", "1 1s 60 3", "1 0 0 60s 3"},
		{"80s", "1 1s 60 3", "0 0 21s 60s 3"},
	}},
	{"denied several permits, which leave one after the other", []line{
		{"0s", "1 1s 60 6", "1 5 0 60s 1"},
		{"5s", "1 1s 60 6", "1 4 0 60s 2"},
		{"6s", "1 1s 60 6", "1 3 0 60s 3"},
		{"30s", "1 1s 60 6", "1 2 0 60s 4"},
		{"31s", "1 1s 60 6", "1 1 0 60s 5"},
		{"59s", "1 1s 60 6", "1 0 0 60s 6"},
		{"59s", "1 1s 60 6", "0 0 1s 60s 6"},
		{"59s", "2 1s 60 6", "0 0 6s 60s 6"},
		{"59s", "3 1s 60 6", "0 0 7s 60s 6"},
		{"59s", "4 1s 60 6", "0 0 31s 60s 6"},
		{"59s", "5 1s 60 6", "0 0 32s 60s 6"},
		{"59s", "6 1s 60 6", "0 0 60s 60s 6"},
	}},
	{"denied under a lowered limit, for which several slices must leave", []line{
		{"0s", "1 1s 30 9", "1 8 0 30s 1"},
		{"2s", "1 1s 30 9", "1 7 0 30s 2"},
		{"4s", "1 1s 30 9", "1 6 0 30s 3"},
		{"6s", "1 1s 30 9", "1 5 0 30s 4"},
		{"8s", "1 1s 30 9", "1 4 0 30s 5"},
		{"10s", "1 1s 30 9", "1 3 0 30s 6"},
		{"12s", "1 1s 30 9", "1 2 0 30s 7"},
		{"14s", "1 1s 30 9", "1 1 0 30s 8"},
		{"16s", "1 1s 30 9", "1 0 0 30s 9"},
		{"16s", "1 1s 30 9", "0 0 14s 30s 9"},
		{"16s", "1 1s 30 8", "0 0 16s 30s 9"},
		{"16s", "1 1s 30 7", "0 0 18s 30s 9"},
		{"16s", "1 1s 30 6", "0 0 20s 30s 9"},
		{"16s", "1 1s 30 5", "0 0 22s 30s 9"},
		{"16s", "1 1s 30 4", "0 0 24s 30s 9"},
		{"16s", "1 1s 30 3", "0 0 26s 30s 9"},
		{"16s", "1 1s 30 2", "0 0 28s 30s 9"},
		{"16s", "1 1s 30 1", "0 0 30s 30s 9"},
	}},
	// A link is the number of a slice modulo 4096.
	{"denied where the next slice with permits is 4096 slices on", []line{
		{"0s", "1 1s 5000 2", "1 1 0 5000s 1"},
		{"4097s", "1 1s 5000 2", "1 0 0 5000s 2"},
		{"4097s", "1 1s 5000 2", "0 0 903s 5000s 2"},
		{"5000s", "1 1s 5000 2", "1 0 0 5000s 2"},
		{"5000s", "1 1s 5000 2", "0 0 4097s 5000s 2"},
		{"5001s", "1 1s 5000 2", "0 0 4096s 4999s 2"},
		{"5002s", "1 1s 5000 2", "0 0 4095s 4998s 2"},
		{"9097s", "1 1s 5000 2", "1 0 0 5000s 2"},
	}},
	{"denied where it is most of the largest ring away", []line{
		{"0s", "2 1s 10000 2", "2 0 0 10000s 2"},
		{"0s", "1 1s 10000 2", "0 0 10000s 10000s 2"},
		{"9999s", "1 1s 10000 2", "0 0 1s 1s 2"},
		{"9999s", "1 1s 10000 3", "1 0 0 10000s 3"},
		{"9999s", "1 1s 10000 3", "0 0 1s 10000s 3"},
		{"10000s", "1 1s 10000 1", "0 0 9999s 9999s 1"},
		{"11000s", "1 1s 10000 1", "0 0 8999s 8999s 1"},
		{"19998s", "1 1s 10000 1", "0 0 1s 1s 1"},
	}},
	{"a slice whose permits were given back holds no one up", []line{
		{"0s", "1 1s 10 3", "1 2 0 10s 1"},
		{"3s", "1 1s 10 3", "1 1 0 10s 2"},
		{"5s", "1 1s 10 3", "1 0 0 10s 3"},
		{"6s", "slice_ring_return @0s 1", "1"},
		{"6s", "1 1s 10 3", "1 0 0 10s 3"},
		{"6s", "1 1s 10 3", "0 0 7s 10s 3"},
		{"6s", "slice_ring_return @3s 1", "1"},
		{"7s", "1 1s 10 3", "1 0 0 10s 3"},
		{"7s", "1 1s 10 3", "0 0 8s 10s 3"},
		{"7s", "2 1s 10 3", "0 0 9s 10s 3"},
		{"7s", "3 1s 10 3", "0 0 10s 10s 3"},
	}},
	{"a slice from which some permits were given back still does", []line{
		{"0s", "3 1s 10 4", "3 1 0 10s 3"},
		{"4s", "1 1s 10 4", "1 0 0 10s 4"},
		{"5s", "slice_ring_return @0s 2", "2"},
		{"5s", "2 1s 10 4", "2 0 0 10s 4"},
		{"5s", "1 1s 10 4", "0 0 5s 10s 4"},
	}},
	{"the last slice is emptied, and the next permit comes after a gap", []line{
		{"0s", "1 1s 10 2", "1 1 0 10s 1"},
		{"3s", "1 1s 10 2", "1 0 0 10s 2"},
		{"3s", "slice_ring_return @3s 1", "1"},
		{"3s", "slice_ring_return @0s 1", "1"},
		{"7s", "2 1s 10 2", "2 0 0 10s 2"},
		{"9s", "1 1s 10 2", "0 0 8s 8s 2"},
		{"14s", "1 1s 10 2", "0 0 3s 3s 2"},
	}},
	{"denied by a window that is new", []line{
		{"0s", "1 1s 4 9", "1 8 0 4s 1"},
		{"3s", "1 1s 10 3", "1 1 0 10s 2"},
		{"5s", "1 1s 10 3", "1 0 0 10s 3"},
		{"6s", "1 1s 10 3", "0 0 4s 9s 3"},
		{"10s", "1 1s 10 2", "0 0 3s 5s 2"},
	}},
	{"denied by a window that is new and far longer", []line{
		{"2s", "1 1s 4 9", "1 8 0 4s 1"},
		{"3s", "1 1s 10000 2", "1 0 0 10000s 2"},
		{"3s", "1 1s 10000 2", "0 0 9999s 10000s 2"},
	}},
	{"denied by a ring that is shorter than the window", []line{
		{"2s", "1 1s 4 9", "1 8 0 4s 1"},
		{"4s", "1 1s 4 9", "1 7 0 4s 2"},
		{"5s", "1 1s 20 2", "0 0 17s 19s 2"},
		{"5s", "2 1s 20 2", "0 0 19s 19s 2"},
	}},
	{"denied in several windows, each with a search of its own", []line{
		{"0s", "1 1s 5 2 1s 60 4", "1 1 0 60s 1 1"},
		{"1s", "1 1s 5 2 1s 60 4", "1 0 0 60s 2 2"},
		{"30s", "1 1s 5 2 1s 60 4", "1 1 0 60s 1 3"},
		{"33s", "1 1s 5 2 1s 60 5", "1 0 0 60s 2 4"},
		{"33s", "1 1s 5 2 1s 60 4", "0 0 27s 60s 2 4"},
		{"33s", "1 1s 60 5 1s 5 2", "0 0 2s 60s 4 2"},
		{"33s", "2 1s 60 5 1s 5 2", "0 0 27s 60s 4 2"},
		{"33s", "2 1s 60 4 1s 5 9", "0 0 28s 60s 4 2"},
	}},
	{"denied while the clock is behind", []line{
		{"0s", "1 1s 20 3", "1 2 0 20s 1"},
		{"7s", "1 1s 20 3", "1 1 0 20s 2"},
		{"2s", "1 1s 20 3", "1 0 0 25s 3"},
		{"2s", "1 1s 20 3", "0 0 18s 25s 3"},
		{"2s", "2 1s 20 3", "0 0 25s 25s 3"},
		{"19.5s", "1 1s 20 3", "0 0 500ms 7.5s 3"},
	}},
	{"a link that leads out of the ring", []line{
		{"0s", "1 1s 3 1", "1 0 0 3s 1"},
		{"", "!SETRANGE $1 33 \x01", "55"},
		{"0s", "1 1s 3 1", "BADSTATE ring: want a cell for each slice"},
		{"0s", "1 1s 3 2", "1 0 0 3s 2"},
	}},
}

var sliceRingV1Edges = []timeline{
	{"more than 10000 slices in all windows", []line{
		{"0s", "1 1s 9997 9 1s 4 9", "BADARG ARGV: want up to 10000 slices together"},
		{"0s", "1 1s 9996 9 1s 4 9", "1 8 0 9996s 1 1"},
		{"0s", "1 1s 9996 9", "1 7 0 9996s 2"},
		{"1s", "1 1s 1 9", "1 8 0 1s 1"},
		{"", "!STRLEN $1", "41"},
		{"1s", "0 1s 4 9", "0 8 0 4s 1"},
	}},
	{"permits above a limit can never be granted", []line{
		{"0s", "3 1s 3 2", "BADARG permits: want up to every limit"},
		{"0s", "3 1s 3 4 1s 5 2 1s 6 4", "BADARG permits: want up to every limit"},
		{"0s", "3 1s 3 3 1s 5 4", "3 0 0 5s 3 3"},
	}},
	{"the window that is full for longest decides, wherever it stands", []line{
		{"0s", "3 1s 5 3 1s 2 3", "3 0 0 5s 3 3"},
		{"0s", "1 1s 5 3 1s 2 3", "0 0 5s 5s 3 3"},
		{"0s", "1 1s 2 3 1s 5 3", "0 0 5s 5s 3 3"},
	}},
	{"the largest limit is what remains", []line{
		{"0s", "0 1s 3 1000000000", "0 1000000000 0 0 0"},
	}},
	{"totals wrap at 2^44", []line{
		{"0s", "!SET $1 " + ringOf(3, 0, 1<<44-1, 1<<44-1, 1<<44-1, 1<<44-1), "OK"},
		{"0s", "0 1s 3 9", "0 9 0 3s 0"},
		{"0s", "1 1s 3 9", "1 8 0 3s 1"},
		{"0s", "2 1s 3 9", "2 6 0 3s 3"},
		{"1s", "2 1s 3 9", "2 4 0 3s 5"},
		{"3s", "0 1s 3 9", "0 7 0 1s 2"},
		{"3s", "!SET $1 " + ringOf(3, 3, 1, 1<<44-2, 1<<44-2, 1<<44-2), "OK"},
		{"3s", "0 1s 3 9", "0 6 0 3s 3"},
	}},
	{"what is stored", []line{
		{"0s", "2 1s 3 9", "2 7 0 3s 2"},
		{"", "!GET $1", storedRing(0, 2, 1_000_000, 0, cell(0, 0), cell(0, 0), cell(0, 0), cell(0, 0))},
		{"0.5s", "1 1s 3 9", "1 6 0 2.5s 3"},
		{"", "!GET $1", storedRing(500_000, 3, 1_000_000, 0, cell(0, 0), cell(0, 0), cell(0, 0), cell(0, 0))},
		{"2s", "1 1s 3 9", "1 5 0 3s 4"},
		{"", "!GET $1", storedRing(2_000_000, 4, 1_000_000, 0, cell(0, 0), cell(0, 0), cell(3, 2), cell(3, 2))},
		{"2s", "slice_ring_return @0s 1", "1"},
		{"", "!GET $1", storedRing(2_000_000, 4, 1_000_000, 1<<44-1, cell(0, 0), cell(0, 0), cell(2, 2), cell(2, 2))},
	}},
	{"a narrow window was empty a microsecond ago", []line{
		{"0s", "1 1s 10 9", "1 8 0 10s 1"},
		{"1s", "0 1s 1 9", "0 9 0 0 0"},
		{"1.000001s", "0 1s 1 9", "0 9 0 0 0"},
	}},
	{"a size that is no size", []line{
		{"0s", "!SET $1 " + ringOf(0, 0, 0), "OK"},
		{"0s", "1 1s 3 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
		{"0s", "!SET $1 " + ringOf(10001, 0, 0), "OK"},
		{"0s", "!SETRANGE $1 70040 \x00", "70041"},
		{"0s", "1 1s 3 9", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
	}},
	{"the totals of a ring end too soon for a new window", []line{
		{"0s", "!SET $1 " + cut(ringOf(3, 0, 1, 0, 0, 0)), "OK"},
		{"0s", "1 1s 3 9", "1 7 0 3s 2"},
		{"0s", "1 1s 3 9 1s 4 9", "BADSTATE ring: want a cell for each slice"},
	}},
	{"the totals of a ring end too soon for a wait", []line{
		{"0s", "!SET $1 " + cut(ringOf(3, 0, 1, 1, 0, 0)), "OK"},
		{"0s", "0 1s 3 1", "BADSTATE ring: want a cell for each slice"},
	}},
	{"what stands behind the ring does not matter", []line{
		{"0s", "1 1s 3 9", "1 8 0 3s 1"},
		{"", "!APPEND $1 xxxxxxxxxxxx", "67"},
		{"0s", "1 1s 5 9", "1 7 0 5s 2"},
		{"4s", "1 1s 5 9", "1 6 0 5s 3"},
	}},
	{"a wider window asks a ring of three slices", []line{
		{"0s", "1 1s 3 9", "1 8 0 3s 1"},
		{"1s", "1 1s 3 9", "1 7 0 3s 2"},
		{"2s", "1 1s 3 9", "1 6 0 3s 3"},
		{"2s", "0 1s 10 9", "0 6 0 10s 3"},
		{"3s", "1 1s 3 9", "1 6 0 3s 3"},
		{"3s", "0 1s 10 9", "0 6 0 10s 3"},
		{"4s", "0 1s 10 9", "0 6 0 9s 3"},
	}},
	{"a narrow window is empty before the ring is", []line{
		{"0s", "1 1s 10 9", "1 8 0 10s 1"},
		{"1.5s", "0 1s 2 9", "0 8 0 500ms 1"},
		{"2s", "0 1s 2 9", "0 9 0 0 0"},
		{"5s", "0 1s 2 9", "0 9 0 0 0"},
	}},
}

// ringOf is a ring with slices of a second; the last slice is so many behind the epoch. Each slice links to itself,
// which says nothing of the next.
func ringOf(size, last, total int64, totals ...int64) string {
	last += epoch / 1_000_000
	cells := make([]string, len(totals))
	for i, n := range totals {
		cells[i] = layout.SliceRingCell(uint64(n), uint64(last-(last-int64(i))%size))
	}
	first := strings.Repeat("\x00", 7)
	if oldest := (last + 1) % max(size, 1); oldest < int64(len(cells)) {
		first = cells[oldest]
	}
	section := layout.SliceRingSection(1_000_000, uint64(size), 0, first)
	return layout.SliceRingHeader(uint64(last*1_000_000), uint64(total), section) + strings.Join(cells, "")
}

// storedRing is a ring of one section, with the last grant so many microseconds after the epoch. The first cell is that
// of the header.
func storedRing(last, total, slice, shift uint64, cells ...string) string {
	section := layout.SliceRingSection(slice, uint64(len(cells)-1), shift, cells[0])
	return layout.SliceRingHeader(epoch+last, total, section) + strings.Join(cells[1:], "")
}

// cell is that of a ring with slices of a second; the first slice with permits is so many after the epoch.
func cell(total, slice uint64) string { return layout.SliceRingCell(total, epoch/1_000_000+slice) }

// cut is a text without its last byte.
func cut(text string) string { return text[:len(text)-1] }

// unit is a section of slices of a second, the oldest of which holds nothing.
func unit(size uint64) string {
	return layout.SliceRingSection(1_000_000, size, 0, strings.Repeat("\x00", 7))
}

// ringInstructions is what any call of slice_ring with one window ends within: about twice what the dearest of those
// below takes. The script has no loop over slices: the gap is cleared by string.rep.
const ringInstructions = 2500

const ringKey = "t:x:{u}:sr1" // slices of a millisecond, the shortest

func (tab table) ring(t testing.TB, slices int) (*scripttest.Redis, func(slice int64) scripttest.Result) {
	r := scripttest.Start(t)
	r.NeverExpire(true)
	script := compile(t, tab.script.File, tab.script.Source)
	script.Budget = ringInstructions
	return r, func(slice int64) scripttest.Result {
		r.SetTime(epoch + slice*1000)
		return tab.asOne(script.Run(r, []string{ringKey}, tab.ringArgs("1", "1000", strconv.Itoa(slices), "1000000")))
	}
}

// asOne is the result of a call for one key, as of the script for one.
func (tab table) asOne(result scripttest.Result) scripttest.Result {
	reply, _ := result.Reply.([]any)
	for one := range oneByOne(tab.script, 1, reply) {
		result.Reply = one
		if tab.script.KeyGroup != nil && one[0].(int64) < 0 {
			result.Reply, result.Err = nil, scripttest.ErrorReply("BADSTATE")
		}
	}
	return result
}

// For every gap the call ends within the stated instructions, counts what is still in the window, and nothing that is
// older.
func (tab table) checkRingGapEnds(t testing.TB) {
	for _, size := range []int{1, 2, 3, 60, 3600, 10000} {
		for _, gap := range []int64{
			0, 1, 2, int64(size) - 1, int64(size), int64(size) + 1, 2 * int64(size), 2*int64(size) + 1, 1_000_000_000_000,
			-1, -2, -int64(size), -int64(size) - 59_999, -int64(size) - 60_000, -int64(size) - 60_001, -1_000_000_000_000,
		} {
			sub(t, fmt.Sprintf("size %d gap %d", size, gap), func(t testing.TB) {
				_, at := tab.ring(t, size)
				// Every slice of the ring holds one permit, slice 0 the newest.
				for s := -int64(min(size, 5)) + 1; s <= 0; s++ {
					if result := at(s); result.Err != nil {
						t.Fatal(result.Err)
					}
				}
				filled := int64(min(size, 5))
				result := at(gap)
				if result.Err != nil {
					t.Fatalf("%d instructions: %v", result.Instructions, result.Err)
				}
				if got, want := result.Reply.([]any)[5], liveAfter(gap, int64(size), filled)+1; got != want {
					t.Errorf("count %v, want %d", got, want)
				}
				// And the slices that were skipped stay clear for a lap to come.
				for s := max(gap, 0) + 1; s <= max(gap, 0)+min(int64(size), 5); s++ {
					if result = at(s); result.Err != nil {
						t.Fatal(result.Err)
					}
				}
				if gap >= int64(size) {
					if got, want := result.Reply.([]any)[5], min(int64(size), 5+1); got != want {
						t.Errorf("count %v a few slices later, want %d", got, want)
					}
				}
			})
		}
	}
}

// liveAfter is how many of the filled slices, the newest of which is slice 0, a window of size slices still holds after
// the gap. A clock that stepped back by up to a window and 60 s finds all of them; further back the ring is void.
func liveAfter(gap, size, filled int64) int64 {
	if gap < -size-60_000 {
		return 0
	}
	return max(0, min(filled, size-max(gap, 0)))
}

// ringWith is a ring of four slices with a permit in each, and with its bytes damaged.
func (tab table) ringWith(t testing.TB, damage func(stored []byte) []byte) (*scripttest.Redis,
	func(slice int64) scripttest.Result) {
	r, at := tab.ring(t, 4)
	for s := range int64(6) {
		at(s)
	}
	stored, _ := r.Do("GET", ringKey)
	_, _ = r.Do("SET", ringKey, damage([]byte(stored.(string))))
	return r, at
}

// eachDamagedRing has every byte of such a ring replaced by others.
func (tab table) eachDamagedRing(t testing.TB,
	test func(name string, r *scripttest.Redis, at func(slice int64) scripttest.Result)) {
	for position := range 34 + 7*4 {
		for _, value := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			r, at := tab.ringWith(t, func(stored []byte) []byte {
				stored[position] = value
				return stored
			})
			test(fmt.Sprintf("byte %d = %#x", position, value), r, at)
		}
	}
}

// Whatever bytes are in the ring, a call ends: with BADSTATE and the bytes as they were, or an answer.
func (tab table) checkRingDamagedStateEnds(t testing.TB) {
	tab.eachDamagedRing(t, func(name string, r *scripttest.Redis, at func(slice int64) scripttest.Result) {
		ringEnds(t, name, r, at, 5, 6, 7, 11, -3)
	})
}

func (tab table) checkRingTruncatedStateEnds(t testing.TB) {
	for length := range 34 + 7*4 {
		r, at := tab.ringWith(t, func(stored []byte) []byte { return stored[:length] })
		name := fmt.Sprintf("%d bytes", length)
		if answers := ringEnds(t, name, r, at, 5, 6, 7); answers > 0 && length < 34 {
			t.Errorf("%s: %d answers, want BADSTATE", name, answers)
		}
	}
}

// ringEnds makes a call in each slice, and returns how many have an answer.
func ringEnds(t testing.TB, name string, r *scripttest.Redis, at func(slice int64) scripttest.Result,
	slices ...int64) (answers int) {
	for _, s := range slices {
		before := r.Snapshot()
		result := at(s)
		if _, refused := result.Err.(scripttest.ErrorReply); result.Err != nil && !refused {
			t.Fatalf("%s, slice %d: %v", name, s, result.Err)
		}
		if result.Err == nil {
			answers++
		} else if r.Snapshot() != before {
			t.Errorf("%s, slice %d: %v and the store changed", name, s, result.Err)
		}
	}
	return answers
}

// A search for room ends as soon whatever the totals and the links are, be they in no order at all: after the oldest
// slice and three more it halves.
func (tab table) checkRingSearchEnds(t testing.TB) {
	const size, maxReads = 3600, 4 + 12
	random := rand.New(rand.NewPCG(5, 8))
	for round := range 300 {
		r, at := tab.ring(t, size)
		last := epoch/1000 + random.Int64N(size)
		at(last - epoch/1000)
		furthest := []int64{1, 2, 60, 4096}[round%4]
		cells := make([]byte, 7*size)
		for s := last - size + 1; s <= last; s++ {
			// The last slice alone is sound, or it would be the answer.
			total, link := int64(0), s+random.Int64N(min(furthest, last-s+1))
			if s < last {
				total = random.Int64N(1 << 44)
			}
			copy(cells[7*(s%size):], layout.SliceRingCell(uint64(total), uint64(link)))
		}
		_, _ = r.Do("SETRANGE", ringKey, "34", cells)
		result := at(last - epoch/1000 + random.Int64N(size-2))
		refused, isReply := result.Err.(scripttest.ErrorReply)
		if result.Err != nil && !(isReply && strings.HasPrefix(badCells, string(refused))) {
			t.Fatalf("%d instructions: %v", result.Instructions, result.Err)
		}
		if result.Err == nil && result.Reply.([]any)[0] != int64(0) {
			t.Fatalf("granted %v, so nothing was searched", result.Reply)
		}
		if reads := len(result.Commands) - 2; reads > maxReads {
			t.Errorf("%d reads, want up to %d", reads, maxReads)
		}
	}
}

const badCells = "BADSTATE ring: want a cell for each slice"

// Damaged links change the wait of a denial at most: what is granted and counted comes from the totals.
func (tab table) checkRingDamagedLinks(t testing.TB) {
	random := rand.New(rand.NewPCG(8, 5))
	for range 500 {
		r, at := tab.ring(t, 30)
		var last int64
		for range random.IntN(20) + 1 {
			at(last)
			last += random.Int64N(8)
		}
		stored, _ := r.Do("GET", ringKey)
		damaged := []byte(stored.(string))
		for cell := 34; cell < len(damaged); cell += 7 {
			damaged[cell+5] ^= byte(random.IntN(16))
			damaged[cell+6] ^= byte(random.IntN(256))
		}
		script := compile(t, tab.script.File, tab.script.Source)
		args := tab.ringArgs(strconv.Itoa(random.IntN(3)), "1000", "30", strconv.Itoa(2+random.IntN(20)), "1000", "7", "9")
		want := tab.asOne(script.Run(r, []string{ringKey}, args))
		_, _ = r.Do("SET", ringKey, damaged)
		got := tab.asOne(script.Run(r, []string{ringKey}, args))
		if refused, isReply := got.Err.(scripttest.ErrorReply); isReply && strings.HasPrefix(badCells, string(refused)) {
			continue
		}
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		reply, right := got.Reply.([]any), want.Reply.([]any)
		reply[2], right[2] = nil, nil
		if !slices.Equal(reply, right) {
			t.Errorf("%q: %v with damaged links, want %v", args, reply, right)
		}
	}
}
