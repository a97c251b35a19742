package play

import (
	"fmt"
	"strings"
	"testing"
)

// What processes decide, send and report: of each call in which process, whether it was sent, with its permits and what
// it reports.
func TestProcesses(t *testing.T) {
	for _, test := range []struct{ link, want string }{
		// A process may be 4 ahead: it asks first, and reports at 2 or after 50 ms.
		{"lanes=ahead&permits=8&processes=1&error=100&calls=0s,1ms,2ms,3ms,60ms", "0 granted 1+0, 1 granted, " +
			"2 granted, 2 ended 0+2, 3 granted, 53 ended 0+1, 60 granted, 110 ended 0+1"},
		// Near the limit it asks, with its report. What it is told then holds for its wait, for as many permits.
		{"lanes=ahead&permits=4&processes=1&error=100&cost=2&calls=0s,1ms,2ms,3ms",
			"0 granted 2+0, 1 granted, 1 ended 0+2, 2 denied 2+0, 3 denied"},
		{"lanes=ahead&permits=8&processes=1&error=100&calls=0s,1ms,2ms,3ms,4ms,5ms,6ms,7ms,8ms,9ms,900ms,1.01s",
			"0 granted 1+0, 1 granted, 2 granted, 2 ended 0+2, 3 granted, 4 granted, 4 ended 0+2, 5 granted, 6 granted, " +
				"6 ended 0+2, 7 granted, 8 denied 1+1, 9 denied, 900 denied, 1010 granted 1+0"},
		// Each client has an account of its own.
		{"lanes=ahead&permits=8&processes=1&error=100&key=client&calls=0s,1ms", "0 granted 1+0, 1 granted 1+0"},
		// A cached_counter never asks. It counts a new window from 0, and lets the limit through in each process.
		{"lanes=cached_counter&permits=2&processes=1&calls=0s,1ms,2ms,999ms,1s", "0 granted, 1 granted, 2 denied, " +
			"50 ended 2, 999 denied, 1000 granted, 1050 ended 1"},
		{"lanes=cached_counter&permits=1&processes=2&calls=0s,1ms,2ms,60ms", "0 granted, 1 granted, 2 denied, " +
			"50 ended 1, 51 ended 1, 60 denied"},
	} {
		run, records := runLink(t, test.link+"&rate=0")
		var got []string
		for i, r := range records {
			d, err := detailOf(run, 0, i)
			must(t, err)
			text := fmt.Sprint(r.at/1000, " ", []string{"denied", "granted", 4: "ended"}[r.outcome])
			if len(d.Keys) > 0 && run.lanes[0].ours != nil {
				text += fmt.Sprint(" ", d.Args[0].Value, "+", d.Args[1].Value)
			} else if len(d.Keys) > 0 {
				text += " " + d.Args[2].Value
			}
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.link, got, test.want)
		}
	}
}

// Where no process may be ahead, the lane says from which limit on it may.
func TestTooFewToBeAhead(t *testing.T) {
	run, _ := runLink(t, "lanes=ahead&permits=9&permits2=7&window2=5s&processes=3&error=7")
	const want = "ahead with a limit of 7, processes 3, error 7 %: want a limit of 86, fewer processes or a larger error"
	if lane := run.Audit().Lanes[0]; lane.Error != want || lane.Errors != lane.Calls {
		t.Errorf("%+v\nwant %s", lane, want)
	}
	for permits, want := range map[int]string{86: "", 85: want[:22]} {
		run, _ := runLink(t, fmt.Sprint("lanes=ahead&processes=3&error=7&permits=", permits))
		if got := run.Audit().Lanes[0].Error; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%d permits: %s", permits, got)
		}
	}
}
