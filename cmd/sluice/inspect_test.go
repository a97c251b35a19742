package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

func TestServerInspect(t *testing.T) {
	rdb, env := inspected(t)
	dirty := parseInfo(rdb.Info(background).Val())
	all := runLine(env, "inspect try demo --limit 3/1m --burst 3")
	wantText(t, all, exitDone,
		`sluice:try:\{demo\}:gcra1\n  state      live: all permits are free again in (3\d\.\d+|40)s`,
		`  limit      3, as of the newest grant\n  written    20.* ago\n`,
		`:ll1\n  state      live: permits are in use\n  script     list_log_v1\n  limiter    try\n  subject    demo\n  node `,
		`  window     1m, as given\n  permits    2 live, of 2 stored\n  newest     20.* ago\n  memory     \d+ bytes\n`,
		`  now        a permit is granted now\n  remaining  1\n  full again (5\d|1m)`,
		`  window     1m1s, 61 slices of 1s\n`, `  now        a permit in this window is granted now\n`,
		`  rate       3 in 1m, all clients together\n`, `  left       not known: .* add it, as --limit 20\n`,
	)
	wantNarrow(t, "inspect", all.stdout)
	if n := strings.Count(all.stdout, "  remaining  1\n"); n != 5 {
		t.Errorf("%d scripts were asked, want 5:\n%s", n, all.stdout)
	}
	for _, code := range []string{"ll1", "zl1"} {
		wantText(t, sluiceRun(env, "inspect", "sluice:try:{demo}:"+code), exitDone,
			`  window     1m, from the TTL\n  permits    2 live, of 2 stored`, `add it, as --limit 3/1m\n`)
	}
	for args, want := range map[string]string{
		"gcra1":            "as --limit 10/1s --burst 20", // the burst may differ from the limit
		"sr1:1000000x61":   "add it, as --limit N/1m\n",
		"tb1:all":          "remaining  1\n",
		"ll1 --limit 2/1m": "limit      2/1m, as given: .*\n  now        refused: the next permit comes free (5\\d|1m)",
		"cc1 --limit 1":    `1 slot is held\n(.|\n)*holder .*, for (5\d|1m)(.|\n)*limit      1, as (.|\n)*: the next slot`,
		"sr1:1000000x61 --limit 2/1m --limit 9/1h": "limit      2/1m, as (.|\n)*now        refused: the next permit in",
	} {
		wantText(t, runLine(env, "inspect sluice:try:{demo}:"+args), exitDone, want)
	}
	const granted = "(.|\n)*now        not known; if this is the limit, a permit is granted now"
	for args, want := range map[string]string{ // limits that are not those of the grants
		"ll1 --limit 9/10s":            "doubt      the newest permit is kept for 1m, by the TTL" + granted,
		"zl1 --limit 9/1h":             "doubt      the newest permit is kept for 1m, by the TTL" + granted,
		"gcra1 --limit 9/1m --burst 9": "doubt      the newest grant was made under a limit of 3" + granted,
		"gcra1 --limit 3/2s --burst 9": "doubt      the bucket counts a window of 1m(.|\n)*not known; if",
	} {
		wantText(t, runLine(env, "inspect sluice:try:{demo}:"+args), exitFailed, want)
	}
	wantText(t, runLine(env, "inspect sluice:try:{nobody}:ll1"), exitNothing, "absent: nothing is stored")
	wantText(t, runLine(env, "inspect --json try nobody"), exitNothing, `^\[\]\n$`)
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 --limit 0/1m"), exitFailed, "BADARG limit: want 1")
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 --limit 3"), exitUsage, "does not use .*: want --limit 3/1m")
	wantText(t, runLine(env, "inspect sluice:try:{demo}:sr1:1000000x61 --limit 3/1h"), exitUsage, "want --limit N/1m")

	after := parseInfo(rdb.Info(background).Val())
	for _, name := range []string{"rdb_changes_since_last_save", "number_of_cached_scripts"} {
		if after[name] != dirty[name] {
			t.Errorf("%s was %s, is %s", name, dirty[name], after[name])
		}
	}
	must(t, rdb.ScriptFlush(background).Err())
	wantText(t, runLine(env, "inspect sluice:try:{demo}:ll1 --limit 3/1m"), exitFailed, "cure: run sluice load")
}

func TestServerInspectJSON(t *testing.T) {
	_, env := inspected(t)
	got := runLine(env, "inspect --json sluice:try:{demo}:ll1 --limit 3/1m")
	var views []view
	must(t, json.Unmarshal([]byte(got.stdout), &views))
	v := views[0]
	if v.Live != 2 || v.Window != 60_000_000 || v.State != stateLive || v.Left["remaining"] != 1 || v.TTL < 58_000_000 ||
		v.Now-v.Newest > 2_000_000 {
		t.Errorf("%s", got.stdout)
	}
}

// TestServerInspectFinds has keys whose names hold what only the callers know: clients, IDs of a budget, and
// one that no script here has.
func TestServerInspectFinds(t *testing.T) {
	rdb, env := started(t)
	limits := loader.New(rdb)
	ring := limits.SliceRing("api", []loader.Limit{loader.PerMinute(9), loader.PerHour(20)}, loader.Slice(4*time.Second))
	_, err := ring.AllowN(background, "acme", 2)
	must(t, err)
	for _, who := range []string{"web-1:80", "web-2"} {
		_, err := limits.TokenBucket("api", loader.PerMinute(5), loader.PerClient(), loader.ClientID(who)).
			Allow(background, "acme")
		must(t, err)
	}
	budget := limits.Budget("api", []loader.Limit{loader.PerMinute(9)}, loader.Slice(4*time.Second))
	_, err = budget.Reserve(background, "acme", "req-81", 1)
	must(t, err)
	wantText(t, runLine(env, "inspect api acme --limit 9/1m --limit 20/1h --limit 5/1s"), exitDone,
		`:sr1:4000000x16\n(.|\n)*window     1m4s, 16 slices of 4s\n(.|\n)*remaining  6\n`,
		`:sr1:4000000x901\n(.|\n)*window     1h0m4s, 901 slices of 4s\n(.|\n)*remaining  18\n`,
		"note: no slice_ring of 1s is stored: that window is empty\n",
		`:tb1\n  state      config`, `client     web-1:80\n(.|\n)*rate       5 in 1m, each client by itself\n`,
		`remaining  4\n`, "note: 1 ID of a budget is stored\n")
	wantText(t, runLine(env, "inspect api acme --limit 9/1m"), exitFailed,
		":sr1:4000000x901\n(.|\n)*doubt      no --limit has this window, .*\n  left       not known: .*, as --limit N/1h\n")
	_, err = limits.ListLog("login", loader.PerMinute(3)).Allow(background, "acme")
	must(t, err)
	wantText(t, runLine(env, "inspect acme"), exitDone, `:api:\{acme\}:sr1:4000000x16\n`, `:login:\{acme\}:ll1\n`)
	wantText(t, runLine(env, "inspect nobody"), exitNothing, `^nothing is stored under sluice:\*:\{nobody\}:\* on`)
	wantText(t, runLine(env, "inspect acme --limit 3/1m"), exitUsage, "--limit wants a limiter and a subject")
	must(t, rdb.Set(background, "sluice:api:{acme}:new9", "x", 0).Err())
	wantUnknown(t, runLine(env, "inspect api acme"), `note: this key is not known: sluice:api:\{acme\}:new9`)
	for i := range maxKeys {
		must(t, rdb.Set(background, fmt.Sprintf("sluice:api:{acme}:sr1:%dx1", 1000+i), "x", 0).Err())
	}
	wantUnknown(t, runLine(env, "inspect api acme"), "more keys were found and not looked at")
}

