package play

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
)

// The traffic of a link is the same for ever, on every machine: a bug report is a link.
func TestTrafficIsDeterministic(t *testing.T) {
	for _, test := range []struct {
		link  string
		calls int
		first string // of the first three: at, client, permits, hold, actual, dies, unused
		sum   string // of all
	}{
		{"", 78,
			"[{412075 6 1 2 500000 1 false false} {455842 9 1 1 500000 1 false false} {780978 0 1 3 500000 1 false false}]",
			"2496178b76e44de1"},
		{"burstiness=0&rate=3&for=1s", 3,
			"[{166667 6 1 2 500000 1 false false} {500000 9 1 1 500000 1 false false} {833334 0 1 3 500000 1 false false}]",
			"5c6e6c3763306e68"},
		{"burstiness=7&rate=100.5&clients=3&cost=2&costmax=5&seed=9", 1006,
			"[{95976 2 2 0 500000 2 false false} {97878 0 5 1 500000 5 false false} {98372 2 4 0 500000 4 false false}]",
			"3842eab26bab83f1"},
		{"paint=05az&noisy=50", 99,
			"[{3324149 7 1 2 500000 1 false false} {3411683 9 1 1 500000 1 false false} {4061956 1 1 3 500000 1 false false}]",
			"e0da80b772b1be93"},
		{"rate=0&bunch=1s:10&calls=1.5s,0s,1.503s,10s", 98,
			"[{0 6 1 2 500000 1 false false} {984685 9 1 1 500000 1 false false} {992328 0 1 3 500000 1 false false}]",
			"edfaeb31ab5f8698"},
		{"rate=10000&for=24h&burstiness=100&paint=zz1", 50001,
			"[{9419 6 1 2 500000 1 false false} {10138 9 1 1 500000 1 false false} {10675 0 1 3 500000 1 false false}]",
			"9bfdf68a4a3efe68"},
		{"cost=9&hold=2ms&holdmax=9s&actual=0&actualmax=1000&lost=40&unused=60&permits=9", 78,
			"[{412075 6 9 2 6900501 50 false false} {455842 9 9 1 5849596 17 false false} {780978 0 9 3 6955544 44 false true}]",
			"98bbd65fdff7185e"},
	} {
		arrivals := traffic(t, test.link)
		sum := fnv.New64a()
		fmt.Fprint(sum, arrivals)
		first, all := fmt.Sprint(arrivals[:min(3, len(arrivals))]), fmt.Sprintf("%x", sum.Sum(nil))
		if len(arrivals) != test.calls || first != test.first || all != test.sum {
			t.Errorf("{%q, %d, %q, %q},", test.link, len(arrivals), first, all)
		}
		inOrder := slices.IsSortedFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		if !inOrder || len(arrivals) > maxDecisions+1 {
			t.Errorf("%s: %d calls, in order: %t", test.link, len(arrivals), inOrder)
		}
	}
}

func traffic(t *testing.T, link string) []arrival {
	t.Helper()
	s, err := Parse(link)
	must(t, err)
	return s.arrivals(maxDecisions + 1)
}

// As many calls come as the link says, on average; each number is fixed, because the seed is.
func TestTrafficRate(t *testing.T) {
	for _, test := range []struct {
		link        string
		least, most int
	}{
		{"burstiness=0&rate=3&for=100s", 300, 300},
		{"burstiness=0&rate=3.5&for=100s&paint=0a", 175, 175},
		{"burstiness=0&rate=7&for=1s&paint=z", 24, 25},
		{"rate=100&for=100s", 9_800, 10_200},
		{"rate=100&for=100s&burstiness=2", 9_500, 10_500},
		{"rate=100&for=100s&burstiness=50", 8_500, 11_500},
		{"rate=100&for=100s&paint=k50", 8_100, 8_600},
		{"rate=0", 0, 0},
		{"rate=0&bunch=10s:7&for=100s", 66, 66}, // nine whole ones, and what comes of the tenth before the end
	} {
		if n := len(traffic(t, test.link)); n < test.least || n > test.most {
			t.Errorf("%s: %d calls, want %d to %d", test.link, n, test.least, test.most)
		}
	}
}

// The gaps of random calls are exponentially distributed: their mean, and the share of those that are longer.
func TestTrafficIsPoisson(t *testing.T) {
	arrivals := traffic(t, "rate=1000&for=40s")
	longer := 0
	for i, a := range arrivals[1:] {
		if a.at-arrivals[i].at > 2000 {
			longer++
		}
	}
	// e^-2 is 0.1353.
	if share := float64(longer) / float64(len(arrivals)); share < 0.13 || share > 0.14 {
		t.Errorf("%.4f of the gaps are longer than two means", share)
	}
}

func TestTrafficClients(t *testing.T) {
	count := func(link string) (first, others int, clients map[int64]bool) {
		clients = map[int64]bool{}
		for _, a := range traffic(t, link) {
			clients[a.client] = true
			if a.client == 0 {
				first++
			} else {
				others++
			}
		}
		return first, others, clients
	}
	first, others, clients := count("rate=100&for=100s&clients=8&noisy=80")
	if len(clients) != 8 || first < 7_700 || first > 8_300 || others < 1_700 {
		t.Errorf("%d calls of the first, %d of others, %d clients", first, others, len(clients))
	}
	if first, others, _ = count("clients=1&noisy=50"); first == 0 || others != 0 {
		t.Errorf("of one client %d, of others %d", first, others)
	}
	if first, others, _ = count("noisy=100&clients=5"); first == 0 || others != 0 {
		t.Errorf("noisy 100: %d calls of the first, %d of others", first, others)
	}
}

func TestTrafficAroundEdges(t *testing.T) {
	before, after := 0, 0
	for _, a := range traffic(t, "rate=0&bunch=2s:10") {
		switch from := a.at % 2_000_000; {
		case from >= 1_980_000:
			before++
		case from < 20_000:
			after++
		default:
			t.Errorf("a call at %d", a.at)
		}
	}
	if before != 25 || after != 20 {
		t.Errorf("%d before the edges and %d after them, want 25 and 20", before, after)
	}
}
