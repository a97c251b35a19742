package scripttest_test

import (
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
)

// permits reported slice_1 size_1 limit_1 ... -> granted remaining wait reset_after count_1 ...
//
// Without a report it is slice_ring, whose timelines hold for it too.
var sliceRingReportV1 = table{
	script: &sliceRingReportV1Script,
	keys:   []string{"t:x:{u}:sr1"},
	timelines: append(withoutReport(sliceRingV1.timelines), []timeline{
		{"a report is charged whatever the window holds, and asks for nothing", []line{
			{"0s", "0 2 1s 3 3", "0 1 0 3s 2"},
			{"1s", "0 5 1s 3 3", "0 0 3s 3s 7"},
			{"2s", "0 0 1s 3 3", "0 0 2s 2s 7"},
			{"3s", "slice_ring 1 1s 3 3", "0 0 1s 1s 5"},
			{"4s", "slice_ring 1 1s 3 3", "1 2 0 3s 1"},
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
		{"a window that is new to the ring", []line{
			{"0s", "0 4 1s 3 3", "0 0 3s 3s 4"},
			{"1s", "1 1 1s 3 9 1s 6 9", "1 3 0 6s 6 6"},
			{"3s", "0 0 1s 3 9 1s 6 9", "0 3 0 4s 2 6"},
		}},
		{"what a window holds stops at 7 * 10^12", []line{
			{"0s", "!SET $1 " + ringOf(3, 0, 6_999_999_999_999, 0, 0, 0), "OK"},
			{"0s", "0 0 1s 3 3", "0 0 3s 3s 6999999999999"},
			{"0s", "0 9 1s 3 3", "0 0 3s 3s 7000000000000"},
			{"0s", "1 1000000000 1s 3 1000000000", "0 0 3s 3s 7000000000000"},
			{"3s", "1 1 1s 3 3", "1 1 0 3s 2"},
		}},
		{"arguments", []line{
			{"0s", "4 0 1s 3 3", "BADARG permits: want up to every limit"},
			{"0s", "0 1000000001 1s 3 3", "BADARG reported: want 0..1000000000"},
			{"0s", "0 1 1s 10000 3 1s 1 3", "BADARG ARGV: want up to 10000 slices together"},
			{"", "!EXISTS $1", "0"},
			{"0s", "1 1000000000 1s 3 3", "0 0 3s 3s 1000000000"},
		}},
	}...),
}

const wantReports = "BADARG ARGV: want permits, each key's reported, then slice, size, limit of 1..8 windows"

var sliceRingReportManyV1 = manyOf(sliceRingReportV1, &sliceRingReportManyV1Script, []timeline{
	{"each key by itself, in their order", []line{
		{"0s", "$2 0 1 1s 3 2", "0 1 0 3s 1"},
		{"0s", "$1 $2 $3 1 1 1 1 1s 3 2", "1 0 0 3s 2 0 0 3s 3s 2 1 0 0 3s 2"},
		{"0s", "$3 $2 $3 0 2 2 2 1s 3 2", "0 0 3s 3s 4 0 0 3s 3s 4 0 0 3s 3s 6"},
	}},
	{"each key is charged its own report", []line{
		{"0s", "$1 $2 $3 0 4 0 1 1s 3 9", "0 5 0 3s 4 0 9 0 0 0 0 8 0 3s 1"},
		{"0s", "$2 $1 $2 1 3 0 5 1s 3 9 1s 4 20", "1 5 0 4s 4 4 1 4 0 4s 5 5 0 0 3s 4s 9 9"},
		{"1s", "$3 $1 0 1000000000 0 1s 3 9", "0 0 3s 3s 1000000001 0 4 0 2s 5"},
		{"1s", "$1 $2 0 0 0 1s 3 9", "0 4 0 2s 5 0 0 2s 2s 9"},
	}},
	{"rings that cannot be read", []line{
		{"0s", "!SET $2 x", "OK"},
		{"0s", "!RPUSH $3 x", "1"},
		{"0s", "$1 $2 $3 $1 1 1 9 9 1 1s 3 4 1s 1 4", "1 2 0 3s 2 2 -1 0 0 0 0 0 -2 0 0 0 0 0 1 0 0 3s 4 4"},
	}},
	{"arguments of several keys", []line{
		{"0s", "$1 $2 0 1 1000000 3 3", wantReports},
		{"0s", "$1 $2 0 1 1 1 1000000 3 3", wantReports},
		{"0s", "$1 $2 0 1 1", wantReports},
		{"0s", "$1 $2 x x 1 1s 3 3", "BADARG permits: want 0..1000000000"},
		{"0s", "$1 $2 0 x 1 1s 3 3", "BADARG reported_1: want 0..1000000000"},
		{"0s", "$1 $2 0 1 1000000001 1s 3 x", "BADARG reported_2: want 0..1000000000"},
		{"0s", "$1 $2 4 1 1 1s 3 3", "BADARG permits: want up to every limit"},
		{"", "!EXISTS $1 $2", "0"},
	}},
})

// reports tells whether the script of a table has a number of reported permits behind permits, one for each key.
func reports(script *sluice.Script) bool { return strings.HasPrefix(script.Name, "slice_ring_report") }

// reportsAny tells whether a call for so many keys reports permits.
func reportsAny(script *sluice.Script, keys int, args []string) bool {
	return reports(script) && len(args) > keys &&
		slices.ContainsFunc(args[1:1+keys], func(n string) bool { return strings.Trim(n, "0") != "" })
}

// ringArgs are the arguments of slice_ring as those of the table's script, which reports nothing for any of the keys.
func (tab table) ringArgs(args ...string) []string {
	if reports(tab.script) {
		return slices.Insert(args, 1, slices.Repeat([]string{"0"}, len(tab.keys))...)
	}
	return args
}

// withoutReport are timelines of slice_ring, with reports of nothing.
func withoutReport(timelines []timeline) []timeline {
	changed := make([]timeline, len(timelines))
	for i, tl := range timelines {
		changed[i] = timeline{tl.name, linesWithoutReport(tl.lines)}
	}
	return changed
}

func linesWithoutReport(lines []line) []line {
	changed := slices.Clone(lines)
	for i, l := range changed {
		if first, rest, _ := strings.Cut(l.do, " "); first != "" && strings.Trim(first, "0123456789") == "" {
			changed[i].do = first + " 0 " + rest
		}
	}
	return changed
}

// costsWithoutReport are calls of slice_ring that report nothing.
func costsWithoutReport(costs []cost) []cost {
	changed := make([]cost, len(costs))
	for i, c := range costs {
		lines := linesWithoutReport(append(slices.Clone(c.before), c.call))
		changed[i] = cost{c.name, lines[:len(lines)-1], lines[len(lines)-1]}
	}
	return changed
}

var sliceRingReportV1Costs = append(costsWithoutReport(sliceRingV1Costs),
	cost{"a report", nil, line{"0s", "0 1 1s 3 2", "TIME GETRANGE EXISTS SET"}},
	cost{"a report over the limit", after("0s 2 0 1s 3 2"), line{"0s", "0 1 1s 3 2", "TIME GETRANGE SETRANGE"}},
	cost{"a report beside what is denied", after("0s 2 0 1s 3 2"), line{"0s", "1 1 1s 3 2", "TIME GETRANGE SETRANGE"}})

var reportCalls = append(costsWithoutReport(ringCalls),
	cost{"a report", after("0s 2 0 1s 4 9"), line{"1s", "0 9 1s 4 9", ""}},
	cost{"a report beside what is denied", after("0s 2 0 1s 4 9"), line{"1s", "9 9 1s 4 9", ""}})
