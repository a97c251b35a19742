package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
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
	check(exitFailed, "7 scripts are missing\ncure: sluice load --redis "+url+"\n", "verify")
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
	if err := admin.ScriptFlush(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	got = sluiceRun(nil, "load", "gcra", "--redis", "redis://ada:pw@"+server.Addr)
	if got.status != exitFailed || !strings.Contains(got.stdout, "failed") || !strings.Contains(got.stdout, "ACL SETUSER") {
		t.Errorf("a user who may not load: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}

func TestServerCluster(t *testing.T) {
	addrs := startCluster(t)
	all := "--cluster=" + addrs[1]
	got := sluiceRun(nil, "verify", all)
	if got.status != exitFailed || !strings.Contains(got.stdout, "28 scripts are missing") {
		t.Errorf("verify: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	got = sluiceRun(nil, "load", all)
	if got.status != exitDone || !strings.Contains(got.stdout, "7 scripts on 4 nodes") {
		t.Errorf("load: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	if lines := strings.Count(got.stderr, " of 4 nodes: "); lines != 4 {
		t.Errorf("progress of %d nodes:\n%s", lines, got.stderr)
	}

	// A restarted or flushed replica has none, and nothing brings them back.
	if err := client(t, addrs[3]).ScriptFlush(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	got = sluiceRun(nil, "verify", all)
	missing := addrs[3] + "  replica  gcra_v1               " + sluice.GCRAV1SHA1[:12] + "  missing\n"
	if got.status != exitFailed || !strings.Contains(got.stdout, missing) || !strings.Contains(got.stdout, "7 scripts are missing") {
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
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	if err := client(t, replica.Addr).ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	sentinel := startSentinel(t, master.Addr)
	watching := "main@127.0.0.1:1," + sentinel
	await(t, "the sentinel knows the replica", func() bool {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: sentinel, DisableIdentity: true})
		defer rdb.Close()
		replicas, err := rdb.Replicas(context.Background(), "main").Result()
		return err == nil && len(replicas) == 1
	})

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
	if got.status != exitFailed || !strings.Contains(got.stderr, `it watches no master "other"`) {
		t.Errorf("verify of an unknown master: status %d\n%s", got.status, got.stderr)
	}
	got = sluiceRun(nil, "verify", "--redis", sentinel)
	if got.status != exitUsage || !strings.Contains(got.stderr, "want --sentinel") {
		t.Errorf("verify of a sentinel: status %d\n%s", got.status, got.stderr)
	}
	got = sluiceRun(nil, "verify", "--redis", master.Addr)
	if got.status != exitDone || !strings.Contains(got.stdout, "note: this server has 1 replica(s)") {
		t.Errorf("verify of the master alone: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}

// startCluster starts three masters and, as the last of the addresses, a replica of the first.
func startCluster(t *testing.T) []string {
	t.Helper()
	var addrs []string
	var nodes []*redis.Client
	for range 4 {
		server := redistest.Start(t, "--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0")
		addrs = append(addrs, server.Addr)
		nodes = append(nodes, client(t, server.Addr))
	}
	ctx := context.Background()
	for i, node := range nodes[:3] {
		if err := node.ClusterAddSlotsRange(ctx, i*5462, min(i*5462+5461, 16383)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range addrs[1:] {
		host, port, _ := net.SplitHostPort(addr)
		if err := nodes[0].ClusterMeet(ctx, host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	first := nodes[0].Do(ctx, "CLUSTER", "MYID").Val()
	await(t, "the last node knows the first", func() bool {
		return nodes[3].ClusterReplicate(ctx, fmt.Sprint(first)).Err() == nil
	})
	await(t, "the cluster is whole", func() bool {
		for _, node := range nodes {
			info, err := node.ClusterInfo(ctx).Result()
			text, _ := node.ClusterNodes(ctx).Result()
			whole := strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:4")
			if err != nil || !whole || strings.Count(text, "slave") != 1 {
				return false
			}
		}
		return true
	})
	return addrs
}

// startSentinel starts a sentinel that watches a master as "main". It takes its configuration from a file, so
// the program that is started is a script that names it.
func startSentinel(t *testing.T, master string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(master)
	dir := t.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	writeFile(t, config, 0o600, fmt.Sprintf("sentinel monitor main %s %s 1\n", host, port))
	program := filepath.Join(dir, "sentinel")
	writeFile(t, program, 0o700, fmt.Sprintf(
		"#!/bin/sh\n# $2 is the port\nexec %s %s --sentinel --bind 127.0.0.1 --port \"$2\"\n", redistest.Servers(t)[0], config))
	return redistest.StartBinary(t, program).Addr
}

func writeFile(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// await waits until something is so.
func await(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !isSo() {
		select {
		case <-ctx.Done():
			t.Fatalf("not so after a minute: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
