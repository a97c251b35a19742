package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/policy"
)

const byAddress = `
limits:
  api:
    by: request.ip
    rates: [5/1m]
`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func configOf(t testing.TB, file string) Config {
	t.Helper()
	f, err := policy.Parse("test.yaml", []byte(file))
	must(t, err)
	format, err := accesslog.NewFormat("", f.Attributes)
	must(t, err)
	return Config{File: f, Format: format, Cores: 2}
}

func run(t testing.TB, c Config, log string) *Report {
	t.Helper()
	report, err := Run(context.Background(), c, strings.NewReader(log))
	must(t, err)
	return report
}

// start is when the logs of the tests begin.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// hit is a request of a generated log, in the order of the lines.
type hit struct {
	at      time.Time
	address string
	status  int
}

func (h hit) line() string {
	return fmt.Sprintf("{\"msec\":%.3f,\"remote_addr\":%q,\"request\":\"GET /a HTTP/1.1\",\"status\":%d}\n",
		float64(h.at.UnixMilli())/1000, h.address, h.status)
}

func logOf(hits []hit) string {
	var out strings.Builder
	for _, h := range hits {
		out.WriteString(h.line())
	}
	return out.String()
}

// traffic is a random log: a few addresses ask far more than most, and lines are up to 50 s out of order.
func traffic(seed uint64, lines, addresses int) (hits []hit) {
	random := rand.New(rand.NewPCG(seed, 7))
	type written struct {
		hit
		end time.Time
	}
	var all []written
	at := start
	for range lines {
		at = at.Add(time.Duration(random.IntN(40)) * time.Millisecond)
		n := min(random.IntN(addresses), random.IntN(addresses), random.IntN(addresses))
		h := hit{at, fmt.Sprintf("10.0.%d.%d", n/250, n%250), []int{200, 200, 404, 500}[random.IntN(4)]}
		all = append(all, written{h, at.Add(time.Duration(random.IntN(50_000)) * time.Millisecond)})
	}
	slices.SortStableFunc(all, func(a, b written) int { return a.end.Compare(b.end) })
	for _, w := range all {
		hits = append(hits, w.hit)
	}
	return hits
}

// verdictsOf replays a log and returns the verdict of each line about one policy.
func verdictsOf(t *testing.T, c Config, log string) (map[int64]Verdict, *Report) {
	t.Helper()
	var mu sync.Mutex
	verdicts := map[int64]Verdict{}
	c.Decided = func(line int64, _ policy.Match, v Verdict) {
		mu.Lock()
		defer mu.Unlock()
		verdicts[line] = v
	}
	report := run(t, c, log)
	return verdicts, report
}

// naive decides hits by counting what each address was granted in the last window: limit in any window. What does not
// count is not charged.
func naive(hits []hit, limit int, window time.Duration, counts func(hit) bool) map[int64]Verdict {
	order := make([]int, len(hits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return hits[a].at.Compare(hits[b].at) })
	granted, verdicts := map[string][]time.Time{}, map[int64]Verdict{}
	for _, i := range order {
		h := hits[i]
		live := slices.DeleteFunc(granted[h.address], func(at time.Time) bool { return !at.After(h.at.Add(-window)) })
		granted[h.address] = live
		switch {
		case len(live) >= limit:
			verdicts[int64(i+1)] = Denied
		case counts(h):
			granted[h.address] = append(live, h.at)
		default:
			verdicts[int64(i+1)] = Free
		}
		if verdicts[int64(i+1)] == 0 {
			verdicts[int64(i+1)] = Granted
		}
	}
	return verdicts
}

func always(hit) bool { return true }
