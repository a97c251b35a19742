package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// keysIn are the keys of a server, sorted.
func keysIn(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	keys, err := rdb.Keys(background, "*").Result()
	must(t, err)
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// wantKeys fails unless a server has these keys and no others.
func wantKeys(t *testing.T, rdb *redis.Client, want string) {
	t.Helper()
	if got := keysIn(t, rdb); got != want {
		t.Errorf("it has %s\nwant %s", got, want)
	}
}

func TestServerReset(t *testing.T) {
	rdb, env := inspected(t)
	other := []string{"sluice:try:{demo2}:ll1", "sluice:try2:{demo}:ll1", "shop:try:{demo}:ll1"}
	for _, key := range other {
		must(t, rdb.RPush(background, key, "1").Err())
	}
	slices.Sort(other)
	others := strings.Join(other, " ")

	before := keysIn(t, rdb)
	wantText(t, runLine(env, "reset --dry-run try demo"), exitDone, `^sluice:try:\{demo\}:\* on `,
		`  would go  sluice:try:\{demo\}:ll1 \(list_log_v1\)\n`,
		`would go  sluice:try:\{demo\}:sr1:1000000 \(slice_ring_v1\)\n`,
		`  stays     sluice:try:\{demo\}:tb1: the rate; --config`, `would remove 6 keys\n$`)
	wantKeys(t, rdb, before)
	wantText(t, runLine(env, "try list_log limit=3 window=1m permits=2"), exitDone, "not granted")

	got := runLine(env, "reset try demo")
	wantText(t, got, exitDone, `  removed   sluice:try:\{demo\}:ll1 \(list_log_v1\)\n`,
		`  removed   sluice:try:\{demo\}:tb1:all \(token_bucket_v1\)\n`, `  stays     sluice:try:\{demo\}:tb1: `,
		`removed 6 keys\n$`)
	wantNarrow(t, "reset", got.stdout)
	wantKeys(t, rdb, others+" sluice:try:{demo}:tb1")
	wantText(t, runLine(env, "try list_log limit=3 window=1m permits=3"), exitDone, "granted: act now")

	wantText(t, runLine(env, "reset --config try demo"), exitDone, `removed   sluice:try:\{demo\}:tb1 \(`,
		`removed 2 keys\n$`)
	wantKeys(t, rdb, others)
	wantText(t, runLine(env, "reset try demo"), exitDone,
		`^nothing is stored under sluice:try:\{demo\}:\* on \S+\nnames are`)
	wantText(t, runLine(env, "reset try demo prefix=shop"), exitDone, `removed   shop:try:\{demo\}:ll1 `)
}

// TestServerResetFindsKeys tests keys that the arguments do not name, and of subjects that are patterns.
func TestServerResetFindsKeys(t *testing.T) {
	rdb, env := started(t)
	leased := loader.New(rdb).SliceRing("try", []loader.Limit{loader.PerMinute(9)}, loader.Slice(time.Second),
		loader.LeaseAge(time.Second))
	_, err := leased.AllowN(background, "demo", 2)
	must(t, err)
	for i := range 40 {
		must(t, sluiceRunErr(env, "try", "token_bucket", "rate=5", "interval=1m", "scope=1", fmt.Sprint("client=web:", i)))
	}
	for _, none := range [][]string{{}, {"slice=1s"}, {"client=web"}} {
		wantUnknown(t, sluiceRun(env, append([]string{"reset", "--no-scan", "--config", "--dry-run", "each", "demo"},
			none...)...), "not known whether more is stored for demo: --no-scan")
	}
	for args, want := range map[string]string{"slice=1s lease_age=1s": "would go  .*:sr1:1000000:1000000 ",
		"client=web:3": "would go  .*:tb1:by:web:3 ", "": "stays     .*:tb1: "} {
		wantText(t, runLine(env, "reset --no-scan --dry-run try demo "+args), exitDone, want,
			"note: there may be more: --no-scan")
	}
	wantText(t, runLine(env, "reset try demo"), exitDone, `removed   .*:tb1:by:web:39 `, "removed 41 keys\n$")
	wantKeys(t, rdb, "sluice:try:{demo}:tb1")

	must(t, rdb.FlushDB(background).Err())
	for _, subject := range []string{"*", "a*b", "a?b", `a\b`, "[ab]", "{x}", "a%b"} {
		must(t, sluiceRunErr(env, "try", "list_log", "limit=3", "window=1m", "subject="+subject))
		must(t, sluiceRunErr(env, "try", "list_log", "limit=3", "window=1m"))
		wantText(t, sluiceRun(env, "reset", "try", subject), exitDone, "removed 1 key\n$")
		wantKeys(t, rdb, "sluice:try:{demo}:ll1")
	}
}

// ownersIn is a subject of each of three nodes, by "nothing is stored under ... on <server>".
func ownersIn(t *testing.T, ask func(subject string) outcome) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for i := 0; len(owners) < 3; i++ {
		subject := fmt.Sprint("s", i)
		got := ask(subject)
		wantText(t, got, exitDone, "^nothing is stored under ")
		line, _, _ := strings.Cut(got.stdout, "\n")
		owners[line[strings.LastIndex(line, " ")+1:]] = subject
	}
	return owners
}

// moveSlot begins to move the slot of a subject and returns it.
func moveSlot(t *testing.T, subject string, from, to *redistest.Server) string {
	t.Helper()
	source, target := from.Client(t), to.Client(t)
	slot := source.ClusterKeySlot(background, "{"+subject+"}").Val()
	sourceID, targetID := source.Do(background, "cluster", "myid").Val(), target.Do(background, "cluster", "myid").Val()
	must(t, target.Do(background, "cluster", "setslot", slot, "importing", sourceID).Err())
	must(t, source.Do(background, "cluster", "setslot", slot, "migrating", targetID).Err())
	return fmt.Sprint(slot)
}

// sluiceRunErr runs the program for what it does; what it says is the error of a failure.
func sluiceRunErr(env []string, args ...string) error {
	if got := sluiceRun(env, args...); got.status != exitDone {
		return fmt.Errorf("%v: status %d\n%s%s", args, got.status, got.stdout, got.stderr)
	}
	return nil
}

// lineErr is sluiceRunErr with a command line.
func lineErr(env []string, line string) error { return sluiceRunErr(env, strings.Fields(line)...) }

// TestServerResetLeavesUnknown tests a key that no script here has.
func TestServerResetLeavesUnknown(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	must(t, rdb.Set(background, "sluice:try:{demo}:new9", "x", 0).Err())
	must(t, rdb.Set(background, "sluice:try:{demo}:ll1", "foreign", 0).Err())
	got := sluiceRun([]string{"SLUICE_REDIS=" + rdb.Options().Addr}, "reset", "try", "demo")
	wantUnknown(t, got, `  removed   sluice:try:\{demo\}:ll1`, `  unknown   sluice:try:\{demo\}:new9: no known script`,
		"removed 1 key\n", "it is not known what 1 key is")
	wantKeys(t, rdb, "sluice:try:{demo}:new9")
}

// helpRules are the rules that a help text says a user needs.
func helpRules(t *testing.T, usage string) []string {
	t.Helper()
	found := regexp.MustCompile(`(?s)ACL SETUSER night (on .*?)\n\n`).FindStringSubmatch(usage)
	if found == nil {
		t.Fatal("no ACL SETUSER in the help")
	}
	return strings.Fields(found[1])
}

// TestServerResetRights takes the rights that the help names away one by one.
func TestServerResetRights(t *testing.T) {
	rdb, env := inspected(t)
	all := keysIn(t, rdb)
	url := "--redis=redis://night:secret@" + rdb.Options().Addr
	set := func(more ...string) {
		t.Helper()
		rules := append([]string{"reset"}, helpRules(t, usageOf("reset"))...)
		must(t, rdb.ACLSetUser(background, "night", append(rules, more...)...).Err())
	}
	set("-unlink")
	wantUnknown(t, sluiceRun(nil, "reset", url, "try", "demo"), `  left      sluice:try:\{demo\}:ll1: NOPERM .*unlink`,
		"removed 0 keys\n", "not removed: 6 keys under .*NOPERM", "cure: grant this user")
	wantText(t, sluiceRun(nil, "reset", url, "--dry-run", "try", "demo"), exitDone, "would remove 6 keys")
	set("-exists")
	wantUnknown(t, sluiceRun(nil, "reset", url, "--dry-run", "try", "demo"), "would remove 6 keys",
		"not known whether more .*exists")
	set("resetkeys", "~other:*")
	wantUnknown(t, sluiceRun(nil, "reset", url, "try", "demo"), "NOPERM", "removed 0 keys")
	wantKeys(t, rdb, all)
	set("resetkeys", "~*:ll1", "~*:gcra1", "~*:none-*")
	wantUnknown(t, sluiceRun(nil, "reset", url, "try", "demo"), `  removed   sluice:try:\{demo\}:ll1 `,
		`  left      sluice:try:\{demo\}:zl1: NOPERM`, "removed 2 keys", "not removed: 4 keys")

	must(t, sluiceRunErr(env, "try", "list_log", "limit=3", "window=1m"))
	set("-scan")
	wantUnknown(t, sluiceRun(nil, "reset", url, "try", "demo"), `removed   sluice:try:\{demo\}:ll1 `, "removed 4 keys",
		"not known whether more is stored for demo: .*NOPERM.*'scan'")
	wantKeys(t, rdb, "sluice:try:{demo}:sr1:1000000 sluice:try:{demo}:tb1")
	wantText(t, sluiceRun(nil, "reset", url, "--no-scan", "try", "demo", "slice=1s"), exitDone, "removed 1 key\n")

	must(t, sluiceRunErr(env, "try", "list_log", "limit=3", "window=1m"))
	set()
	wantText(t, sluiceRun(nil, "reset", url, "--config", "try", "demo"), exitDone, "removed 2 keys\n$")
	wantKeys(t, rdb, "")
}

// resetReply answers what a reset asks, with two keys that a scan finds.
func resetReply(unlink func(key string) string) func([]string) string {
	return func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "hello":
			return "-ERR no\r\n"
		case "scan":
			return "*2\r\n" + bulk("0") + "*3\r\n" +
				bulk("sluice:a:{b}:gcra1") + bulk("sluice:a:{b}:ll1") + bulk("sluice:a:{b}:zl1")
		case "unlink":
			return unlink(args[1])
		}
		return ":0\r\n"
	}
}

// TestResetClaimsNothing tests servers that lose replies, and of keys that have gone before.
func TestResetClaimsNothing(t *testing.T) {
	addr := fakeServer(t, resetReply(func(key string) string {
		if strings.HasSuffix(key, ":gcra1") {
			return ":1\r\n"
		}
		return "garbage\r\n" // go-redis gives the connection up
	}))
	got := sluiceRun(nil, "reset", "--redis", addr, "a", "b")
	wantUnknown(t, got, `  removed   sluice:a:\{b\}:gcra1 `,
		`  unknown   sluice:a:\{b\}:ll1: no reply, so it may have been removed`,
		"  left      1 more key, not tried", "removed 1 key\n", "not removed: 2 keys under ")

	addr = fakeServer(t, resetReply(func(string) string { return ":0\r\n" }))
	wantText(t, sluiceRun(nil, "reset", "--redis", addr, "a", "b"), exitDone,
		`  expired   sluice:a:\{b\}:ll1 \(list_log_v1\), before it could be removed`, "removed 0 keys\n$")
	for _, code := range []string{"LOADING", "MASTERDOWN", "BUSY", "CLUSTERDOWN", "READONLY"} {
		addr := fakeServer(t, resetReply(func(string) string { return "-" + code + " not now\r\n" }))
		wantUnknown(t, sluiceRun(nil, "reset", "--redis", addr, "a", "b"), "not removed: 3 keys .*"+code+" not now")
	}
}

