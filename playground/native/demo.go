package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-redis/sluice/playground/internal/play"
)

const (
	// workers is the demo's traffic: 20 workers share 5 permits a second, and want 6.
	workers = "permits=5&window=1s&burst=1&for=12s&rate=6&clients=20&denied=wait&tries=100&ahead=60s&lanes="

	demoSeconds = 12
	columns     = 60
	second      = 1e6 // microseconds
)

// demoLanes are our scripts, then two faulty ways.
var demoLanes = []string{"list_log", "zset_log", "token_bucket", "gcra", "slice_ring", "fixed_window", "s2"}

// errBroken is what the demo ends with if one of our scripts broke its promise.
var errBroken = errors.New("a script broke its promise")

// demo has the same traffic through each limiter, and prints how full its seconds were.
func demo(out io.Writer) (err error) {
	fmt.Fprintln(out, "A payment API takes 5 calls in any second, wherever that second starts. 20 workers share it.")
	fmt.Fprintln(out, "\nThe fullest second that ends here: ▁▂▃▄ below 5, ▆ 5, 6789X more (X: 10+)")
	table := "\nlimiter                   most  calls a permit  verdict\n"
	for _, id := range demoLanes {
		run, opened := play.Open(workers + id)
		if opened != nil {
			return opened
		}
		lane, title := run.Opened().Lanes[0], run.Opened().Lanes[0].Title
		fmt.Fprintf(out, "%-24s  %s\n", title, timeline(acts(numbers(records(run)))))
		audit := run.Audit().Lanes[0]
		run.Close()
		calls := float64(audit.Calls) / float64(max(audit.Permits, 1))
		verdict := "✓ kept"
		switch {
		case audit.Windows[0].Over:
			verdict = "✗ broken"
			if lane.Kind == "ours" {
				err = errBroken
			}
		case lane.Kind != "ours" && calls > 2:
			verdict = "✗ wasteful"
		}
		table += fmt.Sprintf("%-24s  %4d  %14.2f  %s\n", title, audit.Windows[0].Most, calls, verdict)
	}
	fmt.Fprint(out, table)
	return err
}

// acts are the times for which permits were granted, in order.
func acts(records [][8]float64) (at []float64) {
	for _, r := range records {
		if outcome := r[4]; outcome == 1 || outcome == 2 { // granted, booked
			at = append(at, r[1]+max(r[5], 0))
		}
	}
	slices.SortFunc(at, cmp.Compare)
	return at
}

// timeline has for each part of the time the most acts in a second that ends there.
func timeline(acts []float64) string {
	const width = demoSeconds * second / columns
	line := make([]rune, columns)
	for i := range line {
		most, start := 0, float64(i)*width
		for _, end := range append([]float64{start}, acts...) {
			if start <= end && end < start+width {
				n := 0
				for _, at := range acts {
					if end-second < at && at <= end {
						n++
					}
				}
				most = max(most, n)
			}
		}
		line[i] = []rune(" ▁▂▃▄▆6789X")[min(most, 10)]
	}
	return string(line)
}
