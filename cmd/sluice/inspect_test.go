package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

func TestParseInspect(t *testing.T) {
	tests := []struct{ args, keys, err string }{
		{args: "sluice:a:{b=c}:ll1", keys: "sluice:a:{b=c}:ll1"},
		{args: "sluice:a:{b}:ll1 limit=3 window=1m", keys: "sluice:a:{b}:ll1"},
		{args: "--script list_log mine limit=3", keys: "mine"},
		{args: "a b=c",
			keys: "sluice:a:{b=c}:cc1 sluice:a:{b=c}:gcra1 sluice:a:{b=c}:ll1 sluice:a:{b=c}:tb1 sluice:a:{b=c}:zl1"},
		{
			args: "a {b} prefix=p slice=1s",
			keys: "p:a:{%7Bb%7D}:cc1 p:a:{%7Bb%7D}:gcra1 p:a:{%7Bb%7D}:ll1 p:a:{%7Bb%7D}:sr1:1000000 " +
				"p:a:{%7Bb%7D}:tb1 p:a:{%7Bb%7D}:zl1",
		},
		{
			args: "a b slice=1s lease_age=250ms",
			keys: "sluice:a:{b}:cc1 sluice:a:{b}:gcra1 sluice:a:{b}:ll1 sluice:a:{b}:sr1:1000000:250000 sluice:a:{b}:tb1 " +
				"sluice:a:{b}:zl1",
		},
		{args: "", err: "want a key, or a limiter and a subject"},
		{args: "a", err: `"a" is not a key of our scripts: want a subject after it`},
		{args: "a{b}", err: `"a{b}" is not a key of our scripts`},
		{args: "a:b c", err: "limiter"},
		{args: "a b c", err: `unexpected argument "c"`},
		{args: "a b limti=3", err: `no script has an argument "limti"`},
		{args: "a b slice=soon", err: `slice is "soon"`},
		{args: "a b lease_age=1s", err: "lease_age wants slice="},
		{args: "a b slice=1s lease_age=old", err: `lease_age is "old"`},
		{args: "--script nothing k", err: `there is no script "nothing"`},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			_, got, err := parseInspect(strings.Fields(test.args))
			if err != nil || test.err != "" {
				if test.err == "" || !strings.Contains(fmt.Sprint(err), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			var keys []string
			for _, key := range got.keys {
				keys = append(keys, key.Text)
			}
			if diff := cmp.Diff(test.keys, strings.Join(keys, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// inspected is a server with every limiter, and what they were asked with.
func inspected(t *testing.T) (rdb *redis.Client, env []string) {
	t.Helper()
	rdb = client(t, redistest.Start(t).Addr)
	env = []string{"SLUICE_REDIS=" + rdb.Options().Addr}
	for _, script := range sluice.All() {
		must(t, rdb.ScriptLoad(background, script.Source).Err())
		if stored.Limits(script) {
			words := "try " + fullName(script) + " " + needs[fullName(script)]
			if takes(script, "permits") {
				words += " permits=2"
			}
			got := runLine(env, words)
			if got.status != exitDone {
				t.Fatal(got.stderr)
			}
		}
	}
	return rdb, env
}

// wantText fails unless a run ended so, with all of the texts, as regular expressions, in what it wrote.
func wantText(t *testing.T, got outcome, status int, texts ...string) {
	t.Helper()
	if got.status != status {
		t.Errorf("status %d, want %d\n%s%s", got.status, status, got.stdout, got.stderr)
	}
	for _, text := range texts {
		if !regexp.MustCompile(text).MatchString(got.stdout + got.stderr) {
			t.Errorf("no %s in\n%s%s", text, got.stdout, got.stderr)
		}
	}
}

// wantSaid fails unless a run ended so, with all of the texts in what it wrote.
func wantSaid(t *testing.T, got outcome, status int, texts ...string) {
	t.Helper()
	for i := range texts {
		texts[i] = regexp.QuoteMeta(texts[i])
	}
	wantText(t, got, status, texts...)
}

func TestServerInspect(t *testing.T) {
	rdb, env := inspected(t)
	dirty := parseInfo(rdb.Info(background).Val())
	all := runLine(env, "inspect try demo slice=1s limit=3 burst=3 window=1m slices=61")
	wantText(t, all, exitDone,
		`sluice:try:\{demo\}:gcra1\n  state      live: all permits are free again in (39\.\d+|40) s`,
		`####\.\.\.\.+\n  1 of 3 permits left\n\n  with limit 3, window 60 s, burst 3: a permit would be granted now\n\n  remaining`,
		`  limit      3, as of the newest grant\n  written    20.* ago\n`,
		`:ll1\n  state      live: permits are in use\n  script     list_log_v1\n  limiter    try\n  subject    demo\n  node `,
		`  window     60 s, as given\n  permits    2 live, of 2 stored\n  newest     20.* ago\n`,
		`\n  free       all permits are free again in (59\.\d+|60) s, if no one asks\n`,
		`  slices     61 of 1 s\n`, `  count_1      2\n`,
		`  rate       3 in 60 s, all clients together\n`, `  rate         3\n`,
		`  type       zset \(listpack\)\n  memory     \d+ bytes\n  expires    `,
		`\n {20,}#\n.*\n  -60 s +now\n  a column is 789\.474 ms; the fullest has 2 permits\n`,
	)
	wantNarrow(t, "inspect", all.stdout)
	if strings.Count(all.stdout, "  remaining    1\n") != 5 || strings.Contains(all.stdout, "note:") {
		t.Errorf("not every script was found and asked for what is left:\n%s", all.stdout)
	}
	for _, key := range []string{"ll1", "zl1"} {
		wantText(t, sluiceRun(env, "inspect", "sluice:try:{demo}:"+key), exitDone,
			`  window     60 s, from the TTL\n  permits    2 live`,
			`the callers use \(limit=\), for example\n\n    limit=3/1m\n`)
	}
	alone := runLine(env, "inspect sluice:try:{demo}:gcra1")
	wantText(t, alone, exitDone, `the callers use \(burst= window=\), for example\n\n    limit=10/1s burst=20\n`)
	wantText(t, alone, exitDone, `  written    20.* ago\n`)
	wantText(t, runLine(env, "inspect sluice:try:{demo}:gcra1 window=1m burst=3"), exitDone, "  remaining    1\n")
	wantText(t, runLine(env, "inspect sluice:try:{demo}:sr1:1000000"), exitDone,
		`the callers use \(slices_1= limit_1=\), for example\n\n    limit=100/1m limit=1000/1h\n`)
	wantText(t, runLine(env, "inspect sluice:try:{demo}:tb1:all"), exitDone, "  remaining    1\n")
	wantText(t, runLine(env, "inspect sluice:try:{nobody}:ll1"), exitDone, "absent: nothing is stored")
	wantText(t, runLine(env, "inspect try nobody"), exitDone, `^nothing is stored under sluice:try:\{nobody\}:\* on `)
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 limit=0"), exitFailed, "bad limit: want 1")
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 limit=3 window=soon"), exitUsage, `window is "soon"`)

	after := parseInfo(rdb.Info(background).Val())
	for _, name := range []string{"rdb_changes_since_last_save", "number_of_cached_scripts"} {
		if after[name] != dirty[name] {
			t.Errorf("%s was %s, is %s", name, dirty[name], after[name])
		}
	}
	must(t, rdb.ScriptFlush(background).Err())
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 limit=3"), exitFailed, "left       not known: .*sluice load")
}

// firstView is the first key in the output of inspect --json.
func firstView(t *testing.T, got outcome) view {
	t.Helper()
	var views []view
	must(t, json.Unmarshal([]byte(got.stdout), &views))
	return views[0]
}

func TestServerInspectJSON(t *testing.T) {
	_, env := inspected(t)
	for _, test := range []struct {
		key    string
		window int64
		words  string
	}{
		{"ll1", 60_000_000, "limit=3"}, {"zl1", 60_000_000, "limit=3"}, {"tb1", 60_000_000, ""},
		{"sr1:1000000", 61_000_000, "limit=3 slices=61"},
	} {
		got := sluiceRun(env, append([]string{"inspect", "--json", "sluice:try:{demo}:" + test.key},
			strings.Fields(test.words)...)...)
		v := firstView(t, got)
		sum := int64(0)
		for _, n := range v.History.Permits {
			sum += n
		}
		if v.Live != 2 || v.Window != test.window || v.State != stateLive || v.Left["remaining"] != 1 || sum != 2 ||
			v.TTL < 58_000_000 || v.Now-v.Newest > 2_000_000 {
			t.Errorf("%s", got.stdout)
		}
	}
}

// TestServerInspectSlots shows who holds slots, and until when.
func TestServerInspectSlots(t *testing.T) {
	rdb, env := inspected(t)
	const key = "sluice:render:{acme}:cc1"
	must(t, rdb.ZAdd(background, key, redis.Z{Score: 1e15, Member: "gone"}).Err())
	for _, words := range []string{"id=web-1 ttl=1m", "id=web-2\x1b ttl=1h", "id=web-1 ttl=2m renew=1"} {
		wantText(t, runLine(env, "try concurrency limit=3 limiter=render subject=acme "+words), exitDone,
			"granted: the slot is held until the lease ends\n")
	}
	wantText(t, runLine(env, "try concurrency limit=2 limiter=render subject=acme ttl=1s id=web-3"), exitDone,
		`not granted: a slot is free (119\.\d+ s|120 s|2 min) from now, if none is renewed`)
	wantText(t, runLine(env, "try concurrency limit=3 limiter=render subject=acme ttl=1s id=web-3 renew=1"), exitDone,
		`not granted: no live lease to renew; a slot is free now`)
	for _, words := range []string{"render acme limit=2", "render acme limit=2 ttl=5s", key + " limit=2"} {
		got := runLine(env, "inspect "+words)
		if strings.Contains(words, "ttl") {
			wantText(t, got, exitUsage, `concurrency_v1 does not use "ttl": want limit=20`)
			continue
		}
		wantText(t, got, exitDone, `live: 2 slots are held\n`, `\n  slots      2 held, of 2 stored\n`,
			`\n  holder     web-1, for (119\.\d+ s|120 s|2 min)\n  holder     web-2\\x1b, for .* min\n`,
			`\n  free       all slots are free in (59\.\d+|60) min, if none is renewed\n`,
			`with limit 2: the next slot is free (119\.\d+ s|120 s|2 min) from now, if it is not renewed`, `remaining    0\n`)
		wantNarrow(t, "inspect", got.stdout)
	}
	wantText(t, runLine(env, "inspect render acme limit=5/30s"), exitUsage,
		`limit=5/30s: concurrency_v1 has no window: want limit=5\n`)
	wantText(t, runLine(env, "inspect "+key+" limit=3"), exitDone, `with limit 3: a slot is free now\n`)
	wantText(t, runLine(env, "inspect "+key), exitDone, `the callers use \(limit=\), for example\n\n    limit=20\n`)
	v := firstView(t, runLine(env, "inspect --json "+key+" limit=3"))
	if v.Live != 2 || len(v.Holders) != 2 || v.Holders[0].ID != "web-1" || v.Full-v.Now > 3600e6 ||
		v.Holders[1].Ends != v.Full || v.Left["remaining"] != 1 {
		t.Errorf("%+v", v)
	}
	wantText(t, runLine(env, "top"), exitDone, `\n *2 +- +\d.* concurrency_v1 +render +acme\n`)

	for i := range 30 {
		must(t, rdb.ZAdd(background, key, redis.Z{Score: float64(v.Now + 1e9 + int64(i)), Member: i}).Err())
	}
	got := runLine(env, "inspect "+key)
	wantText(t, got, exitDone, "32 slots are held", `\n             and 12 whose leases end later\n`)
	if n := strings.Count(got.stdout, "holder "); n != 20 {
		t.Errorf("%d holders, want 20", n)
	}
	for score, want := range map[float64]string{
		float64(v.Now) + 4e13: `a clock that was ahead has written leases of \d+\.\d+ days: sluice reset frees all`,
		float64(v.Now) - 1:    "idle: no slots are held",
	} {
		must(t, rdb.Del(background, key).Err())
		must(t, rdb.ZAdd(background, key, redis.Z{Score: score, Member: "a"}).Err())
		wantText(t, runLine(env, "inspect "+key), exitDone, want)
	}
	must(t, rdb.ZAdd(background, key, redis.Z{Score: 1 << 54, Member: "b"}).Err())
	wantText(t, runLine(env, "inspect "+key), exitFailed, "damaged: .*the last lease has the score")
	wantText(t, runLine(env, "reset render acme"), exitDone, "cc1")
}

// ringUpTo is a slice_ring of 60 slices of a second, with a permit in the last.
func ringUpTo(last int64) string {
	return layout.SliceRingHeader(1_000_000, 60, uint64(last), 1) + strings.Repeat(layout.SliceRingCell(0, uint64(last)),
		60)
}

// bucket is a gcra of 7 permits a minute, written at a given time.
func bucket(full, written int64) string {
	return layout.GCRA(uint64(full), 0, 7, uint64(written), 60_000_000)
}

// TestServerInspectStates puts what no grant of the last minute leaves under the keys.
func TestServerInspectStates(t *testing.T) {
	rdb, env := inspected(t)
	now := rdb.Time(background).Val().UnixMicro()
	const minute = 60_000_000
	tests := []struct {
		key, words string
		put        []any
		status     int
		want       string
	}{
		{"ll1", "window=1m", []any{"rpush", now - 3*minute}, exitDone, "idle: no permits are in use"},
		{"ll1", "window=1m", []any{"rpush", now - minute/2, now + minute/2}, exitDone,
			`live: booked (29\.\d+|30) s ahead: only`},
		{"ll1", "window=1m", []any{"rpush", now + minute/2}, exitDone, `columns after now are booked`},
		{"ll1", "window=1m limit=9", []any{"rpush", now + 4*minute}, exitDone,
			`void: written by a clock (3\.9\d*|4) min ahead(.|\n)*remaining    9\n`},
		{"ll1", "window=1m", []any{"rpush", now + 3*minute - minute/10}, exitDone,
			`live: written by a clock 2\.[89]\d* min ahead: permits stay`},
		{"ll1", "window=1m", []any{"rpush", now + 3*minute + minute/10}, exitDone, "void: "},
		{"ll1", "window=1m", []any{"rpush", now - 2*minute, now - minute/2}, exitDone, "1 live, of 2 stored"},
		{"sr1:1000000", "", []any{"set", ringUpTo((now + 2*minute - minute/10) / 1e6)}, exitDone,
			"live: written by a clock 11"},
		{"sr1:1000000", "", []any{"set", ringUpTo((now + 2*minute + minute/10) / 1e6)}, exitDone, "void: "},
		{"sr1:1000000", "", []any{"set", ringUpTo((now - minute - minute/10) / 1e6)}, exitDone, "idle: "},
		{"ll1", "", []any{"rpush", now + 4*minute}, exitFailed,
			`unknown: written by a clock (3\.9\d*|4) min ahead: .*window= to see`},
		{"ll1", "", []any{"rpush", now - minute}, exitDone,
			`live: permits are stored: add the callers' window= to see whether they still count`},
		{"ll1", "", []any{"rpush", "one"}, exitFailed,
			`damaged: the scripts answer BADSTATE: the last entry holds "one"(.|\n)*\ncure: .*UNLINK`},
		{"ll1", "", []any{"rpush", "1", "one", "two", now}, exitFailed,
			`damaged: the scripts may answer BADSTATE: entry \d holds`},
		{"ll1", "", []any{"set", "one"}, exitFailed,
			"foreign: not one of our limiters: the scripts answer WRONGTYPE to a string"},
		{"zl1", "window=1m", []any{"zadd", now - 3*minute, "m"}, exitDone, "idle"},
		{"tb1", "", []any{"hset", "rate", "no"}, exitFailed, "damaged: .*rate, interval and scope"},
		{"tb1:all", "", []any{"rpush", "m"}, exitFailed, `damaged: .*20 bytes`},
		{"sr1:1000000", "", []any{"set", "x"}, exitFailed, "damaged: .*it holds 1 bytes"},
		{"sr1:1000000", "", []any{"set", ""}, exitFailed, "damaged: .*it is empty"},
		{"gcra1", "", []any{"set", bucket(now-5, now-9)}, exitDone, "idle: the bucket is full"},
		{"gcra1", "", []any{"set", bucket(now+2*minute, now+minute)}, exitDone, `live: all permits are free again in`},
		{"gcra1", "window=1m burst=7", []any{"set", bucket(now+4*minute, now+3*minute)}, exitDone,
			`void: written by a clock (2\.9\d*|3) min ahead: (.|\n)*  remaining    7\n`},
		{"gcra1", "", []any{"set", bucket(now+4*minute, now+3*minute)}, exitDone,
			`void: written by a clock (2\.9\d*|3) min ahead: the next call starts with an empty limiter`},
	}
	for _, test := range tests {
		must(t, rdb.FlushDB(background).Err())
		key := "sluice:try:{demo}:" + test.key
		must(t, rdb.Do(background, append([]any{test.put[0], key}, test.put[1:]...)...).Err())
		wantText(t, sluiceRun(env, append([]string{"inspect", key}, strings.Fields(test.words)...)...), test.status,
			test.want)
	}
}

// TestServerInspectGrantedUnder asks with a window of a minute for what may have been granted under a wider one, which
// the TTL would tell.
func TestServerInspectGrantedUnder(t *testing.T) {
	rdb, env := inspected(t)
	const minute = 60_000_000
	tests := []struct {
		key, words string
		put        []any
		left       string
	}{
		{"ll1", "window=1m limit=9", []any{"rpush"}, "9"},
		{"zl1", "window=1m limit=9", []any{"zadd"}, "9"},
		{"tb1:all", "", []any{"rpush"}, "3"},
	}
	for _, test := range tests {
		key := "sluice:try:{demo}:" + test.key
		for under, void := range map[int64]bool{0: true, minute / 2: true, 19 * minute / 10: true, 21 * minute / 10: false,
			5 * minute: false} {
			must(t, rdb.Del(background, key).Err())
			now := rdb.Time(background).Val().UnixMicro()
			newest := now + 4*minute
			put := append(test.put[:1:1], key, newest)
			switch test.key {
			case "zl1":
				put = append(put, "m")
			case "tb1:all":
				put[2] = layout.TokenBucketEntry(uint64(newest), 0, 1)
			}
			must(t, rdb.Do(background, put...).Err())
			if under > 0 {
				must(t, rdb.PExpireAt(background, key, time.UnixMicro(newest+under)).Err())
			}
			want := "live: written by a clock (.|\n)*  remaining    0\n"
			if void {
				want = "void: written by a clock (.|\n)*  remaining    " + test.left + "\n"
			}
			wantText(t, sluiceRun(env, append([]string{"inspect", key}, strings.Fields(test.words)...)...), exitDone, want)
		}
	}
}

// TestServerInspectHiddenTTL tests a user who may not read the TTL, which tells under what window the newest permit was
// granted.
func TestServerInspectHiddenTTL(t *testing.T) {
	rdb, _ := inspected(t)
	const minute = 60_000_000
	must(t, rdb.RPush(background, "sluice:try:{far}:ll1", rdb.Time(background).Val().UnixMicro()+4*minute).Err())
	must(t, rdb.ACLSetUser(background, "ada", "on", ">pw", "~*", "+time", "+llen", "+lindex").Err())
	got := sluiceRun(nil, "inspect", "--redis=redis://ada:pw@"+rdb.Options().Addr, "sluice:try:{far}:ll1", "window=1m")
	wantText(t, got, exitFailed, "unknown: written by a clock .*the TTL would tell", "expires    not known: NOPERM",
		`cure: ACL SETUSER <name> %R~sluice:\* `)
}

func TestServerInspectClients(t *testing.T) {
	_, env := inspected(t)
	got := runLine(env, "try token_bucket rate=5 interval=1m scope=1 limiter=each client=web-1:80 permits=2")
	wantText(t, got, exitDone)
	wantText(t, runLine(env, "inspect each demo"), exitDone, "config: each client has this rate")
	for _, args := range [][]string{
		{"each", "demo", "client=web-1:80"}, {"sluice:each:{demo}:tb1", "client=web-1:80"},
		{"sluice:each:{demo}:tb1:by:web-1:80"},
	} {
		wantText(t, sluiceRun(env, append([]string{"inspect"}, args...)...), exitDone,
			"  client     web-1:80\n", "each client by itself", "2 live, of 2 stored", "  remaining    3\n")
	}
}

// TestServerInspectLeased tests a ring with an age of leases, from which a permit was given back.
func TestServerInspectLeased(t *testing.T) {
	rdb, env := started(t)
	ring := loader.New(rdb).SliceRing("try", []loader.Limit{loader.PerMinute(3)}, loader.Slice(time.Second),
		loader.LeaseAge(250*time.Millisecond))
	d, err := ring.AllowN(background, "demo", 2)
	must(t, err)
	const key = "sluice:try:{demo}:sr1:1000000:250000"
	wantText(t, sluiceRun(env, "try", "slice_ring_return", "key="+key, "slice=1s",
		fmt.Sprint("taken=", d.Now.UnixMicro())),
		exitDone, "returned +1\n")

	for _, args := range []string{key, "try demo slice=1s lease_age=250ms"} {
		got := runLine(env, "inspect "+args+" slices=62 limit=3")
		wantText(t, got, exitDone, `:sr1:1000000:250000\n  state      live: permits`,
			"  script     slice_ring_v1\n  limiter    try\n  subject    demo\n  node ",
			"  slices     62 of 1 s\n  lease age  250 ms: permits may be spent", "  permits    1 in the ring\n",
			"fullest has 1 permit\n", "  remaining    2\n")
		wantNarrow(t, "inspect", got.stdout)
		if strings.Contains(got.stdout, "note:") {
			t.Errorf("there is nothing else to look for:\n%s", got.stdout)
		}
	}
	got := sluiceRun(env, "inspect", "--json", key)
	if v := firstView(t, got); v.LeaseAge != 250_000 || v.Client != "" || v.Permits != 1 {
		t.Errorf("%s", got.stdout)
	}
}

// TestServerInspectHuge counts what a million permits take to be shown.
func TestServerInspectHuge(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	now := rdb.Time(background).Val().UnixMicro()
	pipe := rdb.Pipeline()
	batch := make([]any, 1000)
	for i := range 1000 {
		for k := range batch {
			batch[k] = now - 50_000_000 + int64(i*1000+k)*50
		}
		pipe.RPush(background, "sluice:try:{demo}:ll1", batch...)
	}
	_, err := pipe.Exec(background)
	must(t, err)
	must(t, rdb.ConfigResetStat(background).Err())
	got := sluiceRun(nil, "inspect", "--redis", rdb.Options().Addr, "sluice:try:{demo}:ll1", "window=1m")
	wantText(t, got, exitDone, "1000000 live, of 1000000 stored")
	calls := 0
	for name, fields := range parseInfo(rdb.Info(background, "commandstats").Val()) {
		if n := 0; strings.HasPrefix(name, "cmdstat_") {
			_, _ = fmt.Sscanf(fields, "calls=%d", &n)
			calls += n
		}
	}
	if calls < 20 || calls > 2000 {
		t.Errorf("%d commands", calls)
	}
}

func TestServerInspectCluster(t *testing.T) {
	addrs := startCluster(t)
	all := "--cluster=" + addrs[0]
	wantText(t, sluiceRun(nil, "load", all), exitDone)
	nodes := map[string]bool{}
	for i := range 12 {
		subject := fmt.Sprint("s", i)
		wantText(t, sluiceRun(nil, "try", all, "list_log", "limit=3", "window=1m", "subject="+subject), exitDone)
		got := sluiceRun(nil, "inspect", all, "sluice:try:{"+subject+"}:ll1", "limit=3")
		wantText(t, got, exitDone, "1 live, of 1 stored", "  remaining    2\n")
		nodes[regexp.MustCompile(`node +(\S+)`).FindString(got.stdout)] = true
	}
	if len(nodes) != 3 {
		t.Errorf("asked %v", nodes)
	}
	for _, addr := range addrs[:2] {
		got := sluiceRun(nil, "inspect", "--redis", addr, "sluice:try:{s0}:ll1")
		if got.status == exitFailed {
			wantText(t, got, exitFailed, "cure: the server is a node of a cluster")
			return
		}
	}
	t.Error("both nodes have the key")
}

// TestView draws views that stand still.
func TestView(t *testing.T) {
	const now = 1_795_190_573_204_223
	live := view{
		Key: "sluice:send-code:{ada\x1b[31m}:ll1", Node: "redis-1:6379", Script: "list_log_v1", Limiter: "send-code",
		Subject: "ada\x1b[31m",
		State:   stateLive, Meaning: "booked 5 s ahead: only callers that wait get permits",
		Type: "list", Encoding: "quicklist", Memory: 312, TTL: 65_000_100, Now: now, Entries: 60, Permits: 60, Live: 57,
		Oldest: now - 60_000_000, Newest: now + 5_000_000, Window: 60_000_000, WindowFrom: "from the TTL",
		History: &history{From: now - 60_000_000, Step: 1_000_000, Permits: make([]int64, 65)},
		Wanted:  []string{"limit"}, Refused: map[string]string{"history": "NOPERM no"},
	}
	for i, n := range []int64{1, 0, 2, 4, 8, 16, 12, 0, 5} {
		live.History.Permits[i*8] = n
	}
	damaged := view{
		Key: "mine", Node: "redis-1:6379", Script: "gcra_v1", State: stateDamaged,
		Meaning: `the scripts answer BADSTATE: it holds "x"`,
		Type:    "string", TTL: -1, Refused: map[string]string{"memory": "NOPERM no"},
	}
	config := view{
		Key: "sluice:sms:{acme}:tb1", Node: "redis-1:6379", Script: "token_bucket_v1", Limiter: "sms", Subject: "acme",
		State:  stateConfig,
		Config: &stored.Config{Rate: 100, Interval: 1_000_000, PerClient: true},
		Type:   "hash", Encoding: "listpack", TTL: -1,
	}
	for _, unicode := range []bool{false, true} {
		var text strings.Builder
		s := screen{w: &text, unicode: unicode}
		s.views([]view{live, damaged, config}, inspection{}, search{})
		s.gauge(5, 20)
		golden(t, map[bool]string{true: "inspect_unicode", false: "inspect_ascii"}[unicode], text.String())
	}
}

func TestPlotColumns(t *testing.T) {
	for columns, want := range map[int]int{0: 76, 10: 20, 80: 76, 300: 100} {
		if got := (screen{columns: columns}).plotColumns(); got != want {
			t.Errorf("%d columns: %d, want %d", columns, got, want)
		}
	}
}

// subjectForms are the two ways to ask for what is stored for a subject.
var subjectForms = [][]string{{"try", "demo"}, {"sluice:try:{demo}:ll1"}, {"sluice:try:{demo}:gcra1"},
	{"sluice:try:{demo}:tb1"}}

// wantUnknown fails unless a run ended with status 1, said the texts, and did not say that nothing is there.
func wantUnknown(t *testing.T, got outcome, texts ...string) {
	t.Helper()
	wantText(t, got, exitFailed, texts...)
	for _, never := range []string{"nothing is stored", "absent"} {
		if strings.Contains(got.stdout+got.stderr, never) {
			t.Errorf("it says %q without having looked:\n%s%s", never, got.stdout, got.stderr)
		}
	}
}

// TestServerInspectRefusedConnection tests connections that the server refuses in various ways.
func TestServerInspectRefusedConnection(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	for _, form := range subjectForms {
		for url, want := range map[string]string{
			"redis://:wrong@" + server.Addr:          "WRONGPASS",
			"redis://nobody:secret@" + server.Addr:   "WRONGPASS",
			"redis://" + server.Addr:                 "NOAUTH",
			"redis://:secret@" + server.Addr + "/99": "DB index is out of range",
			"redis://127.0.0.1:1":                    "127.0.0.1:1",
		} {
			wantUnknown(t, sluiceRun(nil, append([]string{"inspect", "--redis", url}, form...)...), want,
				server.Addr+"|127.0.0.1:1:")
		}
	}
}

// TestInspectBusyServer tests servers that answer everything, or everything but the handshake, with an error.
func TestInspectBusyServer(t *testing.T) {
	for _, code := range []string{"LOADING", "MASTERDOWN", "BUSY", "CLUSTERDOWN"} {
		addr := fakeServer(t, func(args []string) string {
			switch strings.ToLower(args[0]) {
			case "hello":
				return "-ERR unknown command\r\n"
			case "time":
				return "*2\r\n" + bulk("1795324372") + bulk("107710")
			}
			return "-" + code + " not now\r\n"
		})
		for _, form := range subjectForms {
			wantUnknown(t, sluiceRun(nil, append([]string{"inspect", "--redis", addr}, form...)...), code+" not now")
		}
	}
}

// TestServerInspectRefusedCommands tests users who may do some of what is needed.
func TestServerInspectRefusedCommands(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	everything := []string{"on", ">pw", "~*", "+@all"}
	url := "--redis=redis://ada:pw@" + rdb.Options().Addr
	for key, put := range map[string][]any{"zl1": {"zadd", 1, "m"}, "ll1": {"rpush", 1}, "gcra1": {"set", "x"},
		"tb1": {"hset", "rate", 1}} {
		must(t, rdb.Do(background, append([]any{put[0], "sluice:try:{demo}:" + key}, put[1:]...)...).Err())
	}
	for _, refused := range []string{"time", "llen", "lindex", "zcount", "zrange", "hmget", "exists", "getrange get",
		"scan", "@all +time"} {
		rules := append([]string{"reset"}, everything...)
		for _, name := range strings.Fields(refused) {
			rules = append(rules, "-"+strings.TrimPrefix(name, "-"))
		}
		if strings.Contains(refused, "@all") {
			rules = append(everything[:3:3], "-@all", "+time")
		}
		must(t, rdb.ACLSetUser(background, "ada", rules...).Err())
		wantUnknown(t, sluiceRun(nil, "inspect", url, "try", "demo"), "not known|unknown", "NOPERM",
			"cure: ACL SETUSER <name> %R~sluice:")
	}
	must(t, rdb.ACLSetUser(background, "ada", "reset", "on", ">pw", "~other:*", "+@all").Err())
	wantUnknown(t, sluiceRun(nil, "inspect", url, "try", "demo"), "NOPERM")

	must(t, rdb.ACLSetUser(background, "ada", append([]string{"reset"}, everything...)...).Err())
	must(t, rdb.FlushDB(background).Err())
	wantText(t, sluiceRun(nil, "inspect", url, "try", "demo"), exitDone,
		`^nothing is stored under sluice:try:\{demo\}:\* on `+rdb.Options().Addr+"\nnames are")
}

// TestServerInspectFindsRings tests keys whose names hold what only the callers know.
func TestServerInspectFindsRings(t *testing.T) {
	rdb, env := started(t)
	wantText(t, runLine(env, "try slice_ring slice=1s slices=61 limit=1000 permits=602"), exitDone)
	got := runLine(env, "inspect try demo")
	wantText(t, got, exitDone, `^sluice:try:\{demo\}:sr1:1000000\n  state      live`, `  permits    602 in the ring\n`)

	leased := loader.New(rdb).SliceRing("try", []loader.Limit{loader.PerMinute(9)}, loader.Slice(time.Second),
		loader.LeaseAge(time.Second))
	_, err := leased.AllowN(background, "demo", 2)
	must(t, err)
	for _, args := range []string{"", "slice=1s", "slice=1m", "slice=1s lease_age=1s", "slice=1m slices=61 limit=1000"} {
		got := runLine(env, "inspect try demo "+args)
		wantText(t, got, exitDone, `602 in the ring`, `:sr1:1000000:1000000\n`, `2 in the ring`)
		if strings.Count(got.stdout, "in the ring") != 2 || strings.Contains(got.stdout, "BADSTATE") {
			t.Errorf("%s: want each ring once:\n%s", args, got.stdout)
		}
	}
	wantUnknown(t, runLine(env, "inspect --no-scan try demo"), "not known whether", "slice=")
	wantText(t, runLine(env, "inspect --no-scan try demo slice=1s"), exitDone, "602 in the ring", "note: .*--no-scan")

	wantText(t, runLine(env, "inspect try demo2"), exitDone, `^nothing is stored under sluice:try:\{demo2\}:\* on `)
}

// TestServerInspectFindsOthers tests permits whose config is gone, of clients, and of keys that no script here has.
func TestServerInspectFindsOthers(t *testing.T) {
	rdb, env := started(t)
	for _, who := range []string{"web-1", "web-2"} {
		wantText(t, sluiceRun(env, "try", "token_bucket", "rate=5", "interval=1m", "scope=1", "client="+who), exitDone)
	}
	wantText(t, runLine(env, "inspect try demo"), exitDone, "config: ", "note: 2 clients have their own permits: client=")
	wantText(t, runLine(env, "try token_bucket_set rate=5 interval=1m subject=ada"), exitDone)
	wantText(t, runLine(env, "inspect try ada"), exitDone, "rate       5 in 60 s", "absent: ")
	must(t, rdb.Del(background, "sluice:try:{demo}:tb1").Err())
	wantText(t, runLine(env, "inspect try demo"), exitDone, `:tb1:by:web-1\n`, `:tb1:by:web-2\n`)
	must(t, rdb.Del(background, "sluice:try:{demo}:tb1:by:web-1", "sluice:try:{demo}:tb1:by:web-2").Err())
	must(t, rdb.Set(background, "sluice:try:{demo}:new9", "x", 0).Err())
	wantUnknown(t, runLine(env, "inspect try demo"), `sluice:try:\{demo\}:new9`, "not known")
	must(t, rdb.Del(background, "sluice:try:{demo}:new9").Err())
	for i := range 40 {
		must(t, rdb.Set(background, fmt.Sprintf("sluice:try:{demo}:sr1:%d", 1000+i), "x", 0).Err())
	}
	wantUnknown(t, runLine(env, "inspect try demo"), "20 more keys")
}

// TestServerInspectClusterUnknown tests a cluster in which not all answer who may hold a subject.
func TestServerInspectClusterUnknown(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	asking := func(subject string) outcome {
		return sluiceRun(nil, "inspect", "--cluster", nodes[0].Addr+","+nodes[1].Addr+","+nodes[2].Addr, "try", subject)
	}
	owners := ownersIn(t, asking)
	subject := owners[nodes[1].Addr]
	wantText(t, sluiceRun(nil, "try", "--cluster", nodes[0].Addr, "slice_ring", "slice=1s", "slices=61", "limit=9",
		"subject="+subject), exitDone)
	wantText(t, asking(subject), exitDone, "1 in the ring")

	// All keys that have names of their own are there, so that none of them leads to the node to which the slot moves.
	other := owners[nodes[2].Addr]
	for _, args := range []string{"gcra limit=3 window=1m", "list_log limit=3 window=1m",
		"zset_log limit=3 window=1m id=a", "token_bucket rate=3 interval=1m"} {
		wantText(t, sluiceRun(nil, append(strings.Fields("try "+args), "--cluster="+nodes[0].Addr, "subject="+other)...),
			exitDone)
	}
	wantText(t, asking(other), exitDone, ":gcra1\n(.|\n)*:zl1\n")
	slot := moveSlot(t, other, nodes[2], nodes[0])
	wantUnknown(t, asking(other), "ASK "+slot+" "+nodes[0].Addr)

	nodes[1].Kill()
	wantUnknown(t, asking(subject), nodes[1].Addr)
	wantText(t, asking(owners[nodes[0].Addr]), exitDone, "^nothing is stored under ")
}

// TestNoNodes tests a server that says of its cluster, or of a master, that it has no nodes.
func TestNoNodes(t *testing.T) {
	addr := fakeServer(t, func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "cluster":
			return bulk("")
		case "sentinel":
			return "*0\r\n"
		}
		return "-ERR no\r\n"
	})
	for _, command := range []string{"load", "verify", "top"} {
		wantText(t, sluiceRun(nil, command, "--cluster", addr), exitFailed, "asking "+addr+
			" for the nodes: the reply names no node")
		wantText(t, sluiceRun(nil, command, "--sentinel", "main@"+addr), exitFailed, "asking "+addr+" for the nodes: ")
	}
}

// TestServerInspectBurst tests a gcra whose burst is not its limit. Its state does not tell the burst.
func TestServerInspectBurst(t *testing.T) {
	_, env := started(t)
	wantText(t, runLine(env, "try gcra limit=10 window=100s burst=3 permits=3"), exitDone, `remaining +0\n`)
	for _, args := range []string{"try demo window=100s", "sluice:try:{demo}:gcra1 window=100s",
		"sluice:try:{demo}:gcra1 window=100s limit=10"} {
		got := runLine(env, "inspect "+args)
		wantText(t, got, exitDone, `  state      live`, `the callers use \(burst=\), for example\n`)
		for _, never := range []string{"remaining", "permits left", "would be granted"} {
			if strings.Contains(got.stdout, never) {
				t.Errorf("%s: no burst was given, but it says %q:\n%s", args, never, got.stdout)
			}
		}
	}
	wantText(t, runLine(env, "inspect try demo window=100s burst=3"), exitDone, `remaining +0\n`, "0 of 3 permits left")
}

// TestServerInspectTokenBucketConfigRefused tests a user who may read the permits of a token_bucket and not its config.
func TestServerInspectTokenBucketConfigRefused(t *testing.T) {
	rdb, _ := inspected(t)
	must(t, rdb.ACLSetUser(background, "ada", "on", ">pw", "~sluice:try:{demo}:tb1:*", "+@all").Err())
	wantUnknown(t, sluiceRun(nil, "inspect", "--redis=redis://ada:pw@"+rdb.Options().Addr, "sluice:try:{demo}:tb1"),
		"rate       not known: NOPERM", "2 stored")
	must(t, rdb.Del(background, "sluice:try:{demo}:tb1:all").Err())
	got := sluiceRun(nil, "inspect", "--redis=redis://ada:pw@"+rdb.Options().Addr, "sluice:try:{demo}:tb1")
	wantUnknown(t, got, "NOPERM")
}

// TestServerInspectBudget is of a ring with the ids of a budget beside it: they are counted, and reset removes them.
func TestServerInspectBudget(t *testing.T) {
	rdb, env := started(t)
	for _, line := range []string{
		"load slice_ring",
		"try budget slice=1s ttl=1h slices=61 limit=100 permits=20 --times 3",
		"try budget slice=1s ttl=1h slices=61 limit=100 permits=20 id=req-81",
		"try budget_settle slice=1s ttl=1h size=61 permits=35 id=req-81",
	} {
		wantText(t, runLine(env, line), exitDone)
	}
	wantText(t, runLine(env, "inspect try demo slice=1s slices=61 limit=100"), exitDone,
		`:sr1:1000000\n  state      live`, `  script     slice_ring_v1\n`, `  permits    95 in the ring\n`,
		`  remaining    5\n`,
		"note: 4 ids of a budget are stored\n")
	wantText(t, runLine(env, "reset try demo"), exitDone, `bg1:1000000:req-81 \(budget_v1\)`, "removed 5 keys")
	if left := rdb.DBSize(background).Val(); left != 0 {
		t.Errorf("%d keys are left", left)
	}
}
