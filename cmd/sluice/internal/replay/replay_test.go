package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/policy"
)

// TestNaive compares the replay of 10^5 lines with a count in Go, line by line.
func TestNaive(t *testing.T) {
	hits := traffic(1, 100_000, 1000)
	want := naive(hits, 5, time.Minute, always)
	got, report := verdictsOf(t, configOf(t, byAddress), logOf(hits))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("verdicts of lines (-naive +replay):\n%.2000s", diff)
	}
	denied := int64(0)
	for _, v := range want {
		if v == Denied {
			denied++
		}
	}
	if denied < 1000 || report.Denied != denied || report.Late != 0 || report.Requests != 100_000 {
		t.Errorf("denied %d of %d, late %d; want %d denied, and more than 1000", report.Denied, report.Requests, report.Late,
			denied)
	}
}

// TestNaiveCount is TestNaive with a limit for failed requests only.
func TestNaiveCount(t *testing.T) {
	hits := traffic(2, 10_000, 200)
	file := byAddress + "    count: response.status >= 400\n"
	want := naive(hits, 5, time.Minute, func(h hit) bool { return h.status >= 400 })
	got, report := verdictsOf(t, configOf(t, file), logOf(hits))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("verdicts of lines (-naive +replay):\n%.2000s", diff)
	}
	if p := report.Policies[0]; p.Free == 0 || p.Denied == 0 {
		t.Errorf("%+v: want requests that are free and some that are denied", p)
	}
}

// TestCores wants the same report however many cores decide.
func TestCores(t *testing.T) {
	log := logOf(traffic(3, 400, 12))
	for _, file := range []string{byAddress, byAddress + `
  all:
    by: '"all"'
    rates: [300/1m]
  shadow:
    by: request.ip
    rates: [10/1h]
    mode: shadow
`} {
		c := configOf(t, file)
		var want *Report
		for _, c.Cores = range []int{1, 2, 5} {
			got := run(t, c, log)
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Report{})); diff != "" {
				t.Errorf("%d cores:\n%s", c.Cores, diff)
			}
		}
	}
}

// TestCalendarAndBan wants the months of the log's time, in their zone, and nobody to be let in who was refused twice in
// the last hour.
func TestCalendarAndBan(t *testing.T) {
	midnight := time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC) // in Berlin
	for limit, want := range map[string]string{
		"at -3 -2 -1 0 1 2: rates: 2/month, zone: Europe/Berlin": "GGDGGD",
		"at 0 1 2 120 3601 3602: rates: 1/1m, ban: 2/1h":         "GDDDGD",
		// Two rates refuse at once: that is one refusal.
		"at -2 -1 60: rates: [1/1m, 1/month], zone: Europe/Berlin, ban: 2/1h": "GDG",
	} {
		at, words, _ := strings.Cut(strings.TrimPrefix(limit, "at "), ": ")
		var hits []hit
		for _, second := range strings.Fields(at) {
			n, err := time.ParseDuration(second + "s")
			must(t, err)
			hits = append(hits, hit{midnight.Add(n), "1.1.1.1", 200})
		}
		verdicts, _ := verdictsOf(t, configOf(t, "limits: {api: {by: request.ip, "+words+"}}"), logOf(hits))
		got := ""
		for line := range len(hits) {
			got += map[Verdict]string{Granted: "G", Denied: "D"}[verdicts[int64(line+1)]]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", limit, got, want)
		}
	}
}

// TestTogether wants a request that one policy denies not to be charged by the other.
func TestTogether(t *testing.T) {
	c := configOf(t, `
limits:
  address:
    by: request.ip
    rates: [2/1m]
  everybody:
    by: '"all"'
    rates: [3/1m]
`)
	var hits []hit
	for i, address := range []string{"1.1.1.1", "1.1.1.1", "1.1.1.1", "2.2.2.2", "3.3.3.3", "1.1.1.1"} {
		hits = append(hits, hit{start.Add(time.Duration(i) * time.Second), address, 200})
	}
	report := run(t, c, logOf(hits))
	want := []Counts{
		{Requests: 6, Granted: 3, Denied: 2, Withdrawn: 1}, // the fifth is denied by everybody, the sixth by both
		{Requests: 6, Granted: 3, Denied: 2, Withdrawn: 1},
	}
	for i, p := range report.Policies {
		if diff := cmp.Diff(want[i], p.Counts); diff != "" {
			t.Errorf("%s:\n%s", p.Name, diff)
		}
	}
	if report.Denied != 3 {
		t.Errorf("%d denied, want 3", report.Denied)
	}
}

