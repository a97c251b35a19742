package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/redistest"
)

func TestParseTop(t *testing.T) {
	tests := map[string]string{
		"":                   "",
		"--prefix p":         "",
		"--limiter send.1-x": "",
		"--limiter a*":       "limiter",
		"--prefix a:b":       "prefix",
		"--n 0":              "want 1 to 1000",
		"--share 101":        "want 1 to 100",
		"--page 9":           "want 10 to 1000",
		"now":                `unexpected argument "now"`,
	}
	for args, want := range tests {
		_, err := parseTop(strings.Fields(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestRest sleeps on a clock that is not real: a page of 2 ms at 5 percent is followed by 38 ms.
func TestRest(t *testing.T) {
	tests := []struct {
		busy  time.Duration
		share int
		want  time.Duration
	}{
		{2 * time.Millisecond, 5, 38 * time.Millisecond},
		{time.Millisecond, 50, time.Millisecond},
		{time.Second, 100, 0},
	}
	for _, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			if err := rest(t.Context(), test.busy, test.share); err != nil || time.Since(began) != test.want {
				t.Errorf("%v at %d: %v, %v", test.busy, test.share, time.Since(began), err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := rest(ctx, time.Hour, 1); err == nil || time.Since(began) != test.want {
				t.Errorf("it went on: %v after %v", err, time.Since(began))
			}
		})
	}
}

func TestKeep(t *testing.T) {
	var busiest []*subject
	for _, one := range []subject{
		{Key: "a", Permits: 5}, {Key: "b", Permits: 7}, {Key: "c", Permits: 1}, {Key: "d", Permits: 6},
		{Key: "b", Permits: 4}, {Key: "e", Permits: 5}, {Key: "f", Permits: 2}, {Key: "d", Permits: 6},
	} {
		busiest = keep(busiest, &one, 3)
	}
	var got []string
	for _, one := range busiest {
		got = append(got, fmt.Sprint(one.Key, one.Permits))
	}
	if diff := cmp.Diff([]string{"d6", "a5", "e5"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestServerTop ranks limiters of every script, some of them under other names.
func TestServerTop(t *testing.T) {
	rdb, env := started(t)
	calls := []string{
		"list_log limit=100 window=1h permits=5 subject=five",
		"zset_log limit=100 window=1h permits=7 subject=seven",
		"token_bucket rate=100 interval=1h permits=9 subject=nine",
		"token_bucket rate=100 interval=1h permits=6 scope=1 subject=six client=web-1",
		"slice_ring slice=1s slices=60 limit=100 permits=8 key=sluice:try:{8}:sr1:1000000:5000000",
		"gcra limit=100 window=100s permits=50 subject=fifty",
		"gcra limit=100 window=100s permits=60 subject=sixty",
		"list_log limit=100 window=1h permits=99 subject=many limiter=other",
		"list_log limit=100 window=1h permits=98 subject=many prefix=mine",
	}
	for range 30 {
		calls = append(calls, fmt.Sprintf("list_log limit=100 window=1h subject=one-%d", len(calls)))
	}
	for _, args := range calls {
		wantText(t, runLine(env, "try "+args), exitDone)
	}
	must(t, rdb.Set(background, "sluice:try:{bad}:ll1", "x", 0).Err())
	must(t, rdb.Set(background, "sluice:session:{ada}", "x", 0).Err())
	changes := parseInfo(rdb.Info(background).Val())["rdb_changes_since_last_save"]

	got := runLine(env, "top --limiter try --page 10 --share 100 --json")
	wantText(t, got, exitDone)
	var c census
	must(t, json.Unmarshal([]byte(got.stdout), &c))
	var ranked []string
	for _, one := range append(c.Logs[:6:6], c.Buckets...) {
		ranked = append(ranked, fmt.Sprint(one.Subject, one.Client, " ", one.LeaseAge, " ", one.Permits, " ", one.Script))
		if one.Memory < 50 || one.TTL < 1_000_000 || (one.Idle == nil) != (one.Script == "gcra_v1") || one.Idle != nil &&
			*one.Idle < 0 {
			t.Errorf("%+v", one)
		}
	}
	want := []string{
		"nine 0 9 token_bucket_v1", "8 5000000 8 slice_ring_v1", "seven 0 7 zset_log_v1", "sixweb-1 0 6 token_bucket_v1",
		"five 0 5 list_log_v1", "one-10 0 1 list_log_v1", "sixty 0 0 gcra_v1", "fifty 0 0 gcra_v1",
	}
	if diff := cmp.Diff(want, ranked); diff != "" {
		t.Error(diff)
	}
	if len(c.Logs) != 20 || c.Counted != 37 || c.Refused != 1 || c.Unread != 0 || c.Seen != rdb.DBSize(background).Val() ||
		c.Partial {
		t.Errorf("%+v", c)
	}

	got = runLine(env, "top --n 3 --share 100")
	wantText(t, got, exitDone,
		`^most permits stored, .*\npermits +newest.*\n +99 .* list_log_v1 +other +many\n +9 .* token_bucket_v1 +try +nine\n +8 .* slice_ring_v1 +try +8, leased 5 s\n\nfurthest from full\n *full in  expires  memory`,
		"59 s .*gcra_v1 +try +sixty",
		`38 subjects \(of 43 keys scanned\)\n1 key that a script would refuse: see sluice inspect <key>`)
	wantNarrow(t, "top", got.stdout)
	if strings.Contains(got.stderr, "keys") {
		t.Errorf("progress where there is no terminal: %q", got.stderr)
	}
	wantText(t, runLine(env, "top --prefix mine"), exitDone, `98 .* many\n\n1 subject \(of 43 keys`)
	wantText(t, runLine(env, "top --prefix nobody"), exitDone, `^0 subjects \(of 43 keys scanned\)\n$`)
	if after := parseInfo(rdb.Info(background).Val())["rdb_changes_since_last_save"]; after != changes {
		t.Errorf("it has written: %s, before %s", after, changes)
	}
}

func TestServerTopRefused(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	for i, rules := range [][]string{{"+scan"}, {"+time", "+llen", "+lindex"}} {
		must(t, rdb.ACLSetUser(background, "ada", append([]string{"on", ">pw", "~*"}, rules...)...).Err())
		fill(t, rdb, 10)
		got := sluiceRun(nil, "top", "--redis", "redis://ada:pw@"+rdb.Options().Addr)
		if i == 0 {
			wantText(t, got, exitFailed, "not known: 10 keys could not be read, the first with: NOPERM",
				"cure: ACL SETUSER <name> ")
			continue
		}
		wantText(t, got, exitFailed, ` -       -  list_log_v1`,
			"not known: 6 keys could not be read, the first with: NOPERM", "cure: ACL SETUSER <name> ")
	}
	must(t, rdb.ACLSetUser(background, "ada", "-scan").Err())
	wantText(t, sluiceRun(nil, "top", "--redis", "redis://ada:pw@"+rdb.Options().Addr), exitFailed, "scanning .*NOPERM",
		"cure: ACL SETUSER <name> ")
}

// TestServerTopInterrupted interrupts it once it has begun.
func TestServerTopInterrupted(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	fill(t, rdb, 2000)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	run := make(chan outcome)
	go func() {
		run <- runUnder(ctx, nil, strings.Fields("top --page 10 --share 1 --redis "+rdb.Options().Addr)...)
	}()
	redistest.Await(t, "three pages are asked for", func() bool {
		calls := 0
		_, _ = fmt.Sscanf(parseInfo(rdb.Info(background, "commandstats").Val())["cmdstat_scan"], "calls=%d", &calls)
		return calls >= 3
	})
	cancel()
	wantText(t, <-run, exitInterrupted, `^most .*\npermits .*\n +22? .* (min|s) +\d+ B `,
		`subjects \(of \d+ keys scanned\), until it was interrupted\n`, "interrupted\n$")
}

func TestServerTopCluster(t *testing.T) {
	addrs := startCluster(t)
	all := "--cluster=" + addrs[3]
	for i := range 9 {
		wantText(t, sluiceRun(nil, "try", all, "list_log", "limit=9", "window=1h", fmt.Sprint("subject=s", i),
			fmt.Sprint("permits=", i+1)), exitDone)
	}
	got := sluiceRun(nil, "top", all, "--n", "9")
	wantText(t, got, exitDone, `9 subjects \(of 9 keys`)
	lines := strings.Split(got.stdout, "\n")
	for i := range 9 {
		if want := fmt.Sprintf(" %d ", 9-i); !strings.Contains(lines[i+2], want) ||
			!strings.HasSuffix(lines[i+2], fmt.Sprint("s", 8-i)) {
			t.Errorf("%q, want%sof s%d", lines[i+2], want, 8-i)
		}
	}
}

// TestServerTopDeadMaster kills one of three masters: what the others say is shown, the dead one is named, the exit
// status says that not all is known.
func TestServerTopDeadMaster(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	all := "--cluster=" + nodes[0].Addr + "," + nodes[1].Addr + "," + nodes[2].Addr
	for i := range 12 {
		wantText(t, sluiceRun(nil, "try", all, "list_log", "limit=9", "window=1h", fmt.Sprint("subject=s", i)), exitDone)
	}
	for i, dead := range []*redistest.Server{nodes[0], nodes[2]} {
		keys := nodes[1].Client(t).DBSize(background).Val()
		if i == 0 {
			keys += nodes[2].Client(t).DBSize(background).Val()
		}
		dead.Kill()
		got := sluiceRun(nil, "top", all)
		wantText(t, got, exitFailed, fmt.Sprintf(`%d subjects \(of %d keys`, keys, keys), "list_log_v1 +try +s",
			"not known: .*"+dead.Addr, "cure: ")
		var c census
		got = sluiceRun(nil, "top", "--json", all)
		wantText(t, got, exitFailed)
		must(t, json.Unmarshal([]byte(got.stdout), &c))
		if len(c.Logs) != int(keys) || len(c.Failures) != i+1 || c.Failures[0].Error == "" {
			t.Errorf("%s", got.stdout)
		}
	}
}

// TestServerTopFailsOver tests a dead master whose slots another has: what it held is counted.
func TestServerTopFailsOver(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 1)
	all := "--cluster=" + nodes[1].Addr
	for i := range 9 {
		wantText(t, sluiceRun(nil, "try", all, "list_log", "limit=9", "window=1h", fmt.Sprint("subject=s", i)), exitDone)
	}
	redistest.Await(t, "the replica has everything", func() bool {
		return nodes[3].Client(t).DBSize(background).Val() == nodes[0].Client(t).DBSize(background).Val()
	})
	nodes[0].Kill()
	replica := nodes[3].Client(t)
	redistest.Await(t, "the replica takes over", func() bool {
		_ = replica.Do(background, "cluster", "failover", "takeover").Err()
		return strings.Contains(replica.Info(background, "replication").Val(), "role:master")
	})
	redistest.Await(t, "the others know", func() bool {
		own := nodes[1].Client(t).ClusterNodes(background).Val()
		return strings.Contains(own, nodes[3].Addr+"@") && strings.Count(own, " 0-") == 1 && !strings.Contains(lineWith(own,
			nodes[0].Addr), " 0-")
	})
	wantText(t, sluiceRun(nil, "top", all), exitDone, `9 subjects \(of 9 keys`)
}

// lineWith is the line of a text that holds another.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// TestServerTopReplica leaves a master alone.
func TestServerTopReplica(t *testing.T) {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := client(t, redistest.Start(t).Addr)
	admin := client(t, master.Addr)
	fill(t, admin, 10)
	host, port, _ := net.SplitHostPort(master.Addr)
	must(t, replica.ReplicaOf(background, host, port).Err())
	redistest.Await(t, "the replica has everything",
		func() bool { return replica.DBSize(background).Val() == admin.DBSize(background).Val() })
	wantText(t, sluiceRun(nil, "top", "--redis", replica.Options().Addr), exitDone, `10 subjects \(of 12 keys`)
	wantText(t, sluiceRun(nil, "inspect", "--redis", replica.Options().Addr, "sluice:try:{1}:ll1", "limit=3"), exitFailed,
		"live: permits are in use", "left +not known: .*"+sluice.ListLogV1SHA1)
}

func TestAgo(t *testing.T) {
	tests := map[int64]string{-5_000_000: "booked 5 s ahead", 0: "now", 999: "now", 9_999_000: "9.999 s ago",
		61_234_567: "61 s ago", 7_265_000_000: "2.017 h ago"}
	for us, want := range tests {
		if got := ago(us); got != want {
			t.Errorf("ago(%d) = %s, want %s", us, got, want)
		}
	}
}

// fill makes limiters of every script that grants permits, most with few permits and some with many.
func fill(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	var attempts []attempt
	for _, script := range sluice.All() {
		must(t, rdb.ScriptLoad(background, script.Source).Err())
		if !stored.Decides(script) || !takes(script, "permits") {
			continue
		}
		words := strings.Fields(strings.NewReplacer("=1m", "=1h", "=3", "=100").Replace(needs[fullName(script)]))
		todo, err := newAttempt(script, append(words, "subject=SUBJECT", "permits=2"))
		must(t, err)
		attempts = append(attempts, todo)
	}
	pipe := rdb.Pipeline()
	for i := range n {
		todo := attempts[i%len(attempts)]
		keys := slices.Clone(todo.keys)
		for k := range keys {
			keys[k] = strings.Replace(keys[k], "SUBJECT", strconv.Itoa(i), 1)
		}
		for range 1 + 10*(i%100/99) {
			pipe.EvalSha(background, todo.script.SHA1, keys, todo.withID()...)
		}
		if pipe.Len() > 1000 || i == n-1 {
			_, err := pipe.Exec(background)
			must(t, err)
		}
	}
}
