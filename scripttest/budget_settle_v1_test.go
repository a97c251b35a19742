package scripttest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ttl permits unknown slice_1 size_1 ... -> settled permits
var budgetSettleV1 = table{
	script: &budgetSettleV1Script,
	keys:   budgetV1.keys,
	timelines: append([]timeline{
		{"in the same slice: more, less and as estimated", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 35 0 1s 5", "1 35"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 65 0 5s 35"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 45 0 5s 55"},
			{"0s", "#b 1h 5 0 1s 5", "1 5"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 60 0 5s 40"},
			{"0s", "budget #c 1h 20 1s 5 100", "20 40 0 5s 60"},
			{"0s", "#c 1h 20 0 1s 5", "1 20"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 40 0 5s 60"},
			{"0s", "budget #d 1h 20 1s 5 100", "20 20 0 5s 80"},
			{"0s", "#d 1h 0 0 1s 5", "1 0"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 40 0 5s 60"},
		}},
		{"settled once: the others change nothing", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 30 0 1s 5", "1 30"},
			{"0s", "1h 30 0 1s 5", "0 30"},
			{"0s", "1h 10 0 1s 5", "0 30"},
			{"1s", "1h 90 1 1s 5", "0 30"},
			{"1s", "1h 0 1 1s 5", "0 30"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 70 0 4s 30"},
			{"", "!GET $2", "settled:@0s:30"},
		}},
		{"charged while the clock was behind: permits of others of that time go back", []line{
			{"8s", "slice_ring 4 0 1s 10 100", "4 96 0 10s 4"},
			{"10s", "slice_ring 5 0 1s 10 100", "5 91 0 10s 9"},
			{"8s", "budget 1h 3 1s 10 100", "3 88 0 12s 12"},
			{"8s", "1h 0 0 1s 10", "1 0"},
			{"18s", "slice_ring 0 0 1s 10 100", "0 92 0 2s 8"},
		}},
		{"an id that is not known is left alone", []line{
			{"0s", "1h 30 0 1s 5", "0 0"},
			{"", "!EXISTS $1/1sx5 $2", "0"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 30 0 1s 5", "0 0"},
			{"", "!EXISTS $2", "0"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 80 0 5s 20"},
		}},
		{"a charge of an idle subject", []line{
			{"0s", "1h 30 1 1s 5", "1 30"},
			{"0s", "1h 30 1 1s 5", "0 30"},
			{"0s", "1h 30 0 1s 5", "0 30"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 70 0 5s 30"},
			{"0s", "#b 1h 0 1 1s 5", "1 0"},
			{"0s", "#b 1h 30 1 1s 5", "0 0"},
			{"4s", "#c 1h 1000 1 1s 5", "1 1000"},
			{"4s", "slice_ring 1 0 1s 5 100", "0 0 5s 5s 1030"},
			{"8.999999s", "slice_ring 1 0 1s 5 100", "0 0 1us 1us 1000"},
			{"9s", "slice_ring 100 0 1s 5 100", "100 0 0 5s 100"},
		}},
		{"a charge of nothing makes no ring", []line{
			{"0s", "1h 0 1 1s 5", "1 0"},
			{"", "!EXISTS $1/1sx5", "0"},
			{"", "!GET $2", "settled:@0s:0"},
		}},
		{"a settle that overtakes its reserve: charged once, and the reserve is refused", []line{
			{"0s", "1h 30 1 1s 5", "1 30"},
			{"0s", "budget 1h 20 1s 5 100", "BADARG id: want one that is not settled"},
			{"0s", "budget 1h 30 1s 5 100", "BADARG id: want one that is not settled"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 70 0 5s 30"},
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
		{"settled later than ttl: left alone, or charged again", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $2", "1"}, // its ttl has ended
			{"1s", "1h 5 0 1s 5", "0 0"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 80 0 4s 20"},
			{"1s", "1h 5 1 1s 5", "1 5"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 75 0 5s 25"},
			{"", "!DEL $2", "1"}, // so has that of the settled id
			{"1s", "1h 5 1 1s 5", "1 5"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"longer than the minute window: a debt is seen by the minute that has begun", []line{
			{"0s", "budget 1h 100 1s 61 200 60s 61 5000", "100 100 0 3660s 100 100"},
			{"70s", "budget #b 1h 150 1s 61 200 60s 61 5000", "150 50 0 3650s 150 250"},
			{"75s", "1h 400 0 1s 61 60s 61", "1 400"},
			{"75s", "slice_ring 1 0 1s 61 200 60s 61 5000", "0 0 61s 3645s 450 550"},
			{"136s", "slice_ring 0 0 1s 61 200 60s 61 5000", "0 200 0 3584s 0 550"},
		}},
		{"longer than the minute window: a refund reaches the hour, and not the minute", []line{
			{"0s", "budget 1h 100 1s 61 200 60s 61 5000", "100 100 0 3660s 100 100"},
			{"70s", "budget #b 1h 150 1s 61 200 60s 61 5000", "150 50 0 3650s 150 250"},
			{"75s", "1h 10 0 1s 61 60s 61", "1 10"},
			{"75s", "slice_ring 0 0 1s 61 200 60s 61 5000", "0 50 0 3645s 150 160"},
		}},
		{"longer than every window: nothing is given back, and more is charged", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"5s", "budget #c 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"5s", "1h 5 0 1s 5", "1 20"},
			{"5s", "slice_ring 0 0 1s 5 100", "0 80 0 5s 20"},
			{"5s", "#b 1h 30 0 1s 5", "1 30"},
			{"5s", "slice_ring 0 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"a refund reaches no window that was not charged", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "slice_ring 7 0 1s 6 100", "7 93 0 6s 7"},
			{"0s", "1h 5 0 1s 6 1s 5", "1 5"},
			{"0s", "slice_ring 0 0 1s 5 100 1s 6 100", "0 93 0 6s 5 7"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 75 0 5s 25"},
			{"0s", "#b 1h 5 0 1s 6", "1 20"},
			{"0s", "slice_ring 0 0 1s 5 100 1s 6 100", "0 75 0 6s 25 7"},
		}},
		{"a refund reaches only the windows named, and each that was charged", []line{
			{"0s", "budget 1h 20 1s 5 100 2s 5 100 3s 5 100", "20 80 0 15s 20 20 20"},
			{"0s", "1h 5 0 3s 5 1s 5", "1 5"},
			{"0s", "slice_ring 0 0 1s 5 100 2s 5 100 3s 5 100", "0 80 0 15s 5 20 5"},
		}},
		{"a refund knows a window by slice and size, not by its key", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "!SET $1 charge:@0s:20:1s:5", "OK"},
			{"0s", "$2 slice_ring 20 0 1s 5 100", "20 80 0 5s 20"},
			{"0s", "$2 $1 1h 5 0 1s 5", "1 5"},
			{"0s", "$2 slice_ring 0 0 1s 5 100", "0 95 0 5s 5"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 80 0 5s 20"},
		}},
		{"a charge of more goes to all windows named", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "1h 50 0 1s 6 1s 5", "1 50"},
			{"0s", "slice_ring 0 0 1s 5 100 1s 6 100", "0 50 0 6s 50 30"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 30 0 5s 70"},
			{"0s", "#b 1h 50 0 1s 6", "1 50"},
			{"0s", "slice_ring 0 0 1s 5 100 1s 6 100", "0 30 0 6s 70 60"},
		}},
		{"a window named twice is charged and given back once", []line{
			{"0s", "budget 1h 20 1s 5 100 1s 5 100", "20 80 0 5s 20 20"},
			{"", "!GET $2", "charge:@0s:20:1s:5:1s:5"},
			{"0s", "1h 5 0 1s 5 1s 5", "1 5"},
			{"0s", "#b 1h 30 1 1s 5 1s 5", "1 30"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 65 0 5s 35"},
		}},
		{"when all slices have left the ring", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"5s", "1h 5 0 1s 5", "1 5"},
			{"5s", "#b 1h 21 0 1s 5", "1 21"},
			{"5s", "slice_ring 0 0 1s 5 100", "0 99 0 5s 1"},
		}},
		{"the ring was evicted: the difference alone is charged", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"0s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"0s", "budget #c 1h 20 1s 5 100", "20 40 0 5s 60"},
			{"", "!DEL $1/1sx5", "1"},
			{"0s", "1h 5 0 1s 5", "1 20"},
			{"", "!EXISTS $1/1sx5", "0"},
			{"0s", "#b 1h 20 0 1s 5", "1 20"},
			{"", "!EXISTS $1/1sx5", "0"},
			{"0s", "#c 1h 50 0 1s 5", "1 50"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"the ring was evicted and begun again: no more is given back than the slice holds, of others", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1/1sx5", "1"},
			{"0s", "budget #b 1h 7 1s 5 100", "7 93 0 5s 7"},
			{"0s", "1h 5 0 1s 5", "1 13"},
			{"0s", "1h 5 0 1s 5", "0 13"},
			{"0s", "slice_ring 0 0 1s 5 100", "0 100 0 5s 0"},
		}},
		{"the ring was begun again in a later slice: nothing is given back", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1/1sx5", "1"},
			{"1s", "budget #b 1h 7 1s 5 100", "7 93 0 5s 7"},
			{"1s", "1h 5 0 1s 5", "1 20"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 93 0 5s 7"},
		}},
		{"one permit less, and nowhere to give it back to", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"", "!DEL $1/1sx5", "1"},
			{"0s", "1h 19 0 1s 5", "1 20"},
		}},
		{"a part of the estimate was given back by slice_ring_return", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"1s", "slice_ring_return @0s 15 1s 5", "15"},
			{"1s", "1h 0 0 1s 5", "1 15"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 100 0 4s 0"},
		}},
		{"given back by slice_ring_return, and once more by budget_settle: permits of others", []line{
			{"0s", "slice_ring 30 0 1s 5 100", "30 70 0 5s 30"},
			{"0s", "budget 1h 20 1s 5 100", "20 50 0 5s 50"},
			{"1s", "slice_ring_return @0s 20 1s 5", "20"},
			{"1s", "1h 0 0 1s 5", "1 0"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 90 0 4s 10"},
		}},
		{"given back while the current slice has not begun in the ring", []line{
			{"0s", "budget 1h 5 1s 4 100", "5 95 0 4s 5"},
			{"2s", "1h 1 0 1s 4", "1 1"},
			{"2s", "slice_ring 0 0 1s 4 100", "0 99 0 2s 1"},
			{"3s", "slice_ring 99 0 1s 4 100", "99 0 0 4s 100"},
		}},
		{"1000 slices back in all windows, and no further", []line{
			{"0s", "budget 1h 50 1s 1000 100 2s 1000 100", "50 50 0 2000s 50 50"},
			{"0s", "budget #b 1h 40 1s 1000 100 2s 1000 100", "40 10 0 2000s 90 90"},
			{"667s", "slice_ring 1 0 1s 1000 100 2s 1000 100", "1 9 0 1999s 91 91"},
			{"667s", "1h 20 0 1s 1000 2s 1000", "1 20"},
			{"668s", "slice_ring 1 0 1s 1000 100 2s 1000 100", "1 38 0 2000s 62 62"},
			{"668s", "#b 1h 20 0 1s 1000 2s 1000", "1 20"},
			{"668s", "slice_ring 0 0 1s 1000 100 2s 1000 100", "0 38 0 2000s 42 62"},
		}},
		{"a clock that has stepped back since the reserve", []line{
			{"50s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"50s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"10s", "1h 5 0 1s 5", "1 5"},
			{"10s", "slice_ring 0 0 1s 5 100", "0 75 0 45s 25"},
			{"10s", "#b 1h 50 0 1s 5", "1 50"},
			{"10s", "slice_ring 0 0 1s 5 100", "0 45 0 45s 55"},
			{"54s", "slice_ring 0 0 1s 5 100", "0 45 0 1s 55"},
		}},
		{"a clock that has stepped back further than is believed: the ring is begun again", []line{
			{"500s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"500s", "budget #b 1h 20 1s 5 100", "20 60 0 5s 40"},
			{"10s", "1h 5 0 1s 5", "1 5"},
			{"10s", "#b 1h 50 0 1s 5", "1 50"},
			{"10s", "slice_ring 0 0 1s 5 100", "0 70 0 5s 30"},
		}},
		{"a step back of a window and 60 s voids nothing, a microsecond more does", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"-65s", "1h 30 0 1s 5", "1 30"},
			{"-65s", "slice_ring 0 0 1s 5 100", "0 70 0 70s 30"},
			{"-65.000001s", "#b 1h 7 1 1s 5", "1 7"},
			{"-65.000001s", "slice_ring 0 0 1s 5 100", "0 93 0 4.000001s 7"},
		}},
		{"a clock that has stepped on since the reserve, and back again", []line{
			{"0s", "budget 1h 20 1s 5 100", "20 80 0 5s 20"},
			{"60s", "budget #b 1h 10 1s 5 100", "10 90 0 5s 10"},
			{"1s", "1h 5 0 1s 5", "1 20"},
			{"1s", "#b 1h 15 0 1s 5", "1 15"},
			{"1s", "slice_ring 0 0 1s 5 100", "0 85 0 64s 15"},
		}},
		{"a count stops at 10^13", []line{
			{"0s", "budget 1h 20 1s 3 100", "20 80 0 3s 20"},
			{"0s", "!SET $1/1sx3 ring:@0s:9999999999991:0:0:0:0", "OK"},
			{"0s", "1h 30 0 1s 3", "1 30"},
			{"0s", "slice_ring 0 0 1s 3 100", "0 0 3s 3s 10000000000000"},
			{"1s", "#c 1h 1 1 1s 3", "1 1"},
			{"1s", "slice_ring 0 0 1s 3 100", "0 0 2s 3s 10000000000000"},
			{"3s", "#d 1h 1000000000 1 1s 3", "1 1000000000"},
			{"3s", "slice_ring 0 0 1s 3 100", "0 0 3s 3s 1000000000"},
		}},
		{"totals wrap at 2^48", []line{
			{"0s", "!SET $1/1sx3 ring:@0s:281474976710651:281474976710647:281474976710647:281474976710647:281474976710647", "OK"},
			{"0s", "budget 1h 3 1s 3 100", "3 93 0 3s 7"},
			{"0s", "1h 10 0 1s 3", "1 10"},
			{"0s", "slice_ring 0 0 1s 3 100", "0 86 0 3s 14"},
			{"1s", "budget #b 1h 20 1s 3 100", "20 66 0 3s 34"},
			{"2s", "budget #c 1h 5 1s 3 100", "5 61 0 3s 39"},
			{"2s", "#b 1h 1 0 1s 3", "1 1"},
			{"2s", "slice_ring 0 0 1s 3 100", "0 80 0 3s 20"},
			{"2s", "slice_ring_return @0s 14 1s 3", "14"},
			{"2s", "slice_ring 0 0 1s 3 100", "0 94 0 3s 6"},
			{"3s", "slice_ring 0 0 1s 3 100", "0 94 0 2s 6"},
			{"4s", "slice_ring 0 0 1s 3 100", "0 95 0 1s 5"},
		}},
		{"a ring of another type is left alone", []line{
			{"0s", "!RPUSH $1/1sx5 x", "1"},
			{"0s", "1h 30 1 1s 4 1s 5", wrongType},
			{"", "!EXISTS $2 $1/1sx4", "0"},
			{"0s", "!SET $2 charge:@0s:20:1s:4", "OK"},
			{"0s", "1h 10 0 1s 5 1s 4", wrongType},
			{"", "!GET $2", "charge:@0s:20:1s:4"},
			{"0s", "#b 1h 30 0 1s 5", "0 0"},
		}},
		{"an id of another type is left alone", []line{
			{"0s", "!RPUSH $2 x", "1"},
			{"0s", "1h 30 1 1s 5", wrongType},
			{"", "!EXISTS $1/1sx5", "0"},
		}},
		{"an unreadable id", []line{
			{"0s", `!SET $2 ""`, "OK"},
			{"0s", "1h 30 1 1s 5", badID},
			{"0s", "!SET $2 xxxx", "OK"},
			{"0s", "1h 30 0 1s 5", badID},
			{"0s", "!SET $2 " + packed("settled:1:1") + "x", "OK"},
			{"0s", "1h 30 0 1s 5", badID},
			{"0s", "!SET $2 " + packed("charge:1:1:1000:1") + "xxxxxx", "OK"},
			{"0s", "1h 30 1 1s 5", badID},
			{"0s", "!SET $2 charge:@0s:1000000001:1s:3", "OK"},
			{"0s", "1h 30 1 1s 5", badID},
			{"0s", "!SET $2 settled:@0s:1000000000", "OK"},
			{"0s", "1h 30 1 1s 5", "0 1000000000"},
		}},
		{"an unreadable ring", []line{
			{"0s", "!SET $1/1sx5 x", "OK"},
			{"0s", "!SET $2 x", "OK"},
			{"0s", "1h 30 0 1s 5", badID},
			{"0s", "!SET $2 charge:@0s:40:1s:5", "OK"},
			{"0s", "1h 30 0 1s 4 1s 5", "BADSTATE ring_2: want 19 bytes and its cells"},
			{"0s", "1h 50 0 1s 5", badRing},
			{"", "!GET $2", "charge:@0s:40:1s:5"},
			{"0s", "#b 1h 30 1 1s 5", badRing},
			{"", "!EXISTS $2b", "0"},
		}},
		{"a ring that ends too soon", []line{
			{"0s", "!SET $1/1sx3 " + ringHeader(0, 20, 0), "OK"},
			{"1s", "1h 30 1 1s 3", badRing},
			{"0s", "!SET $2 charge:@0s:20:1s:3", "OK"},
			{"0s", "1h 10 0 1s 3", badRing},
			{"", "!GET $2", "charge:@0s:20:1s:3"},
			{"0s", "!SET $1/1sx3 " + cut(ringHeader(2, 20, 0, 0, 20, 20)), "OK"},
			{"2s", "1h 10 0 1s 3", badRing},
			{"", "!GET $2", "charge:@0s:20:1s:3"},
		}},
	}, slices.Concat(asCharges(sliceRingV1.timelines), asRefunds(sliceRingReturnV1.timelines))...),
}

// asRefunds are timelines of slice_ring_return in which each return settles an id that was charged so much in its
// windows, at no cost.
func asRefunds(timelines []timeline) (refunds []timeline) {
	for _, tl := range timelines {
		other := timeline{name: "slice_ring_return: " + tl.name}
		for i, l := range tl.lines {
			words := strings.Fields(l.do)
			if !strings.HasPrefix(words[0], "@") && words[0] != "0" {
				other.lines = append(other.lines, l)
				continue
			}
			want := l.want
			permits, _ := strconv.Atoi(words[1])
			if returned, err := strconv.Atoi(l.want); err == nil {
				want = fmt.Sprint(1, permits-returned)
			}
			other.lines = append(other.lines,
				line{"", fmt.Sprintf("!SET $2%d charge:%s:%d:%s", i, words[0], permits, strings.Join(words[2:], ":")), "OK"},
				line{l.at, fmt.Sprintf("#%d 1h 0 0 %s", i, strings.Join(words[2:], " ")), want})
		}
		refunds = append(refunds, other)
	}
	return refunds
}

// asCharges are timelines of slice_ring in which each grant that reports nothing is a charge of an id of its own.
func asCharges(timelines []timeline) []timeline {
	return eachRingCall(timelines, func(l line, permits, windows string, id int) line {
		granted, _, _ := strings.Cut(l.want, " ")
		if granted != permits || granted == "0" {
			return line{l.at, "slice_ring " + l.do, l.want}
		}
		do := fmt.Sprintf("#%d 1h %s 1", id, permits)
		for window := range slices.Chunk(strings.Fields(windows), 3) {
			do += " " + window[0] + " " + window[1]
		}
		return line{l.at, do, "1 " + granted}
	})
}
