package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// twoWindows is a server with a ring of the loader: 100 a minute and 20 an hour, of which 20 are used.
func twoWindows(t *testing.T) (env []string) {
	t.Helper()
	rdb := client(t, redistest.Start(t).Addr)
	ring := loader.New(rdb).SliceRing("api", []loader.Limit{loader.PerMinute(100), loader.PerHour(20)})
	if d, err := ring.AllowN(background, "acme", 20); err != nil || !d.Granted {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := ring.Allow(background, "acme"); err != nil || d.Granted {
		t.Fatalf("%+v, %v; want a refusal", d, err)
	}
	return []string{"SLUICE_REDIS=" + rdb.Options().Addr}
}

// TestServerInspectWindowMissing asks about the window of a ring that would grant, and not about the one that refuses.
func TestServerInspectWindowMissing(t *testing.T) {
	env := twoWindows(t)
	for args, want := range map[string]string{
		"slices_1=61 limit_1=100": "add slices_2= limit_2=",
		"slices=61 limit=100":     "add slices_2= limit_2=",
		"limit=100/1m":            "may refuse: add limit=N/1h\n",
	} {
		got := runLine(env, "inspect api acme "+args)
		wantText(t, got, exitDone, "with this window alone: a permit would be granted",
			`the ring is 60\.017 min long, other windows may refuse`, want)
		wantNarrow(t, args, got.stdout)
		if strings.Contains(got.stdout, "granted now") {
			t.Errorf("%s: the application is refused:\n%s", args, got.stdout)
		}
		got = runLine(env, "inspect --json api acme "+args)
		if !firstView(t, got).WindowsMissing {
			t.Errorf("%s: no windows_missing in\n%s", args, got.stdout)
		}
	}
	wantText(t, runLine(env, "inspect api acme limit=20/1m"), exitDone,
		"with this window alone: the next permit comes free ", "other windows may refuse")
}

// TestServerInspectWindows names the window that refuses.
func TestServerInspectWindows(t *testing.T) {
	env := twoWindows(t)
	got := runLine(env, "inspect api acme limit=100/1m limit=20/1h")
	wantText(t, got, exitDone, "  window 1m: 20 of 100; window 1h: 20 of 20: this one refuses\n",
		"  the next permit comes free (59|60).* min from now\n", "  count_2 +20\n")
	wantNarrow(t, "inspect", got.stdout)
	wantText(t, runLine(env, "inspect api acme limit=20/1m limit=20/1h"), exitDone,
		"  window 1m: 20 of 20: this one refuses; window 1h: 20 of 20: this one refuses\n")
	got = runLine(env, "inspect api acme limit=100/1m limit=21/1h")
	wantText(t, got, exitDone, "  window 1m: 20 of 100; window 1h: 20 of 21: a permit would be granted now\n")
	wantText(t, runLine(env, "inspect api acme slices_1=61 limit_1=100 slices_2=3601 limit_2=20"),
		exitDone, "  window 61 s: 20 of 100; window 60.017 min: 20 of 20: this one refuses\n")
	wantText(t, runLine(env, "inspect api acme"), exitDone,
		"the limit is in the application", "    limit=100/1m limit=1000/1h\n")
	wantText(t, runLine(env, "help inspect"), exitDone, "limit=100/1m limit=1000/1h", "limit=3/1m")
}

// TestServerInspectWindowsLeased is of a ring whose windows are longer by the age of leases.
func TestServerInspectWindowsLeased(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	ring := loader.New(rdb).SliceRing("api", []loader.Limit{loader.PerMinute(9)}, loader.Slice(time.Second),
		loader.LeaseAge(2*time.Second))
	_, err := ring.AllowN(background, "acme", 2)
	must(t, err)
	env := []string{"SLUICE_REDIS=" + rdb.Options().Addr}
	got := runLine(env, "inspect api acme limit=9/1m")
	wantText(t, got, exitDone, "  slices     63 of 1 s\n", "  window 1m: 2 of 9: a permit would be granted now\n")
}

// TestServerInspectWindowOfOthers gives the windows of scripts with one window.
func TestServerInspectWindowOfOthers(t *testing.T) {
	_, env := inspected(t)
	for key, words := range map[string]string{"ll1": "limit=3/1m", "zl1": "limit=3/1m", "gcra1": "limit=3/1m burst=3",
		"sr1:1000000": "limit=3/1m"} {
		got := sluiceRun(env, append([]string{"inspect", "sluice:try:{demo}:" + key}, strings.Fields(words)...)...)
		wantText(t, got, exitDone, "a permit would be granted now", "  remaining    1\n")
	}
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 limit=2/60s"), exitDone,
		"with limit 2, window 60 s: the next permit comes free")
	all := runLine(env, "inspect try demo limit=3/1m burst=3")
	wantText(t, all, exitDone)
	if n := strings.Count(all.stdout, "  remaining    1\n"); n != 5 {
		t.Errorf("%d scripts were asked, want 5:\n%s", n, all.stdout)
	}
	wantText(t, runLine(env, "inspect try demo"), exitDone, "\n    limit=3/1m\n",
		"\n    limit=10/1s burst=20\n", "live: permits are in use; the limit is in the application: add limit=")
	limited := runLine(env, "inspect sluice:try:{demo}:ll1 limit=3")
	bucket := runLine(env, "inspect sluice:try:{demo}:tb1")
	if strings.Contains(limited.stdout+bucket.stdout, "in the application") {
		t.Errorf("the limit is known:\n%s%s", limited.stdout, bucket.stdout)
	}
}

// TestServerInspectUnused is of arguments that nothing uses.
func TestServerInspectUnused(t *testing.T) {
	_, env := inspected(t)
	for args, want := range map[string]string{
		"sluice:try:{demo}:ll1 limit=3/1m limit=9/1h": "list_log_v1 has one window: want limit=3/1m",
		"sluice:try:{demo}:ll1 limit=3 burst=5":       `list_log_v1 does not use "burst": want limit=3/1m`,
		"sluice:try:{demo}:ll1 slices_1=61 limit_1=3": `does not use "limit_1": want limit=3/1m`,
		"sluice:try:{demo}:tb1 limit=3/1m":            `token_bucket_v1 does not use "limit": its rate is stored`,
		"sluice:try:{demo}:sr1:1000000 window=1m":     `slice_ring_v1 does not use "window": want limit=100/1m limit=1000/1h`,
		"sluice:try:{demo}:ll1 permits=2":             `does not use "permits"`,
		"try demo limit=3/1m max_wait=1s":             `no script of what is stored there uses "max_wait"`,
		"try demo limit=3/1m limit_1=3":               `want no "limit_1"`,
		"try demo limit=3/1m window=1m":               `want no "window"`,
		"try demo limit=3/1m limit=3":                 `want no "limit"`,
		"try demo limit=3/soon":                       `limit is "3/soon": want permits and a window, as in limit=100/1m`,
		"try demo limit=3/0s":                         `limit is "3/0s": want permits and a window`,
		"try demo limit=/1m":                          `limit is "/1m": want permits and a window`,
		"try demo" + strings.Repeat(" limit=3/1m", 9): "9 windows are given: want 1 to 8",
	} {
		got := runLine(env, "inspect "+args)
		wantText(t, got, exitUsage, strings.NewReplacer("{", `\{`, "}", `\}`).Replace(want))
		if got.stdout != "" {
			t.Errorf("%s: %s", args, got.stdout)
		}
	}
	wantText(t, runLine(env, "inspect try nobody limit=3/1m burst=2"), exitDone, "nothing is stored")
}