// TestServerInspectStates puts what no grant of the last minute leaves under the keys.
func TestServerInspectStates(t *testing.T) {
	rdb, env := inspected(t)
	now := rdb.Time(background).Val().UnixMicro()
	const minute = 60_000_000
	bucket := func(full int64) string { return layout.GCRA(uint64(full), 0, 7, uint64(now), minute) }
	for _, test := range []struct {
		key    string
		put    []any
		status int
		want   string
	}{
		{"ll1 --limit 3/1m", []any{"rpush", now - 3*minute}, exitDone, "idle: no permits are in use"},
		{"ll1 --limit 3/1m", []any{"rpush", now + minute/2}, exitDone, `live: booked (2\d\.\d+|30)s ahead, or written by`},
		{"ll1 --limit 9/1m", []any{"rpush", now + 4*minute}, exitDone, `remaining  9\n`}, // void: the script decides
		{"ll1 --limit 9/1m", []any{"rpush", now - 2*minute, now - minute/2}, exitDone, "1 live, of 2 stored"},
		{"ll1", []any{"rpush", now - minute}, exitDone, "--limit tells whether they still count"},
		{"ll1", []any{"rpush", "one"}, exitFailed, `damaged: .* BADSTATE: the last entry holds "one"(.|\n)*\ncure: .*UNLINK`},
		{"ll1 --limit 3/1m", []any{"rpush", "1", "one", "two", now}, exitFailed, `damaged: .*BADSTATE: entry \d holds`},
		{"ll1", []any{"set", "one"}, exitFailed, "foreign: .* WRONGTYPE"},
		{"tb1", []any{"hset", "rate", "no"}, exitFailed, "damaged: .*rate, interval and scope"},
		{"sr1:1000000x61", []any{"set", ""}, exitNothing, "absent"},
		{"gcra1", []any{"set", bucket(now - 5)}, exitDone, "idle: the bucket is full"},
		{"qt1 --limit 9", []any{"set", fmt.Sprint(now-minute, " 7"), "px", minute / 1000}, exitDone,
			`live: permits of a period(.|\n)*7 stored(.|\n)*begin .* 1m(0\.\d+s)? ago(.|\n)*remaining  2\n`},
		{"qt1 --limit 9/month", []any{"set", fmt.Sprint(now-minute, " 7"), "px", minute / 1000}, exitDone, `remaining  2\n`},
		{"qt1 --limit 7", []any{"set", fmt.Sprint(now-minute, " 7"), "px", minute / 1000}, exitDone,
			`refused: the next permit comes free (59\.\d+s|1m) from now`},
		{"qt1", []any{"set", fmt.Sprint(now, " 0")}, exitDone, "idle: no permits are in use"},
		{"qt1", []any{"set", "7"}, exitFailed, `damaged: .*it holds "7", want a begin and a count`},
		{"cc1", []any{"zadd", now - 1, "a"}, exitDone, "idle: no slots are held(.|\n)*expires    never\n"},
		{"cc1", []any{"zadd", fmt.Sprint(now+minute, ".5"), "a", now + 2*minute, "b"}, exitFailed, "damaged: .*a lease has"},
		{"cc1", []any{"zadd", 1 << 54, "a"}, exitFailed, "damaged: .*the last lease has the score"},
	} {
		must(t, rdb.FlushDB(background).Err())
		code, flags, _ := strings.Cut(test.key, " ")
		key := "sluice:try:{demo}:" + code
		must(t, rdb.Do(background, append([]any{test.put[0], key}, test.put[1:]...)...).Err())
		wantText(t, runLine(env, "inspect "+key+" "+flags), test.status, test.want)
	}
}

// A ring may be written by a clock that is far ahead.
func TestLength(t *testing.T) {
	for us, want := range map[int64]string{-1_234_000: "-1.23s", 90_400_000: "1m30s", 1 << 54: "more than 292 years"} {
		if got := length(us); got != want {
			t.Errorf("%d us: %s, want %s", us, got, want)
		}
	}
}

// TestServerInspectHuge counts what a million permits take to be shown.
func TestServerInspectHuge(t *testing.T) {
	rdb, env := started(t)
	now := rdb.Time(background).Val().UnixMicro()
	pipe := rdb.Pipeline()
	batch := make([]any, 1000)
	for i := range 1000 {
		for k := range batch {
			batch[k] = now - 30_000_000 + int64(i*1000+k)*25
		}
		pipe.RPush(background, "sluice:try:{demo}:ll1", batch...)
	}
	_, err := pipe.Exec(background)
	must(t, err)
	must(t, rdb.ScriptLoad(background, "return 1").Err())
	must(t, rdb.ConfigResetStat(background).Err())
	got := runLine(env, "inspect sluice:try:{demo}:ll1 --limit 2000000/1m")
	wantText(t, got, exitFailed, "1000000 live, of 1000000 stored")
	calls := 0
	_, _ = fmt.Sscanf(parseInfo(rdb.Info(background, "commandstats").Val())["cmdstat_lindex"], "calls=%d", &calls)
	if calls < 20 || calls > 30 {
		t.Errorf("%d times LINDEX", calls)
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
		for _, what := range []string{"try demo", "sluice:try:{demo}:ll1", "sluice:try:{demo}:tb1"} {
			wantUnknown(t, runLine(nil, "inspect --redis "+addr+" "+what), code+" not now")
		}
	}
}

