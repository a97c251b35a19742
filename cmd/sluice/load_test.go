package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
)

func TestServerLoadAndVerify(t *testing.T) {
	server := redistest.Start(t)
	url := "redis://" + server.Addr
	check := func(wantStatus int, wantText string, args ...string) {
		t.Helper()
		got := sluiceRun(nil, append(args, "--redis", url)...)
		if got.status != wantStatus || !strings.Contains(got.stdout, wantText) {
			t.Errorf("%s: status %d, want %d\n%s%s", args, got.status, wantStatus, got.stdout, got.stderr)
		}
		wantNarrow(t, args[0], got.stdout)
	}
	check(exitFailed, "scripts at first use)\ncure: sluice load --redis "+url+"\n", "verify")
	check(exitDone, "1 script on 1 node", "load", "gcra")
	check(exitDone, "gcra_v1  "+sluice.GCRAV1SHA1[:12]+"  loaded\n", "verify", "gcra_v1")
	check(exitFailed, "cure: sluice load --redis "+url+" gcra list_log\n", "verify", "gcra", "list_log")
	check(exitDone, "7 scripts on 1 node", "load")
	check(exitDone, "7 scripts on 1 node", "verify")
	check(exitDone, "7 scripts on 1 node", "load")

	rdb := client(t, server.Addr)
	if err := rdb.ScriptFlush(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	check(exitFailed, "7 scripts are missing", "verify")
}

func TestServerPasswordAndACL(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	url := "redis://" + server.Addr
	got := sluiceRun(nil, "load", "--redis", url)
	if got.status != exitFailed || !strings.Contains(got.stderr, "cure: give the password") {
		t.Errorf("without a password: status %d\n%s", got.status, got.stderr)
	}
	env := []string{"REDISCLI_AUTH=secret"}
	if got := sluiceRun(env, "load", "--redis", url); got.status != exitDone {
		t.Errorf("with it: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}

	admin := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "secret", DisableIdentity: true})
	defer admin.Close()
	if err := admin.ACLSetUser(context.Background(), "ada", "on", ">pw", "+info", "+script|exists").Err(); err != nil {
		t.Fatal(err)
	}
	must(t, admin.ACLSetUser(background, "bob", "on", ">pw", "+script|exists").Err())
	got = sluiceRun(nil, "verify", "--redis", "redis://bob:pw@"+server.Addr)
	wantText(t, got, exitDone, "note: this user may not call INFO: it is not known whether the server has replicas")
	if err := admin.ScriptFlush(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	got = sluiceRun(nil, "load", "gcra", "--redis", "redis://ada:pw@"+server.Addr)
	if got.status != exitFailed || !strings.Contains(got.stdout, "failed") ||
		!strings.Contains(got.stdout, "ACL SETUSER") {
		t.Errorf("a user who may not load: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}

func TestServerCluster(t *testing.T) {
	addrs := startCluster(t)
	all := "--cluster=" + addrs[1]
	got := sluiceRun(nil, "verify", all)
	if got.status != exitFailed || !strings.Contains(got.stdout, "42 scripts are missing") {
		t.Errorf("verify: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	got = sluiceRun(nil, "load", all)
	if got.status != exitDone || !strings.Contains(got.stdout, "7 scripts on 6 nodes") {
		t.Errorf("load: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	if lines := strings.Count(got.stderr, " of 6 nodes: "); lines != 6 {
		t.Errorf("progress of %d nodes:\n%s", lines, got.stderr)
	}

	// A restarted or flushed replica has none, and nothing brings them back.
	if err := client(t, addrs[3]).ScriptFlush(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	got = sluiceRun(nil, "verify", all)
	missing := addrs[3] + "  replica  gcra_v1               " + sluice.GCRAV1SHA1[:12] + "  missing\n"
	if got.status != exitFailed || !strings.Contains(got.stdout, missing) ||
		!strings.Contains(got.stdout, "7 scripts are missing") {
		t.Errorf("verify: status %d\n%s", got.status, got.stdout)
	}

	if got := sluiceRun(nil, "try", all, "gcra", "limit=3", "window=1m", "subject=ada"); got.status != exitDone {
		t.Errorf("try: status %d\n%s", got.status, got.stderr)
	}
	got = sluiceRun(nil, "verify", "--redis", addrs[0])
	if got.status != exitDone || !strings.Contains(got.stdout, "note: this server is a node of a cluster") {
		t.Errorf("verify of one node: status %d\n%s", got.status, got.stdout)
	}
	got = sluiceRun(nil, "load", "--cluster", redistest.Start(t).Addr)
	if got.status != exitFailed || !strings.Contains(got.stderr, "cure: the server is not a cluster") {
		t.Errorf("load on no cluster: status %d\n%s", got.status, got.stderr)
	}
}

func TestServerSentinel(t *testing.T) {
	trio := redistest.StartSentinels(t, time.Minute)
	master, replica, sentinel := trio.Master, trio.Replica, trio.Addrs[0]
	watching := trio.Name + "@127.0.0.1:1," + sentinel

	got := sluiceRun(nil, "load", "--sentinel", watching)
	if got.status != exitDone || !strings.Contains(got.stdout, "7 scripts on 2 nodes") {
		t.Errorf("load: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	for _, want := range []string{master.Addr + "  master ", replica.Addr + "  replica"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in\n%s", want, got.stdout)
		}
	}
	if got := sluiceRun(nil, "try", "--sentinel", watching, "gcra", "limit=3", "window=1m"); got.status != exitDone {
		t.Errorf("try: status %d\n%s", got.status, got.stderr)
	}
	got = sluiceRun(nil, "verify", "--sentinel", "other@"+sentinel)
	if got.status != exitFailed || !strings.Contains(got.stderr, "it watches no master with that name") {
		t.Errorf("verify of an unknown master: status %d\n%s", got.status, got.stderr)
	}
	got = sluiceRun(nil, "inspect", "--sentinel", watching, "try", "demo")
	wantText(t, got, exitDone, `:gcra1\n`, "node       "+master.Addr)
	wantText(t, sluiceRun(nil, "inspect", "--sentinel", watching, "try", "nobody"), exitDone,
		"^nothing is stored under .* on "+master.Addr+"\nnames")
	got = sluiceRun(nil, "verify", "--redis", sentinel)
	if got.status != exitUsage || !strings.Contains(got.stderr, "want --sentinel") {
		t.Errorf("verify of a sentinel: status %d\n%s", got.status, got.stderr)
	}
	got = sluiceRun(nil, "verify", "--redis", master.Addr)
	if got.status != exitDone || !strings.Contains(got.stdout, "note: this server has 1 replica(s)") {
		t.Errorf("verify of the master alone: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}

// startCluster starts three masters and, behind them in the list of addresses, a replica of each.
func startCluster(t *testing.T) (addrs []string) {
	t.Helper()
	for _, node := range redistest.StartCluster(t, 3, 1) {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

func writeFile(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
