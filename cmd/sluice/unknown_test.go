package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

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

// TestServerInspectRefusedConnection is of connections that the server refuses in various ways.
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

// TestInspectBusyServer is of servers that answer everything, or everything but the handshake, with an error.
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

// TestServerInspectRefusedCommands is of users who may do some of what is needed.
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

// TestServerInspectFindsRings is of keys whose names hold what only the callers know.
func TestServerInspectFindsRings(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	env := []string{"SLUICE_REDIS=" + rdb.Options().Addr}
	wantText(t, sluiceRun(env, strings.Fields("try slice_ring slice=1s slices=61 limit=1000 permits=602")...), exitDone)
	got := sluiceRun(env, "inspect", "try", "demo")
	wantText(t, got, exitDone, `^sluice:try:\{demo\}:sr1:1000000\n  state      live`, `  permits    602 in the ring\n`)

	leased := loader.New(rdb).SliceRing("try", []loader.Limit{loader.PerMinute(9)}, loader.Slice(time.Second),
		loader.LeaseAge(time.Second))
	_, err := leased.AllowN(background, "demo", 2)
	must(t, err)
	for _, args := range []string{"", "slice=1s", "slice=1m", "slice=1s lease_age=1s", "slice=1m slices=61 limit=1000"} {
		got := sluiceRun(env, append([]string{"inspect", "try", "demo"}, strings.Fields(args)...)...)
		wantText(t, got, exitDone, `602 in the ring`, `:sr1:1000000:1000000\n`, `2 in the ring`)
		if strings.Count(got.stdout, "in the ring") != 2 || strings.Contains(got.stdout, "BADSTATE") {
			t.Errorf("%s: want each ring once:\n%s", args, got.stdout)
		}
	}
	wantUnknown(t, sluiceRun(env, "inspect", "--no-scan", "try", "demo"), "not known whether", "slice=")
	wantText(t, sluiceRun(env, "inspect", "--no-scan", "try", "demo", "slice=1s"), exitDone, "602 in the ring",
		"note: .*--no-scan")

	for _, subject := range []string{"a*b", "a?b", "[ab]", `a\b`, "*", "{x}", "a%b", "", "demo2"} {
		if subject != "" && subject != "demo2" {
			got := sluiceRun(env, "try", "slice_ring", "slice=2s", "slices=61", "limit=9", "subject="+subject)
			wantText(t, got, exitDone)
			got = sluiceRun(env, "inspect", "try", subject)
			wantText(t, got, exitDone, ":sr1:2000000\n")
			if strings.Count(got.stdout, "  state ") != 1 {
				t.Errorf("%q finds others, too:\n%s", subject, got.stdout)
			}
		}
	}
	wantText(t, sluiceRun(env, "inspect", "try", "demo2"), exitDone,
		`^nothing is stored under sluice:try:\{demo2\}:\* on `)
}

// TestServerInspectFindsOthers is of permits whose config is gone, of clients, and of keys that no script here has.
func TestServerInspectFindsOthers(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	env := []string{"SLUICE_REDIS=" + rdb.Options().Addr}
	for _, who := range []string{"web-1", "web-2"} {
		wantText(t, sluiceRun(env, "try", "token_bucket", "rate=5", "interval=1m", "scope=1", "client="+who), exitDone)
	}
	wantText(t, sluiceRun(env, "inspect", "try", "demo"), exitDone, "config: ",
		"note: 2 clients have their own permits: client=")
	wantText(t, sluiceRun(env, "try", "token_bucket_set", "rate=5", "interval=1m", "subject=ada"), exitDone)
	wantText(t, sluiceRun(env, "inspect", "try", "ada"), exitDone, "rate       5 in 60 s", "absent: ")
	must(t, rdb.Del(background, "sluice:try:{demo}:tb1").Err())
	wantText(t, sluiceRun(env, "inspect", "try", "demo"), exitDone, `:tb1:by:web-1\n`, `:tb1:by:web-2\n`)
	must(t, rdb.Del(background, "sluice:try:{demo}:tb1:by:web-1", "sluice:try:{demo}:tb1:by:web-2").Err())
	must(t, rdb.Set(background, "sluice:try:{demo}:new9", "x", 0).Err())
	wantUnknown(t, sluiceRun(env, "inspect", "try", "demo"), `sluice:try:\{demo\}:new9`, "not known")
	must(t, rdb.Del(background, "sluice:try:{demo}:new9").Err())
	for i := range 40 {
		must(t, rdb.Set(background, fmt.Sprintf("sluice:try:{demo}:sr1:%d", 1000+i), "x", 0).Err())
	}
	wantUnknown(t, sluiceRun(env, "inspect", "try", "demo"), "20 more keys")
}