// TestAsProduction decides requests by policy.Policies, on a server of its own, and by a decider: both must agree.
func TestAsProduction(t *testing.T) {
	const file = `
limits:
  address:
    by: request.ip
    rates: [3/10s, 9/1m]
    count: response.status < 500
  everybody:
    by: '"all"'
    rates: [40/10s]
  shadow:
    by: request.ip
    rates: [2/10s]
    mode: shadow
    count: response.status < 500
`
	c := configOf(t, file)
	path := filepath.Join(t.TempDir(), "limits.yaml")
	must(t, os.WriteFile(path, []byte(file), 0o600))
	server, err := NewServer()
	must(t, err)
	defer server.Close()
	production, err := policy.Load(server.limits, path, policy.ReloadEvery(0))
	must(t, err)
	d, err := newDecider(nil)
	must(t, err)
	defer d.Close()
	seen := map[string]int{}
	hits := traffic(5, 1500, 30)
	slices.SortStableFunc(hits, func(a, b hit) int { return a.at.Compare(b.at) })
	for i, h := range hits {
		a := policy.Attributes{Request: &policy.Request{Method: "GET", Path: "/a", IP: h.address}, Status: h.status}
		server.redis.SetTime(h.at.UnixMicro())
		decision, err := production.Decide(context.Background(), a)
		must(t, errors.Join(err, decision.Finish(context.Background(), h.status)))
		must(t, server.limits.Flush(context.Background()))
		want := map[string]bool{} // policies that are not asked, or whose grant is withdrawn, are not in it
		for _, one := range decision.Policies {
			want[one.Policy] = one.Granted
		}
		q, err := (&Report{}).parse(c, []byte(h.line()), 0)
		must(t, err)
		got := map[string]bool{}
		for n, verdict := range d.decide(q, nil) {
			if verdict != Withdrawn {
				got[q.matches[n].Policy.Name] = verdict == Granted || verdict == Free
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("request %d (-production +replay):\n%s", i, diff)
		}
		seen[fmt.Sprint(want)]++
	}
	if len(seen) < 5 || d.failure != nil {
		t.Errorf("only these cases: %v; %v", seen, d.failure)
	}
}

// TestModes: a policy in shadow mode denies nobody, an empty key is refused, and a cost above the rate never granted.
func TestModes(t *testing.T) {
	c := configOf(t, `
limits:
  shadow:
    by: request.ip
    rates: [1/1m]
    mode: shadow
  user:
    by: request.header["x-user"]
    empty: refuse
    when: request.path == "/user"
    rates: [9/1m]
  cost:
    by: request.ip
    when: request.path == "/cost"
    rates: [3/1m]
    cost: int(request.query["n"])
`)
	line := func(second int, uri string) string {
		return fmt.Sprintf("1.1.1.1 - - [01/Mar/2026:00:00:%02d +0000] \"GET %s HTTP/1.1\" 200 1\n", second, uri)
	}
	report := run(t, c, line(1, "/")+line(2, "/")+line(3, "/user")+line(4, "/cost?n=4")+line(5, "/cost?n=3")+
		line(6, "/cost?n=x"))
	want := []Counts{{Requests: 6, Granted: 1, Denied: 3, Withdrawn: 2}, {Requests: 1, Refused: 1},
		{Requests: 2, Granted: 1, Denied: 1}}
	for i, p := range report.Policies {
		if diff := cmp.Diff(want[i], p.Counts); diff != "" {
			t.Errorf("%s:\n%s", p.Name, diff)
		}
	}
	if report.Denied != 2 || report.Matched != 6 {
		t.Errorf("%d denied of %d, want 2 of 6", report.Denied, report.Matched)
	}
	if n := report.NotApplied; len(n) != 1 || n[0].Policy != "cost" || n[0].Line != 6 || n[0].Requests != 1 {
		t.Errorf("not applied: %+v", n)
	}
}

// TestNotInTheLog: what the application passes and the log does not have is not an empty key.
func TestNotInTheLog(t *testing.T) {
	c := configOf(t, `
attributes: [login]
limits:
  account: {by: login, empty: refuse, rates: 1/1m}
  address: {by: request.ip, rates: 1/1m}
`)
	const line = "1.1.1.1 - - [01/Mar/2026:00:00:01 +0000] \"POST / HTTP/1.1\" 200 1\n"
	report := run(t, c, line+line)
	const why = "login is not in the log"
	if n := report.NotApplied; len(n) != 1 || n[0].Requests != 2 || !strings.Contains(n[0].Why, why) {
		t.Errorf("not applied: %+v", n)
	}
	if p := report.Policies[1]; report.Denied != 1 || p.Denied != 1 {
		t.Errorf("%d denied, %+v: want the address denied once", report.Denied, p.Counts)
	}
}

// TestRefusals: a connection without a client is refused, as in production, and what is in shadow refuses nobody.
func TestRefusals(t *testing.T) {
	c := configOf(t, `
proxies: [10.0.0.0/8]
limits:
  address: {by: request.ip, empty: refuse, rates: 1/1m}
  user: {by: 'request.header["x-user"]', empty: refuse, mode: shadow, rates: 1/1m}
`)
	report := run(t, c, proxied("10.0.0.1", "nonsense"))
	for i, want := range []Counts{{Requests: 1, Refused: 1}, {}} {
		if diff := cmp.Diff(want, report.Policies[i].Counts); diff != "" {
			t.Errorf("%s:\n%s", report.Policies[i].Name, diff)
		}
	}
	if len(report.NotApplied) > 0 {
		t.Errorf("not applied: %+v", report.NotApplied)
	}
}

// TestScripts replays with every script that a policy may have.
func TestScripts(t *testing.T) {
	for script, denied := range map[string]int64{"list_log": 4, "zset_log": 4, "gcra": 4, "slice_ring": 4} {
		var hits []hit
		for i := range 9 {
			hits = append(hits, hit{start.Add(time.Duration(i) * time.Millisecond), "1.1.1.1", 200})
		}
		report := run(t, configOf(t, byAddress+"    script: "+script+"\n"), logOf(hits))
		if report.Denied != denied {
			t.Errorf("%s: %d denied, want %d", script, report.Denied, denied)
		}
	}
}

// TestOrder wants lines up to a minute out of order to be decided at their times, and later ones at the clock.
func TestOrder(t *testing.T) {
	at := func(second int, address string) hit {
		return hit{start.Add(time.Duration(second) * time.Second), address, 200}
	}
	c := configOf(t, "limits:\n  api:\n    by: request.ip\n    rates: [1/30s]\n")
	verdicts, report := verdictsOf(t, c, logOf([]hit{
		at(60, "1.1.1.1"), at(20, "1.1.1.1"), at(0, "1.1.1.1"), // decided from the last to the first
		at(200, "1.1.1.1"),
		at(10, "2.2.2.2"), // decided at 60 s, where the clock stands
		at(75, "2.2.2.2"), // 15 s later
		at(215, "1.1.1.1"),
	}))
	want := map[int64]Verdict{1: Granted, 2: Denied, 3: Granted, 4: Granted, 5: Granted, 6: Denied, 7: Denied}
	if diff := cmp.Diff(want, verdicts); diff != "" || report.Late != 1 {
		t.Errorf("%d late:\n%s", report.Late, diff)
	}
}

// proxied is a line of a log that has X-Forwarded-For.
func proxied(address, forwarded string) string {
	return fmt.Sprintf("{\"msec\":1770000000,\"remote_addr\":%q,\"http_x_forwarded_for\":%q,"+
		"\"request\":\"GET / HTTP/1.1\"}\n", address, forwarded)
}

// TestProxies wants the client's address from X-Forwarded-For behind the proxies of the file, and only there.
func TestProxies(t *testing.T) {
	log := proxied("10.0.0.1", "9.9.9.9, 192.0.2.7") + proxied("10.0.0.2", "192.0.2.7, 10.1.1.1") +
		proxied("192.0.2.7", "8.8.8.8") + proxied("10.0.0.3", "nonsense") + proxied("::ffff:192.0.2.7", "") +
		proxied("2001:DB8::1", "") + proxied("some.host.example", "")
	report := run(t, configOf(t, "proxies: [10.0.0.0/8]\n"+byAddress), log)
	want := []Key{
		{"api", "192.0.2.7", 4, 0}, {"api", "2001:db8::1", 1, 0}, {"api", "some.host.example", 1, 0},
	}
	if diff := cmp.Diff(want, report.Busiest); diff != "" {
		t.Error(diff)
	}
	if len(report.NotApplied) != 1 || report.NotApplied[0].Requests != 1 || report.NotApplied[0].Line != 4 {
		t.Errorf("not applied: %+v", report.NotApplied)
	}
}

func TestBadLines(t *testing.T) {
	good := hit{start, "1.1.1.1", 200}.line()
	long := strings.Repeat("x", accesslog.MaxLine+1) + "\n"
	log := good + "bad\n" + long + "\n" + good + strings.Repeat("worse\n", 2000) + good
	report := run(t, configOf(t, byAddress), log)
	if report.Lines != 2006 || report.Unread != 2003 || report.Requests != 3 || len(report.Bad) != maxExamples {
		t.Errorf("%+v", report)
	}
	want := []BadLine{{2, `it has no " " behind $remote_addr`}, {3, "it has 65538 bytes: want at most 65536"},
		{4, "it is empty"}, {6, `it has no " " behind $remote_addr`}, {7, `it has no " " behind $remote_addr`}}
	if diff := cmp.Diff(want, report.Bad); diff != "" {
		t.Error(diff)
	}
}

// TestInterrupted wants the report of what was decided before.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, logOf(traffic(4, 5000, 10)))
		cancel()
		_ = out.Close()
	}()
	report, err := Run(ctx, configOf(t, byAddress), in)
	if !errors.Is(err, context.Canceled) || report == nil || report.Requests > 5000 {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestReadError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(hit{start, "1.1.1.1", 200}.line()), failing{})
	report, err := Run(context.Background(), configOf(t, byAddress), broken)
	if !errors.Is(err, errBroken) || report == nil || report.Requests != 1 {
		t.Errorf("%v, %+v", err, report)
	}
}

var errBroken = errors.New("the disk is broken")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }
