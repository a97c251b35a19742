package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

func TestServerReset(t *testing.T) {
	rdb, env := inspected(t)
	_, err := loader.New(rdb).Budget("try", []loader.Limit{loader.PerMinute(9)}).Reserve(background, "demo", "req-81", 1)
	must(t, err)
	others := "shop:try:{demo}:ll1 sluice:try2:{demo}:ll1 sluice:try:{demo2}:ll1"
	for _, key := range strings.Fields(others) {
		must(t, rdb.RPush(background, key, "1").Err())
	}
	before := keysIn(t, rdb)
	wantText(t, runLine(env, "reset --dry-run try demo"), exitDone, `^sluice:try:\{demo\}:\* on `,
		`  would go  sluice:try:\{demo\}:ll1 \(list_log_v1\)\n`, `:bg1:req-81 \(budget_v1\)`,
		`  stays     sluice:try:\{demo\}:tb1: the rate; --config`, `would remove \d keys\n$`)
	wantKeys(t, rdb, before)
	got := runLine(env, "reset try demo")
	wantText(t, got, exitDone, `  removed   sluice:try:\{demo\}:tb1:all \(token_bucket_v1\)\n`, `removed \d keys\n$`)
	wantNarrow(t, "reset", got.stdout)
	wantKeys(t, rdb, others+" sluice:try:{demo}:tb1")
	wantText(t, runLine(env, "reset --config try demo"), exitDone, `removed   sluice:try:\{demo\}:tb1 \(`)
	wantKeys(t, rdb, others)
	wantText(t, runLine(env, "reset try demo --prefix shop"), exitDone, `removed   shop:try:\{demo\}:ll1 `)

	for _, key := range []string{"ll1", "new9"} {
		must(t, rdb.Set(background, "sluice:try:{demo}:"+key, "foreign", 0).Err())
	}
	wantUnknown(t, runLine(env, "reset try demo"), `  removed   sluice:try:\{demo\}:ll1`,
		`  unknown   sluice:try:\{demo\}:new9: no known script`, "it is not known what 1 key is")
	must(t, rdb.FlushDB(background).Err())
	for _, subject := range []string{"*", "a*b", "a?b", `a\b`, "[ab]", "{x}", "a%b"} { // none is a pattern
		grants(t, rdb, "try", subject)
		grants(t, rdb, "try", "demo")
		wantText(t, sluiceRun(env, "reset", "try", subject), exitDone, "removed 1 key\n$")
		wantKeys(t, rdb, "sluice:try:{demo}:ll1")
	}
	wantText(t, sluiceRun(env, "reset", "*", "demo"), exitUsage)
	wantKeys(t, rdb, "sluice:try:{demo}:ll1")
}

// helpRules are the rules that a help text says a user needs.
func helpRules(t *testing.T, usage string) []string {
	t.Helper()
	found := regexp.MustCompile(`(?s)ACL SETUSER night (on .*?)\n\n`).FindStringSubmatch(usage)
	if found == nil {
		t.Fatal("no ACL SETUSER in the help")
	}
	return append([]string{"reset"}, strings.Fields(found[1])...)
}

// TestServerResetRights takes the rights that the help names away one by one.
func TestServerResetRights(t *testing.T) {
	rdb, _ := inspected(t)
	all := keysIn(t, rdb)
	line := "reset --redis=redis://night:secret@" + rdb.Options().Addr + " try demo"
	for _, test := range []struct{ rules, says string }{
		{"-unlink", "not removed: 6 keys under .*NOPERM(.|\n)*cure: grant this user"},
		{"-exists -unlink", "not known whether more .*exists"},
		{"resetkeys ~*:none-*", "not removed: 6 keys"},
	} {
		rules := append(helpRules(t, usageOf("reset")), strings.Fields(test.rules)...)
		must(t, rdb.ACLSetUser(background, "night", rules...).Err())
		wantUnknown(t, runLine(nil, line), "NOPERM", test.says)
		wantKeys(t, rdb, all)
	}
	rules := helpRules(t, usageOf("reset"))
	must(t, rdb.ACLSetUser(background, "night", append(rules, "-scan")...).Err())
	wantUnknown(t, runLine(nil, line), "removed 5 keys\n", "not known whether more is stored: .*NOPERM.*'scan'")
	wantKeys(t, rdb, "sluice:try:{demo}:sr1:1000000x61 sluice:try:{demo}:tb1") // what only a scan finds, and the rate
	must(t, rdb.ACLSetUser(background, "night", rules...).Err())
	wantText(t, runLine(nil, line+" --config"), exitDone, "removed 2 keys\n$")
	wantKeys(t, rdb, "")
}

// resetReply answers what a reset asks, with three keys that a scan finds.
func resetReply(unlink func(key string) string) func([]string) string {
	return func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "hello":
			return "-ERR no\r\n"
		case "time":
			return "*2\r\n" + bulk("1") + bulk("1")
		case "scan":
			return "*2\r\n" + bulk("0") + "*3\r\n" +
				bulk("sluice:a:{b}:gcra1") + bulk("sluice:a:{b}:ll1") + bulk("sluice:a:{b}:zl1")
		case "unlink":
			return unlink(args[1])
		}
		return ":0\r\n"
	}
}

// TestResetClaimsNothing tests servers that lose replies or refuse, keys that have gone before, and an interruption.
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
	addr = fakeServer(t, resetReply(func(string) string { return "-READONLY not now\r\n" }))
	wantUnknown(t, sluiceRun(nil, "reset", "--redis", addr, "a", "b"), "not removed: 3 keys .*READONLY not now")

	ctx, cancel := context.WithCancel(background)
	defer cancel()
	addr = fakeServer(t, resetReply(func(string) string { cancel(); return ":1\r\n" }))
	wantText(t, runUnder(ctx, nil, "reset", "--redis", addr, "a", "b"), exitInterrupted, "more key")
}

func TestServerSetRate(t *testing.T) {
	rdb, env := started(t)
	const key = "sluice:sms:{acme}:tb1"
	got := runLine(env, "set-rate --new sms acme 5/1m30s")
	wantText(t, got, exitDone, `^key sluice:sms:\{acme\}:tb1 on \S+\nbefore: no rate was stored: check`,
		`\nin force: 5 in 1m30s, all clients together\n`, "this is the rate of acme alone")
	wantNarrow(t, "set-rate", got.stdout)
	if ttl := rdb.TTL(background, key).Val(); ttl != -1 {
		t.Errorf("it expires in %v", ttl)
	}
	d, err := loader.New(rdb).TokenBucket("sms", loader.PerMinute(2)).AllowN(background, "acme", 2)
	if must(t, err); d.Remaining != 3 {
		t.Errorf("%+v, want 5 in all", d)
	}
	wantText(t, runLine(env, "set-rate --per-client sms acme 2/7d"), exitDone,
		"before: 5 in 1m30s, all clients together\nin force: 2 in 168h, each client by itself")
	wantText(t, runLine(env, "set-rate sms acme 0/1s"), exitFailed, "BADARG rate: want 1")
	must(t, rdb.HSet(background, key, "rate", "many").Err())
	wantText(t, runLine(env, "set-rate sms acme 3/1s"), exitDone, "before: the stored rate was damaged\n", "in force")
	must(t, rdb.Set(background, key, "x", 0).Err())
	wantText(t, runLine(env, "set-rate sms acme 3/1s"), exitFailed, "WRONGTYPE")
	wantText(t, runLine(env, "set-rate --new sms a{b 3/1s --prefix shop"), exitDone, `key shop:sms:\{a%7Bb\}:tb1 on`)
}

// TestServerSetRateOtherScript refuses a limiter that is no token_bucket, also for subjects without state and beside a
// rate that was written before. reset removes such a rate.
func TestServerSetRateOtherScript(t *testing.T) {
	rdb, env := started(t)
	limits := loader.New(rdb)
	ring := limits.SliceRing("login", []loader.Limit{loader.PerMinute(3)})
	_, err := ring.Allow(background, "ada")
	must(t, err)
	const refused = `limiter login is one of slice_ring: only a token_bucket .* nothing was written\ncure: give the`
	for _, subject := range []string{"ada", "bob"} {
		wantText(t, runLine(env, "set-rate login "+subject+" 50/1m"), exitFailed, refused)
	}
	wantKeys(t, rdb, "sluice:login:{ada}:sr1:300000x201")
	for _, subject := range []string{"ada", "eve"} {
		must(t, rdb.HSet(background, "sluice:login:{"+subject+"}:tb1", "rate", 50, "interval", 60_000_000, "scope", 0).Err())
	}
	for _, subject := range []string{"ada", "bob"} {
		wantText(t, runLine(env, "set-rate login "+subject+" 50/1m"), exitFailed, refused)
	}
	wantText(t, runLine(env, "set-rate other ada 50/1m"), exitFailed, `no permits of a token_bucket (.|\n)*wants --new`)
	wantText(t, runLine(env, "inspect login ada"), exitDone, "config: the rate")
	wantText(t, runLine(env, "reset login ada"), exitDone, "removed 2 keys\n$")
	_, err = ring.Allow(background, "ada")
	must(t, err)
	_, err = limits.TokenBucket("login", loader.PerMinute(3)).Allow(background, "dan") // one that moves to another script
	must(t, err)
	wantText(t, runLine(env, "set-rate login ada 50/1m"), exitFailed, refused)
	wantText(t, runLine(env, "set-rate login bob 50/1m"), exitDone, "in force: 50 in 1m")
}

// TestServerSetRateRights takes the rights that the help names away one by one.
func TestServerSetRateRights(t *testing.T) {
	rdb, _ := started(t)
	line := "set-rate --new --redis=redis://night:secret@" + rdb.Options().Addr + " sms acme 5/1m"
	rules := helpRules(t, usageOf("set-rate"))
	for _, refused := range []string{"script|load", "evalsha", "hmget", "exists", "scan", "time", "hset",
		"persist"} {
		must(t, rdb.ACLSetUser(background, "night", append(rules[:len(rules):len(rules)], "-"+refused)...).Err())
		wantText(t, runLine(nil, line), exitFailed, "NOPERM|The user executing the script can't run",
			"cure: (run sluice load|grant this user)")
		wantKeys(t, rdb, "")
	}
	must(t, rdb.ScriptFlush(background).Err())
	must(t, rdb.ACLSetUser(background, "night", rules...).Err())
	wantText(t, runLine(nil, line), exitDone, "in force: 5 in 1m") // it loads the script
}

// TestSetRateLostReply tests a reply that does not come: what was sent may have been done.
func TestSetRateLostReply(t *testing.T) {
	addr := fakeServer(t, func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "hello":
			return "-ERR no\r\n"
		case "time":
			return "*2\r\n" + bulk("1795324372") + bulk("107710")
		case "hmget":
			return "*3\r\n$-1\r\n$-1\r\n$-1\r\n"
		case "exists", "dbsize":
			return ":0\r\n"
		case "scan":
			return "*2\r\n" + bulk("0") + "*0\r\n"
		}
		return "garbage\r\n"
	})
	got := sluiceRun(nil, "set-rate", "--new", "--redis", addr, "sms", "acme", "5/1m")
	wantText(t, got, exitFailed, "may or may not be set", "cure: it is safe to run the same command again")
	if strings.Contains(got.stdout, "in force") {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}

// TestServerClusterWrites removes and sets in a cluster, as the users that the help names.
func TestServerClusterWrites(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 0)
	all := strings.Join(addrsOf(nodes), ",")
	var rdb redis.UniversalClient = inCluster(t, addrsOf(nodes)...)
	for _, node := range nodes {
		for _, command := range []string{"reset", "set-rate"} {
			rules := append(helpRules(t, usageOf(command))[1:], "+cluster|slots")
			must(t, node.Client(t).ACLSetUser(background, "night", rules...).Err())
		}
	}
	as := " --cluster=night:secret@" + all
	for addr, subject := range ownersIn(t, func(subject string) outcome {
		return runLine(nil, "reset --cluster="+all+" try "+subject)
	}) {
		sluiceDone(t, nil, "set-rate --new try "+subject+" 3/1s"+as)
		grants(t, rdb, "try", subject)
		wantText(t, runLine(nil, "reset --config try "+subject+as), exitDone, "on "+addr, "removed 2 keys\n$")
	}
}