// TestResetInterrupted ends a reset while it removes.
func TestResetInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	addr := fakeServer(t, resetReply(func(string) string { cancel(); return ":1\r\n" }))
	wantText(t, runUnder(ctx, nil, "reset", "--redis", addr, "a", "b"), exitInterrupted, "more key")
}

// TestServerResetCluster tests a cluster, of which one master moves a slot and one is dead.
func TestServerResetCluster(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	all := "--cluster=" + nodes[0].Addr + "," + nodes[1].Addr + "," + nodes[2].Addr
	owners := ownersIn(t, func(subject string) outcome { return sluiceRun(nil, "reset", all, "try", subject) })
	for addr, subject := range owners {
		for _, args := range []string{"slice_ring slice=1s slices=61 limit=9", "list_log limit=3 window=1m"} {
			must(t, sluiceRunErr(nil, append(strings.Fields("try "+args), all, "subject="+subject)...))
		}
		wantText(t, sluiceRun(nil, "reset", all, "--dry-run", "try", subject), exitDone, "on "+addr, "would remove 2 keys")
		wantText(t, sluiceRun(nil, "reset", all, "try", subject), exitDone, "on "+addr, "removed 2 keys\n$")
		wantText(t, sluiceRun(nil, "set-rate", "--force", all, "try", subject, "rate=3", "interval=1s"), exitDone,
			"in force: 3 in 1 s")
		other := owners[nodes[1].Addr] + "-other" // the search finds the limiter on whichever master has it
		must(t, sluiceRunErr(nil, "set-rate", all, "try", other, "rate=3", "interval=1s"))
		must(t, sluiceRunErr(nil, "reset", all, "--config", "try", other))
		wantText(t, sluiceRun(nil, "reset", all, "--config", "try", subject), exitDone, ":tb1 ", "removed 1 key\n$")
	}
	for _, node := range nodes {
		for _, usage := range []string{usageOf("reset"), usageOf("set-rate")} {
			rules := append(helpRules(t, usage), "+cluster|slots")
			must(t, node.Client(t).ACLSetUser(background, "night", rules...).Err())
		}
	}
	for _, subject := range owners {
		as := "--cluster=night:secret@" + strings.TrimPrefix(all, "--cluster=")
		must(t, sluiceRunErr(nil, "set-rate", "--force", as, "try", subject, "rate=3", "interval=1s"))
		wantText(t, sluiceRun(nil, "reset", as, "--config", "try", subject), exitDone, "removed 1 key\n$")
	}
	subject := owners[nodes[2].Addr]
	must(t, sluiceRunErr(nil, strings.Fields("try list_log limit=3 window=1m "+all+" subject="+subject)...))
	wantUnknown(t, sluiceRun(nil, "reset", "--redis", nodes[0].Addr, "try", subject), "MOVED",
		"cure: the server is a node")
	slot := moveSlot(t, subject, nodes[2], nodes[0])
	wantUnknown(t, sluiceRun(nil, "reset", all, "try", subject), "removed 1 key\n", "ASK "+slot)

	nodes[1].Kill()
	wantUnknown(t, sluiceRun(nil, "reset", all, "try", owners[nodes[1].Addr]), nodes[1].Addr)
}

