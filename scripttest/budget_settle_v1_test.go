package scripttest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice/internal/layout"
)

// ttl permits unknown slice_1 size_1 ... -> settled permits
var budgetSettleV1 = table{
	script: &budgetSettleV1Script,
	keys:   budgetV1.keys,
	timelines: append([]timeline{
		{"in the same slice: more, less and as estimated", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 35 0 1s 5", "1 35"},
			{"0s", "slice_ring 0 1s 5 100", "0 65 0 5s 35"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 45 0 5s 55"},
			{"0s", "#b 1h 5 0 1s 5", "1 5"},
			{"0s", "slice_ring 0 1s 5 100", "0 60 0 5s 40"},
			{"0s", "budget #c 1h 20 1s 5 100", "20 40 0 5s 60"},
			{"0s", "#c 1h 20 0 1s 5", "1 20"},
			{"0s", "slice_ring 0 1s 5 100", "0 40 0 5s 60"},
			{"0s", "budget #d 1h 20 1s 5 100", "20 20 0 5s 80"},
			{"0s", "#d 1h 0 0 1s 5", "1 0"},
			{"0s", "slice_ring 0 1s 5 100", "0 40 0 5s 60"},
		}},
		{"settled once: the others change nothing", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 30 0 1s 5", "1 30"},
			{"0s", "1h 30 0 1s 5", "0 30"},
			{"0s", "1h 10 0 1s 5", "0 30"},
			{"1s", "1h 90 1 1s 5", "0 30"},
			{"1s", "1h 0 1 1s 5", "0 30"},
			{"1s", "slice_ring 0 1s 5 100", "0 70 0 4s 30"},
			{"", "!GET $2", "charge:@0s:30:1"},
		}},
		{"an id that is not known is left alone", []line{
			{"0s", "1h 30 0 1s 5", "0 0"},
			{"", "!EXISTS $1 $2", "0"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 30 0 1s 5", "0 0"},
			{"", "!EXISTS $2", "0"},
			{"0s", "slice_ring 0 1s 5 100", "0 80 0 5s 20"},
		}},
		{"a charge of an idle subject", []line{
			{"0s", "1h 30 1 1s 5", "1 30"},
			{"0s", "1h 30 1 1s 5", "0 30"},
			{"0s", "1h 30 0 1s 5", "0 30"},
			{"0s", "slice_ring 0 1s 5 100", "0 70 0 5s 30"},
			{"0s", "#b 1h 0 1 1s 5", "1 0"},
			{"0s", "#b 1h 30 1 1s 5", "0 0"},
			{"4s", "#c 1h 1000 1 1s 5", "1 1000"},
			{"4s", "slice_ring 1 1s 5 100", "0 0 5s 5s 1030"},
			{"8.999999s", "slice_ring 1 1s 5 100", "0 0 1us 1us 1000"},
			{"9s", "slice_ring 100 1s 5 100", "100 0 0 5s 100"},
		}},
		{"a charge of nothing makes no ring", []line{
			{"0s", "1h 0 1 1s 5", "1 0"},
			{"", "!EXISTS $1", "0"},
			{"", "!GET $2", "charge:@0s:0:1"},
		}},
		{"a settle that overtakes its reserve: charged once, and the reserve is refused", []line{
			{"0s", "1h 30 1 1s 5", "1 30"},
			{"0s", "budget 1h 20 1s 5 100", "BADARG id: want one that is not settled"},
			{"0s", "budget 1h 30 1s 5 100", "BADARG id: want one that is not settled"},
			{"0s", "slice_ring 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"a settle that overtakes its reserve, and leaves it alone", []line{
			{"0s", "1h 30 0 1s 5", "0 0"},
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 30 0 1s 5", "1 30"},
		}},
		{"a settled id used again", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 30 0 1s 5", "1 30"},
			{"9s", "budget 1h 20 1s 5 100", "BADARG id: want one that is not settled"},
			{"9s", "1h 20 1 1s 5", "0 30"},
			{"", "!DEL $2", "1"}, // its ttl has ended
			{"9s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"9s", "1h 10 0 1s 5", "1 10"},
		}},
		{"lost: an id whose ttl ends unsettled stays charged", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $2", "1"},
			{"1s", "1h 5 0 1s 5", "0 0"},
			{"1s", "slice_ring 0 1s 5 100", "0 80 0 4s 20"},
			{"1s", "1h 5 1 1s 5", "1 5"},
			{"1s", "slice_ring 0 1s 5 100", "0 75 0 5s 25"},
		}},
		{"longer than the minute window: a debt is seen by the minute that has begun", []line{
			{"0s", "budget 1h 100 1s 61 200 1s 3601 5000", "100 100 0 3601s 100 100"},
			{"70s", "budget #b 1h 150 1s 61 200 1s 3601 5000", "150 50 0 3601s 150 250"},
			{"75s", "1h 400 0 1s 3601", "1 400"},
			{"75s", "slice_ring 1 1s 61 200 1s 3601 5000", "0 0 61s 3601s 450 550"},
			{"136s", "slice_ring 0 1s 61 200 1s 3601 5000", "0 200 0 3540s 0 550"},
		}},
		{"longer than the minute window: a refund reaches the hour, and not the minute", []line{
			{"0s", "budget 1h 100 1s 61 200 1s 3601 5000", "100 100 0 3601s 100 100"},
			{"70s", "budget #b 1h 150 1s 61 200 1s 3601 5000", "150 50 0 3601s 150 250"},
			{"75s", "1h 10 0 1s 3601", "1 10"},
			{"75s", "slice_ring 0 1s 61 200 1s 3601 5000", "0 50 0 3596s 150 160"},
		}},
		{"longer than every window: nothing is given back, and more is charged", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"5s", "budget #c 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"5s", "1h 5 0 1s 5", "1 20"},
			{"5s", "slice_ring 0 1s 5 100", "0 80 0 5s 20"},
			{"5s", "#b 1h 30 0 1s 5", "1 30"},
			{"5s", "slice_ring 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"when all slices have left the ring", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"5s", "1h 5 0 1s 5", "1 5"},
			{"5s", "#b 1h 21 0 1s 5", "1 21"},
			{"5s", "slice_ring 0 1s 5 100", "0 99 0 5s 1"},
		}},
		{"the ring was evicted: the difference alone is charged", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"0s", "budget #c 1h 20 1s 5 100", "20 40 0 5s 60"},
			{"", "!DEL $1", "1"},
			{"0s", "1h 5 0 1s 5", "1 20"},
			{"", "!EXISTS $1", "0"},
			{"0s", "#b 1h 20 0 1s 5", "1 20"},
			{"", "!EXISTS $1", "0"},
			{"0s", "#c 1h 50 0 1s 5", "1 50"},
			{"0s", "slice_ring 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"the ring was evicted and begun again: no more is given back than the slice holds", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1", "1"},
			{"0s", "budget #b 1h 7 1s 5 100", "7 93 0 5s 7"},
			{"0s", "1h 5 0 1s 5", "1 13"},
			{"0s", "1h 5 0 1s 5", "0 13"},
			{"0s", "slice_ring 0 1s 5 100", "0 100 0 5s 0"},
		}},
		{"the ring was begun again in a later slice: nothing is given back", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1", "1"},
			{"1s", "budget #b 1h 7 1s 5 100", "7 93 0 5s 7"},
			{"1s", "1h 5 0 1s 5", "1 20"},
			{"1s", "slice_ring 0 1s 5 100", "0 93 0 5s 7"},
		}},
		{"a part of the estimate was given back by slice_ring_return", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"1s", "slice_ring_return @0s 15", "15"},
			{"1s", "1h 0 0 1s 5", "1 15"},
			{"1s", "slice_ring 0 1s 5 100", "0 100 0 4s 0"},
		}},
		{"given back across the ring's end", []line{
			{"-1s", "budget 1h 5 1s 3 100", "5 95 0 3s 5"},
			{"0s", "budget #b 1h 7 1s 3 100", "7 88 0 3s 12"},
			{"1s", "budget #c 1h 9 1s 3 100", "9 79 0 3s 21"},
			{"1s", "1h 1 0 1s 3", "1 1"},
			{"1s", "slice_ring 0 1s 1 100 1s 2 100 1s 3 100", "0 83 0 3s 9 16 17"},
			{"2s", "budget #d 1h 1 1s 3 100", "1 83 0 3s 17"},
			{"2s", "#b 1h 3 0 1s 3", "1 3"},
			{"2s", "slice_ring 0 1s 1 100 1s 2 100 1s 3 100", "0 87 0 3s 1 10 13"},
		}},
		{"given back to the oldest slice of the ring, and not to the one before it", []line{
			{"0s", "budget 1h 5 1s 3 100", "5 95 0 3s 5"},
			{"1s", "budget #b 1h 7 1s 3 100", "7 88 0 3s 12"},
			{"3s", "budget #c 1h 9 1s 3 100", "9 84 0 3s 16"},
			{"3s", "1h 1 0 1s 3", "1 5"},
			{"3s", "#b 1h 1 0 1s 3", "1 1"},
			{"3s", "slice_ring 0 1s 3 100", "0 90 0 3s 10"},
		}},
		{"given back while the current slice has not begun in the ring", []line{
			{"0s", "budget 1h 5 1s 4 100", "5 95 0 4s 5"},
			{"2s", "1h 1 0 1s 4", "1 1"},
			{"2s", "slice_ring 0 1s 4 100", "0 99 0 2s 1"},
			{"3s", "slice_ring 99 1s 4 100", "99 0 0 4s 100"},
		}},
		{"1000 slices back, and no further", []line{
			{"0s", "budget 1h 50 1s 1500 100", "50 50 0 1500s 50"},
			{"0s", "budget #b 1h 40 1s 1500 100", "40 10 0 1500s 90"},
			{"1000.5s", "slice_ring 1 1s 1500 100", "1 9 0 1499.5s 91"},
			{"1000.5s", "1h 20 0 1s 1500", "1 20"},
			{"1001s", "slice_ring 1 1s 1500 100", "1 38 0 1500s 62"},
			{"1001s", "#b 1h 20 0 1s 1500", "1 40"},
			{"1001s", "#b 1h 20 0 1s 1500", "0 40"},
			{"1001s", "slice_ring 0 1s 1500 100 1s 2 100 1s 1001 100", "0 38 0 1500s 62 2 2"},
		}},
		{"a longer window came in between", []line{
			{"1s", "budget 1h 20 1s 2 100", "20 80 0 2s 20"},
			{"1s", "budget #b 1h 30 1s 2 100", "30 50 0 2s 50"},
			{"2s", "slice_ring 10 1s 7 100", "10 40 0 7s 60"},
			{"4s", "1h 5 0 1s 2", "1 5"},
			{"4s", "slice_ring 0 1s 7 100", "0 55 0 5s 45"},
			{"5s", "#b 1h 35 0 1s 12", "1 35"},
			{"5s", "slice_ring 0 1s 12 100 1s 1 100", "0 50 0 12s 50 5"},
			{"", "!STRLEN $1", "221"},
			{"12s", "slice_ring 0 1s 12 100", "0 50 0 5s 50"},
		}},
		{"a clock that has stepped back since the reserve", []line{
			{"50s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"50s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"10s", "1h 5 0 1s 5", "1 5"},
			{"10s", "slice_ring 0 1s 5 100", "0 75 0 45s 25"},
			{"10s", "#b 1h 50 0 1s 5", "1 50"},
			{"10s", "slice_ring 0 1s 5 100", "0 45 0 45s 55"},
			{"54s", "slice_ring 0 1s 5 100 1s 4 100", "0 45 0 1s 55 0"},
			{"10s", "#c 1h 5 1 1s 5 1s 4", "1 5"},
		}},
		{"a clock that has stepped back further than is believed: the ring is begun again", []line{
			{"500s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"500s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"10s", "1h 5 0 1s 5", "1 20"},
			{"10s", "#b 1h 50 0 1s 5", "1 50"},
			{"10s", "slice_ring 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"a step back of a window and 60 s voids nothing, a microsecond more does", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"-65s", "1h 30 0 1s 5", "1 30"},
			{"-65s", "slice_ring 0 1s 5 100", "0 70 0 70s 30"},
			{"-65.000001s", "#b 1h 7 1 1s 5", "1 7"},
			{"-65.000001s", "slice_ring 0 1s 5 100", "0 93 0 4.000001s 7"},
		}},
		{"a narrow settle does not void what a wide ring counts", []line{
			{"0s", "budget 1h 20 1s 600 100", "20 80 0 600s 20"},
			{"-660s", "1h 30 0 1s 1", "1 30"},
			{"-660s", "slice_ring 0 1s 600 100", "0 70 0 1260s 30"},
			{"-660.000001s", "#b 1h 7 1 1s 1", "1 7"},
			{"-660.000001s", "slice_ring 0 1s 600 100", "0 93 0 599.000001s 7"},
		}},
		{"an id of the slice after the ring's last", []line{
			{"1s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1", "1"},
			{"0s", "budget #b 1h 9 1s 5 100", "9 91 0 5s 9"},
			{"0s", "1h 5 0 1s 5", "1 20"},
			{"0s", "slice_ring 0 1s 5 100", "0 91 0 5s 9"},
		}},
		{"one permit less, and nowhere to give it back to", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1", "1"},
			{"0s", "1h 19 0 1s 5", "1 20"},
		}},
		{"a wide settle is judged by its own width after a step back", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"-70s", "1h 30 0 1s 10", "1 30"},
			{"-70s", "slice_ring 0 1s 10 100", "0 70 0 80s 30"},
			{"-70.000001s", "#b 1h 7 1 1s 10", "1 7"},
			{"-70.000001s", "slice_ring 0 1s 10 100", "0 93 0 9.000001s 7"},
		}},
		{"a clock that has stepped on since the reserve, and back again", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"60s", "budget #b 1h 10 1s 5 100", "10 90 0 5s 10"},
			{"1s", "1h 5 0 1s 5", "1 20"},
			{"1s", "#b 1h 15 0 1s 5", "1 15"},
			{"1s", "slice_ring 0 1s 5 100", "0 85 0 64s 15"},
		}},
		{"an id of a clock that was far ahead", []line{
			{"50000h", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"50000h", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"0s", "budget #c 1h 10 1s 5 100", "10 90 0 5s 10"},
			{"0s", "1h 5 0 1s 5", "1 20"},
			{"0s", "#b 1h 50 0 1s 5", "1 50"},
			{"0s", "slice_ring 0 1s 5 100", "0 60 0 5s 40"},
		}},
		{"by other windows than those that were charged", []line{
			{"0s", "budget 1h 20 1s 5 100 2s 4 100", "20 80 0 8s 20 20"},
			{"3s", "1h 30 0 2s 9", "1 30"},
			{"3s", "budget #b 1h 9 1s 5 100 2s 4 100", "9 61 0 7s 39 39"},
			{"3s", "#b 1h 4 0 1s 1", "1 4"},
			{"3s", "slice_ring 0 1s 5 100 2s 4 100", "0 66 0 7s 34 34"},
			{"5s", "slice_ring 0 1s 5 100 2s 4 100", "0 66 0 5s 14 34"},
			{"8s", "slice_ring 0 1s 5 100 2s 4 100", "0 86 0 2s 0 14"},
		}},
		{"three windows, settled by one", []line{
			{"0s", "budget 1h 20 1s 2 100 3s 5 100 7s 9 100", "20 80 0 57s 20 20 20"},
			{"7s", "1h 28 0 1s 2", "1 28"},
			{"7s", "slice_ring 0 1s 2 100 3s 5 100 7s 9 100", "0 72 0 57s 8 28 28"},
		}},
		{"settled when it has left one window", []line{
			{"0s", "budget 1h 20 1s 2 100 3s 5 100", "20 80 0 15s 20 20"},
			{"7s", "slice_ring 5 1s 2 100 3s 5 100", "5 75 0 14s 5 25"},
			{"7s", "1h 8 0 1s 2 3s 5", "1 8"},
			{"7s", "slice_ring 0 1s 2 100 3s 5 100", "0 87 0 14s 5 13"},
			{"15s", "slice_ring 0 1s 2 100 3s 5 100", "0 95 0 6s 0 5"},
		}},
		{"more than 10000 slices", []line{
			{"0s", "1h 30 1 1s 9997 1s 4", "BADARG ARGV: want up to 10000 slices together"},
			{"0s", "1h 30 1 1s 9996 1s 4", "1 30"},
		}},
		{"a ring gets the windows of settle", []line{
			{"0s", "1h 30 1 1s 7", "1 30"},
			{"", "!STRLEN $1", "83"},
			{"0s", "#b 1h 30 1 1s 9", "1 30"},
			{"", "!STRLEN $1", "166"},
			{"0s", "#c 1h 30 1 1s 2", "1 30"},
			{"", "!STRLEN $1", "200"},
			{"6s", "slice_ring 0 1s 9 100", "0 10 0 3s 90"},
		}},
		{"what a ring holds stops at 7 * 10^12", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "!SET $1 " + ringOf(5, 0, 7e12-9, 0, 0, 0, 0, 0), "OK"},
			{"0s", "1h 30 0 1s 5", "1 29"},
			{"0s", "#b 1h 1000000000 1 1s 5", "1 0"},
			{"", "!GET $2b", "charge:@0s:0:1"},
			{"0s", "slice_ring 0 1s 5 100", "0 0 5s 5s 7000000000000"},
			{"1s", "#c 1h 1 1 1s 5", "1 0"},
			{"5s", "#d 1h 1000000000 1 1s 5", "1 1000000000"},
			{"5s", "slice_ring 0 1s 5 100", "0 0 5s 5s 1000000000"},
		}},
		{"a ring that holds more is charged no more", []line{
			{"0s", "slice_ring 1 1s 3 9 1s 5 9", "1 8 0 5s 1 1"},
			{"1s", "slice_ring 1 1s 3 9 1s 5 9", "1 7 0 5s 2 2"},
			{"1s", "!SETRANGE $1 8 " + layout.Integer(6, 7e12+1), "110"},
			{"1s", "1h 1 1 1s 3 1s 5", "1 0"},
			{"1s", "!DEL $2", "1"},
			{"1s", "1h 1 1 1s 4 1s 5", "1 0"},
			{"1s", "!DEL $2", "1"},
			{"0s", "!SET $1 " + ringOf(5, 0, 7e12+1, 0, 0, 0, 0, 0), "OK"},
			{"0s", "1h 1 1 1s 5", "1 0"},
			{"0s", "slice_ring 0 1s 5 100", "0 0 5s 5s 7000000000001"},
			{"0s", "!DEL $2", "1"},
			{"1s", "1h 1 1 1s 5", "1 0"},
			{"1s", "slice_ring 0 1s 5 100", "0 0 4s 4s 7000000000001"},
		}},
		{"what a ring holds is counted by its oldest slice", []line{
			{"3s", "!SET $1 " + ringOf(3, 3, 9e12+30, 9e12+20, 2e12+40, 9e12+10), "OK"},
			{"3s", "1h 1000000000 1 1s 3", "1 10"},
			{"4s", "#b 1h 1000000000 1 1s 3", "1 1000000000"},
			{"4s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 0 3s 3s 1000000000 1000000020 1000000030"},
		}},
		{"totals wrap at 2^44", []line{
			{"0s", "!SET $1 " + ringOf(3, 0, 1<<44-5, 1<<44-9, 1<<44-9, 1<<44-9), "OK"},
			{"0s", "budget 1h 3 1s 3 100", "3 93 0 3s 7"},
			{"0s", "1h 10 0 1s 3", "1 10"},
			{"0s", "slice_ring 0 1s 3 100", "0 86 0 3s 14"},
			{"1s", "budget #b 1h 20 1s 3 100", "20 66 0 3s 34"},
			{"2s", "budget #c 1h 5 1s 3 100", "5 61 0 3s 39"},
			{"2s", "#b 1h 1 0 1s 3", "1 1"},
			{"2s", "slice_ring 0 1s 3 100 1s 1 100 1s 2 100", "0 80 0 3s 20 5 6"},
			{"2s", "slice_ring_return @0s 14", "14"},
			{"2s", "slice_ring 0 1s 3 100 1s 1 100 1s 2 100", "0 94 0 3s 6 5 6"},
		}},
		{"a ring of another type is left alone", []line{
			{"0s", "!RPUSH $1 x", "1"},
			{"0s", "1h 30 1 1s 5", wrongType},
			{"0s", "1h 30 0 1s 5", wrongType},
			{"", "!EXISTS $2", "0"},
		}},
		{"an id of another type is left alone", []line{
			{"0s", "!RPUSH $2 x", "1"},
			{"0s", "1h 30 1 1s 5", wrongType},
			{"", "!EXISTS $1", "0"},
		}},
		{"an unreadable id", []line{
			{"0s", `!SET $2 ""`, "OK"},
			{"0s", "1h 30 1 1s 5", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 xxxxxxxxx", "OK"},
			{"0s", "1h 30 0 1s 5", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 " + layout.Budget(epoch, 1, false) + "x", "OK"},
			{"0s", "1h 30 0 1s 5", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 charge:@0s:1000000001:0", "OK"},
			{"0s", "1h 30 1 1s 5", "BADSTATE id: want a time and permits"},
			{"0s", "!SET $2 charge:@0s:1000000000:1", "OK"},
			{"0s", "1h 30 1 1s 5", "0 1000000000"},
		}},
		{"an unreadable ring", []line{
			{"0s", `!SET $1 ""`, "OK"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..8 sections"},
			{"0s", "!SET $1 x", "OK"},
			{"0s", "!SET $2 x", "OK"},
			{"0s", "1h 30 0 1s 5", "BADSTATE ring: want 1..8 sections"},
			{"0s", "!DEL $2", "1"},
			{"0s", "!SET $1 " + ringOf(0, 0, 0), "OK"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"0s", "!SET $1 " + ringOf(10001, 0, 0), "OK"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 14 " + layout.Integer(5, 999) + layout.Integer(2, 5), "34"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"0s", "!SET $2 charge:@0s:40:0", "OK"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 14 " + layout.Integer(5, 1000) + layout.Integer(2, 0), "34"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 19 " + layout.Integer(2, 10001), "34"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 0 \x08", "34"},
			{"0s", "1h 30 1 1s 5", "BADSTATE ring: want 1..8 sections"},
		}},
		{"a ring of header alone", []line{
			{"0s", "!SET $1 " + ringOf(3, 0, 0), "OK"},
			{"1s", "1h 30 1 1s 3", "BADSTATE ring: want a cell for each slice"},
			{"0s", "!SET $2 charge:@0s:20:0", "OK"},
			{"0s", "1h 10 0 1s 3", "BADSTATE ring: want a cell for each slice"},
			{"", "!GET $2", "charge:@0s:20:0"},
			{"0s", "1h 20 0 1s 3", "1 20"},
		}},
		{"cells of a section that is not asked for end too soon", []line{
			{"0s", "slice_ring 1 1s 3 9 1s 2 9", "1 8 0 3s 1 1"},
			{"", "!SETRANGE $1 39 \x00\x0f", "89"},
			{"1s", "1h 30 1 1s 3", "BADSTATE ring: want a cell for each slice"},
		}},
		{"a ring that ends too soon", []line{
			{"2s", "!SET $1 " + cut(ringOf(3, 2, 8, 0, 0, 0)), "OK"},
			{"2s", "1h 30 1 1s 3", "1 30"},
			{"2s", "#b 1h 30 1 1s 4", "BADSTATE ring: want a cell for each slice"},
			{"2s", "!SET $2b charge:@2s:20:0", "OK"},
			{"2s", "#b 1h 10 0 1s 3", "BADSTATE ring: want a cell for each slice"},
			{"", "!GET $2b", "charge:@2s:20:0"},
		}},
	}, slices.Concat(asCharges(sliceRingV1.timelines), asRefunds(sliceRingReturnV1.timelines))...),
}

// asRefunds are timelines of slice_ring_return in which each return settles an id that was charged so much, at no cost.
func asRefunds(timelines []timeline) (refunds []timeline) {
	for _, tl := range timelines {
		if tl.name == "an unreadable ring" {
			continue // there are others for these
		}
		other := timeline{name: "slice_ring_return: " + tl.name}
		for i, l := range tl.lines {
			words := strings.Fields(l.do)
			if !strings.HasPrefix(words[0], "@") {
				other.lines = append(other.lines, l)
				continue
			}
			want := l.want
			permits, _ := strconv.Atoi(words[1])
			if returned, err := strconv.Atoi(l.want); err == nil {
				want = fmt.Sprint(1, permits-returned)
			}
			other.lines = append(other.lines,
				line{"", fmt.Sprintf("!SET $2%d charge:%s:%d:0", i, words[0], permits), "OK"},
				line{l.at, fmt.Sprintf("#%d 1h 0 0 1s 1", i), want})
		}
		refunds = append(refunds, other)
	}
	return refunds
}

// asCharges are timelines of slice_ring in which each grant is a charge of an id of its own, and each call for permits that a bad
// header refuses.
func asCharges(timelines []timeline) []timeline {
	return eachRingCall(timelines, func(l line, id int) []line {
		words := strings.Fields(l.do)
		granted, _, _ := strings.Cut(l.want, " ")
		want := "1 " + granted
		if granted == "BADSTATE" && words[0] != "0" && !strings.HasSuffix(l.want, "each slice") {
			want = l.want
		} else if granted != words[0] || granted == "0" {
			return []line{{l.at, "slice_ring " + l.do, l.want}}
		}
		charge := fmt.Sprintf("#%d 1h %s 1", id, words[0])
		for window := range slices.Chunk(words[1:], 3) {
			charge += " " + window[0] + " " + window[1]
		}
		return []line{{l.at, charge, want}}
	})
}