// TestServerReadyRights takes a command from a user who has too few rights to one who has enough by the line printed.
func TestServerReadyRights(t *testing.T) {
	rdb, _ := inspected(t)
	url := "--redis=redis://ada:pw@" + rdb.Options().Addr
	for _, rules := range []string{"%R~sluice:*", "%R~sluice:* +@read +@keyspace -scan", "+scan +exists",
		"%R~sluice:* +scan +exists", "%R~sluice:* +@read -llen", "%R~sluice:* +@read -zcount", "%R~sluice:* +@read -hmget"} {
		for command, args := range map[string]string{"inspect": "try demo --limit 3/1m --burst 3", "top": "", "verify": ""} {
			must(t, rdb.ACLSetUser(background, "ada", append([]string{"reset", "on", ">pw"},
				strings.Fields(rules)...)...).Err())
			line := command + " " + url + " " + args
			got := runLine(nil, line)
			_, rest, found := strings.Cut(got.stdout+got.stderr, "cure: ACL SETUSER <name> ")
			if got.status == exitDone {
				continue
			}
			if !found {
				t.Errorf("%s with %s: no line\n%s%s", command, rules, got.stdout, got.stderr)
				continue
			}
			cure, _, _ := strings.Cut(rest, "\n")
			must(t, rdb.ACLSetUser(background, "ada", strings.Fields(cure)...).Err())
			must(t, rdb.Do(background, "acl", "log", "reset").Err())
			wantText(t, runLine(nil, line), exitDone)
			wantNoRefusals(t, rdb)
		}
	}
}

// TestServerInspectRefusedCommands tests users who may not do one of the things that are needed.
func TestServerInspectRefusedCommands(t *testing.T) {
	rdb, _ := inspected(t)
	line := "inspect --redis=redis://ada:pw@" + rdb.Options().Addr + " try demo --limit 3/1m"
	for _, refused := range []string{"time", "llen", "lindex", "zcount", "zrange", "hmget", "exists", "getrange -get",
		"scan", "evalsha_ro"} {
		must(t, rdb.ACLSetUser(background, "ada", append([]string{"reset", "on", ">pw", "~*", "+@all"},
			strings.Fields("-"+refused)...)...).Err())
		wantUnknown(t, runLine(nil, line), "NOPERM", "cure: ACL SETUSER <name> %R~sluice:")
	}
	must(t, rdb.ACLSetUser(background, "ada", "reset", "on", ">pw", "~sluice:try:{demo}:tb1:*", "+@all").Err())
	wantUnknown(t, runLine(nil, strings.Replace(line, "try demo --limit 3/1m", "sluice:try:{demo}:tb1:all", 1)), "NOPERM")
}

// TestServerInspectCluster has a subject on each master; one moves a slot, and one is dead.
func TestServerInspectCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 0)
	all := "--cluster=" + strings.Join(addrsOf(nodes), ",")
	ask := func(subject string) outcome { return runLine(nil, "inspect "+all+" try "+subject) }
	owners := ownersIn(t, ask)
	subject, moving := owners[nodes[1].Addr], owners[nodes[2].Addr]
	for _, one := range owners {
		grants(t, inCluster(t, addrsOf(nodes)...), "try", one)
		wantText(t, ask(one), exitDone, "1 live, of 1 stored")
	}
	wantText(t, runLine(nil, "inspect --redis "+nodes[0].Addr+" try "+subject), exitFailed,
		"cure: the server is a node of a cluster")
	slot := moveSlot(t, moving, nodes[2], nodes[0])
	wantUnknown(t, ask(moving), "ASK "+slot+" "+nodes[0].Addr)
	nodes[1].Kill()
	wantUnknown(t, ask(subject), nodes[1].Addr)
}

// ownersIn is a subject of each of three nodes, by "nothing is stored under ... on <server>".
func ownersIn(t *testing.T, ask func(subject string) outcome) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for i := 0; len(owners) < 3; i++ {
		subject := fmt.Sprint("s", i)
		got := ask(subject)
		wantText(t, got, exitNothing, "^nothing is stored under ")
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

// TestServerInspectOld has a server without EVALSHA_RO and PEXPIRETIME, which came with Redis 7.
func TestServerInspectOld(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "EVALSHA_RO", "", "--rename-command", "PEXPIRETIME", "")
	rdb := server.Client(t)
	must(t, loader.New(rdb).Preload(background))
	grants(t, rdb, "try", "demo")
	wantText(t, runLine(nil, "inspect try demo --redis "+server.Addr), exitDone, "permits    1 stored\n")
	wantText(t, runLine(nil, "inspect try demo --limit 9/1m --redis "+server.Addr), exitDone, "remaining  8\n")
}