func TestServerSetRate(t *testing.T) {
	rdb, env := started(t)
	const key = "sluice:sms:{acme}:tb1"
	set := func(args string) outcome {
		return runLine(env, "set-rate --force sms acme "+args)
	}
	take := strings.Fields("try token_bucket limiter=sms subject=acme rate=2 interval=1m permits=2")

	got := set("rate=5 interval=1m30s")
	wantText(t, got, exitDone,
		`^token_bucket_set_v1 on redis://\S+\nkey sluice:sms:\{acme\}:tb1\nbefore: no rate was stored: check`,
		`\nin force: 5 in 90 s, all clients together\n`, `  rate +5\n  interval +90 s \(90000000 us\)\n  scope +0\n`)
	wantNarrow(t, "set-rate", got.stdout)
	if ttl := rdb.TTL(background, key).Val(); ttl != -1 {
		t.Errorf("it expires in %v", ttl)
	}
	wantText(t, sluiceRun(env, take...), exitDone, `remaining +3\n`)
	wantText(t, set("rate=2 interval=1m scope=1"), exitDone, "before: 5 in 90 s, all clients together\n",
		"in force: 2 in 60 s, each client by itself")
	wantText(t, set("rate=9 interval=1s"), exitDone, "in force: 9 in 1 s, each client by itself")
	wantText(t, set("rate=0 interval=1s"), exitFailed, "bad rate: want 1", "rate: permits in any interval")
	wantText(t, set("rate=9 interval=10us"), exitFailed, "bad interval: ")

	must(t, rdb.HSet(background, key, "rate", "many").Err())
	wantText(t, set("rate=3 interval=1s"), exitFailed, "the stored rate is damaged .*: want scope=0 or scope=1 too")
	wantText(t, set("rate=3 interval=1s scope=0"), exitDone, "before: the stored rate was damaged\n",
		"in force: 3 in 1 s, all")
	must(t, rdb.Del(background, key).Err())
	must(t, rdb.Set(background, key, "x", 0).Err())
	wantText(t, set("rate=3 interval=1s"), exitFailed, "WRONGTYPE")
	wantText(t, runLine(env, "set-rate --force sms a{b rate=3 interval=1s prefix=shop"), exitDone,
		`key shop:sms:\{a%7Bb\}:tb1\n`)
}

// TestServerSetRateRights takes the rights that the help names away one by one.
func TestServerSetRateRights(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	url := "--redis=redis://night:secret@" + rdb.Options().Addr
	args := []string{"set-rate", "--force", url, "sms", "acme", "rate=5", "interval=1m"}
	rules := append([]string{"reset"}, helpRules(t, usageOf("set-rate"))...)
	for _, refused := range []string{"script|load", "evalsha", "hmget", "hset", "persist"} {
		must(t, rdb.ACLSetUser(background, "night", append(rules[:len(rules):len(rules)], "-"+refused)...).Err())
		want := "NOPERM|The user executing the script can't run"
		wantText(t, sluiceRun(nil, args...), exitFailed, want, "cure: (run sluice load|grant this user)")
		if refused == "script|load" {
			must(t, rdb.ACLSetUser(background, "night", rules...).Err())
			wantText(t, sluiceRun(nil, args...), exitDone, "in force: 5 in 60 s") // it loads the script
			must(t, rdb.Del(background, "sluice:sms:{acme}:tb1").Err())
		}
		wantKeys(t, rdb, "")
	}
}

// TestSetRateLostReply tests a reply that does not come: what was sent may have been done.
func TestSetRateLostReply(t *testing.T) {
	addr := fakeServer(t, func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "hello":
			return "-ERR no\r\n"
		case "hmget":
			return "*3\r\n$-1\r\n$-1\r\n$-1\r\n"
		}
		return "garbage\r\n"
	})
	got := sluiceRun(nil, "set-rate", "--force", "--redis", addr, "sms", "acme", "rate=5", "interval=1m")
	wantText(t, got, exitFailed, "outcome unknown|no reply",
		"cure: the rate may or may not be set; it is safe to run the same command again")
	if strings.Contains(got.stdout, "in force") || strings.Contains(got.stderr, "charged") {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}
