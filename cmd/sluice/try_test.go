package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
)

func TestParseTry(t *testing.T) {
	tests := []struct {
		args string
		keys string
		argv string
		err  string
	}{
		{args: "gcra limit=10 window=1s", keys: "sluice:try:{demo}:gcra1", argv: "10 1000000 10 1 0"},
		{args: "gcra limit=10 window=1s burst=3 permits=2 max_wait=1m30s", keys: "sluice:try:{demo}:gcra1",
			argv: "10 1000000 3 2 90000000"},
		{args: "limit=1 gcra", err: `there is no script "limit=1"`},
		{args: "list_log limit=3 window=7d subject=a{b}% limiter=send-code prefix=p", keys: "p:send-code:{a%7Bb%7D%25}:ll1",
			argv: "3 604800000000 1 0"},
		{args: "list_log limit=3 window=60000000 key=mine", keys: "mine", argv: "3 60000000 1 0"},
		{args: "list_log limit=3 window=1m log=mine", keys: "mine", argv: "3 60000000 1 0"},
		{args: "zset_log limit=3 window=1d12h id=req-1", keys: "sluice:try:{demo}:zl1", argv: "3 129600000000 1 0 req-1"},
		{
			args: "token_bucket rate=3 interval=1m client=web{1}", argv: "3 60000000 0 1 0",
			keys: "sluice:try:{demo}:tb1 sluice:try:{demo}:tb1:all sluice:try:{demo}:tb1:by:web%7B1%7D",
		},
		{args: "token_bucket rate=3 interval=1m scope=1 key=k all=other", argv: "3 60000000 1 1 0", keys: "k other k:by:cli"},
		{args: "slice_ring slice=1s slices=61 limit=5", keys: "sluice:try:{demo}:sr1:1000000", argv: "1000000 1 61 5"},
		{
			args: "slice_ring slice=1s slices_1=61 limit_1=5 limit_2=9 slices_2=3601 permits=0",
			keys: "sluice:try:{demo}:sr1:1000000", argv: "1000000 0 61 5 3601 9",
		},
		{args: "slice_ring slice=1s slices=61 limit=5 limit_2=9", err: "slice_ring_v1 wants slices_2"},
		{args: "slice_ring slice=1s slices=61 limit=5 limit_3=9", err: `slice_ring_v1 has no "limit_3"`},
		{args: "slice_ring_return slice=1s taken=1893456000123456", keys: "sluice:try:{demo}:sr1:1000000",
			argv: "1000000 1893456000123456 1"},
		{args: "slice_ring_return slice=1s taken=2030-01-01T01:00:00.123456+01:00", keys: "sluice:try:{demo}:sr1:1000000",
			argv: "1000000 1893456000123456 1"},
		{args: "slice_ring_return slice=1s taken=yesterday", err: `taken is "yesterday": want microseconds since 1970`},
		{args: "list_log_return moment=2030-01-01T01:00:00.123456+01:00 permits=2", keys: "sluice:try:{demo}:ll1",
			argv: "1893456000123456 2"},
		{args: "list_log_return permits=2",
			err: "list_log_return_v1 wants moment: the time they were granted for: now + wait in list_log's reply"},
		{args: "zset_log_return id=req-81", keys: "sluice:try:{demo}:zl1", argv: "req-81 1"},
		{args: "zset_log_return id=req-81 limit=3", err: `zset_log_return_v1 has no "limit"`},
		// the script says what is wrong
		{args: "gcra limit=-1 window=1s", keys: "sluice:try:{demo}:gcra1", argv: "-1 1000000 -1 1 0"},
		{args: "gcra window=1s", err: "gcra_v1 wants limit: permits earned in a window (1 to 10000000)"},
		{args: "gcra limit=1", err: "gcra_v1 wants window: length of the window (1 ms to 366 days)"},
		{args: "gcra limit=1 window=soon", err: `window is "soon": want microseconds, or a unit`},
		{args: "gcra limit=1 window=1500ns", err: `window is "1500ns": want whole microseconds`},
		{args: "gcra limit=1 window=1.5d", err: `window is "1.5d"`},
		{args: "gcra limit=1 limit=2 window=1s", err: `"limit" is given twice`},
		{args: "gcra limit=1 window=1s 5", err: `unexpected argument "5": want name=value`},
		{args: "gcra limit=1 window=1s id=7", err: `gcra_v1 has no "id": want limit, window`},
		{args: "gcra limit=1 window=1s subject=", err: "subject"},
		{args: "gcra limit=1 window=1s limiter=a:b", err: "limiter"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			_, got, err := parseTry(strings.Fields(test.args))
			if err != nil || test.err != "" {
				if test.err == "" || !strings.Contains(fmt.Sprint(err), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if keys := strings.Join(got.keys, " "); keys != test.keys {
				t.Errorf("keys %s, want %s", keys, test.keys)
			}
			if argv := strings.TrimSpace(fmt.Sprintln(got.args...)); argv != test.argv {
				t.Errorf("argv %s, want %s", argv, test.argv)
			}
		})
	}
}

// TestTryEmbedded calls every script once, with what its header needs at least.
func TestTryEmbedded(t *testing.T) {
	for _, script := range sluice.All() {
		name := fullName(script)
		got := sluiceRun(nil, append([]string{"try", "--embedded", name}, strings.Fields(needs[name])...)...)
		wantSaid(t, got, exitDone)
		for _, field := range script.Reply {
			if inWindow := strings.HasSuffix(field.Name, "_i"); field.Repeated && inWindow && script.KeyGroup != nil {
				field.Name = strings.TrimSuffix(field.Name, "_i") + "_1_1"
			} else if field.Repeated {
				field.Name = strings.TrimSuffix(field.Name, "_i") + "_1"
			}
			wantSaid(t, got, exitDone, "\n  "+field.Name+" ")
		}
		wantNarrow(t, name, got.stdout)
	}
}

// TestServerTryGivesBack returns permits with the time that their decision showed, in each of its two forms.
func TestServerTryGivesBack(t *testing.T) {
	server := "--redis=" + redistest.Start(t).Addr
	now := regexp.MustCompile(`(?m)^  now +(.+ UTC) \((\d+) us\)$`)
	for form := 1; form <= 2; form++ {
		got := sluiceRun(nil, "try", server, "slice_ring", "slice=1h", "slices=2", "limit=5", "permits=3")
		shown := now.FindStringSubmatch(got.stdout)
		if shown == nil {
			t.Fatalf("status %d, no time in\n%s%s", got.status, got.stdout, got.stderr)
		}
		got = sluiceRun(nil, "try", server, "slice_ring_return", "slice=1h", "taken="+shown[form], "permits=3")
		if got.status != exitDone || !regexp.MustCompile(`returned +3\n`).MatchString(got.stdout) {
			t.Errorf("taken=%s: status %d\n%s%s", shown[form], got.status, got.stdout, got.stderr)
		}
	}
}

func TestTryTimes(t *testing.T) {
	got := runLine(nil, "try --embedded slice_ring --times 3 limit=2 slices=400 slice=1d")
	want := regexp.MustCompile(`^slice_ring_v1 on an embedded miniredis
key sluice:try:\{demo\}:sr1:86400000000

#  granted  remaining +wait +reset_after  count_1
1        1          1 +0 +\S+ days        1
2        1          0 +0 +\S+ days        2
3        0          0 +\S+ days +\S+ days        2
$`)
	if !want.MatchString(got.stdout) {
		t.Errorf("got\n%s\nwant\n%s", got.stdout, want)
	}
}

// The fields of several keys with several windows have both numbers.
func TestTryManyWindows(t *testing.T) {
	got := runLine(nil, "try --embedded slice_ring_many limit=2 slices=4 slice=1d slices_2=9 limit_2=5 subject_2=bob")
	want := regexp.MustCompile(`
key sluice:try:\{demo\}:sr1:86400000000
key sluice:try:\{bob\}:sr1:86400000000

  now +\S.*
  granted_1 +1
  remaining_1 +1
  wait_1 +0
  reset_after_1 +\S+ days.*
  count_1_1 +1
  count_1_2 +1
  granted_2 +1
  remaining_2 +1
  wait_2 +0
  reset_after_2 +\S+ days.*
  count_2_1 +1
  count_2_2 +1
$`)
	if !want.MatchString(got.stdout) {
		t.Errorf("got\n%s\nwant\n%s", got.stdout, want)
	}
}

func TestTryErrors(t *testing.T) {
	got := runLine(nil, "try --embedded list_log limit=3 window=1m permits=4")
	want := "sluice try: loader: list_log_v1: bad permits: want up to limit\n" +
		"permits: wanted now, up to limit; 0 only looks\n"
	if got.status != exitFailed || got.stderr != want {
		t.Errorf("status %d\n%s\nwant\n%s", got.status, got.stderr, want)
	}
}

func TestServerTryWrongType(t *testing.T) {
	_, env := started(t)
	must(t, lineErr(env, "try gcra limit=3 window=1m key=k"))
	wantSaid(t, runLine(env, "try list_log limit=3 window=1m key=k"), exitFailed, "WRONGTYPE",
		"cure: choose another subject")
}

func TestLength(t *testing.T) {
	tests := map[int64]string{
		0: "0", 1: "1 us", 999: "999 us", 1000: "1 ms", 1500: "1.5 ms", 999_999: "999.999 ms",
		1_000_000: "1 s", 1_234_567: "1.235 s", 90_000_000: "90 s", 120_000_000: "2 min",
		7_200_000_000: "2 h", 172_800_000_000: "2 days", 31622400000000: "366 days",
	}
	for us, want := range tests {
		if got := length(us); got != want {
			t.Errorf("length(%d) = %s, want %s", us, got, want)
		}
	}
}

func TestMeaning(t *testing.T) {
	for want, reply := range map[string][]int64{
		"granted: act now":                              {1, 0, 0, 5, 9},
		"granted: act 1.2 s from now":                   {2, 0, 1_200_000, 5, 9},
		"not granted: permits come free 1.2 s from now": {0, 0, 1_200_000, 5, 9},
		"a look: a permit would be granted now":         {0, 3, 0, 5, 9},
	} {
		if got := (screen{}).meaning(sluice.ListLogV1, reply); string(got) != want {
			t.Errorf("%d: %q, want %q", reply, got, want)
		}
	}
}