// TestServerInspectClusterUnknown is of a cluster in which not all answer who may hold a subject.
func TestServerInspectClusterUnknown(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	asking := func(subject string) outcome {
		return sluiceRun(nil, "inspect", "--cluster", nodes[0].Addr+","+nodes[1].Addr+","+nodes[2].Addr, "try", subject)
	}
	owners := map[string]string{} // a subject of each node
	for i := 0; len(owners) < 3; i++ {
		subject := fmt.Sprint("s", i)
		got := asking(subject)
		wantText(t, got, exitDone, "^nothing is stored under ")
		owners[serverIn(got.stdout)] = subject
	}
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
	slot := nodes[0].Client(t).ClusterKeySlot(background, "{"+other+"}").Val()
	ids := map[int]string{}
	for i := range nodes {
		ids[i] = fmt.Sprint(nodes[i].Client(t).Do(background, "cluster", "myid").Val())
	}
	must(t, nodes[0].Client(t).Do(background, "cluster", "setslot", slot, "importing", ids[2]).Err())
	must(t, nodes[2].Client(t).Do(background, "cluster", "setslot", slot, "migrating", ids[0]).Err())
	wantUnknown(t, asking(other), "ASK "+fmt.Sprint(slot)+" "+nodes[0].Addr)

	nodes[1].Kill()
	wantUnknown(t, asking(subject), nodes[1].Addr)
	wantText(t, asking(owners[nodes[0].Addr]), exitDone, "^nothing is stored under ")
}

// TestNoNodes is of a server that says of its cluster, or of a master, that it has no nodes.
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

// TestServerInspectBurst is of a gcra whose burst is not its limit. Its state does not tell the burst.
func TestServerInspectBurst(t *testing.T) {
	env := []string{"SLUICE_REDIS=" + redistest.Start(t).Addr}
	wantText(t, sluiceRun(env, strings.Fields("try gcra limit=10 window=100s burst=3 permits=3")...), exitDone,
		`remaining +0\n`)
	for _, args := range []string{"try demo window=100s", "sluice:try:{demo}:gcra1 window=100s",
		"sluice:try:{demo}:gcra1 window=100s limit=10"} {
		got := sluiceRun(env, append([]string{"inspect"}, strings.Fields(args)...)...)
		wantText(t, got, exitDone, `  state      live`,
			`the callers use \(burst=\), for example\n`)
		for _, never := range []string{"remaining", "permits left", "would be granted"} {
			if strings.Contains(got.stdout, never) {
				t.Errorf("%s: nobody has said the burst, and yet %q:\n%s", args, never, got.stdout)
			}
		}
	}
	wantText(t, sluiceRun(env, strings.Fields("inspect try demo window=100s burst=3")...), exitDone, `remaining +0\n`,
		"0 of 3 permits left")
}

// TestServerInspectTokenBucketConfigRefused is of a user who may read the permits of a token_bucket and not its config.
func TestServerInspectTokenBucketConfigRefused(t *testing.T) {
	rdb, _ := inspected(t)
	must(t, rdb.ACLSetUser(background, "ada", "on", ">pw", "~sluice:try:{demo}:tb1:*", "+@all").Err())
	got := sluiceRun(nil, "inspect", "--redis=redis://ada:pw@"+rdb.Options().Addr, "sluice:try:{demo}:tb1")
	wantUnknown(t, got, "rate       not known: NOPERM", "2 stored")
	must(t, rdb.Del(background, "sluice:try:{demo}:tb1:all").Err())
	got = sluiceRun(nil, "inspect", "--redis=redis://ada:pw@"+rdb.Options().Addr, "sluice:try:{demo}:tb1")
	wantUnknown(t, got, "NOPERM")
}
