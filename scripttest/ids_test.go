package scripttest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// zset_log takes an id with every request. Time lines of what does not depend on ids say * for one of its own: r1 in
// the first line, r2 in the second and so on.
func withIDs(timelines []timeline) []timeline {
	with := make([]timeline, len(timelines))
	for i, tl := range timelines {
		with[i] = timeline{tl.name, linesWithIDs(tl.lines)}
	}
	return with
}

func linesWithIDs(lines []line) []line {
	with := make([]line, len(lines))
	for i, l := range lines {
		if do, more := strings.CutSuffix(l.do, " *"); more {
			l.do = fmt.Sprintf("%s r%d", do, i+1)
		}
		with[i] = l
	}
	return with
}

func costsWithIDs(costs []cost) []cost {
	with := make([]cost, len(costs))
	for i, c := range costs {
		lines := linesWithIDs(append(c.before[:len(c.before):len(c.before)], c.call))
		with[i] = cost{c.name, lines[:len(lines)-1], lines[len(lines)-1]}
	}
	return with
}

var idsGiven atomic.Int64

// freshID is an id that no call had before.
func freshID() string { return fmt.Sprintf("fresh-%d", idsGiven.Add(1)) }
