package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

func TestServerLoadFunctions(t *testing.T) {
	rdb, env := started(t)
	run := func(command string) outcome { return sluiceRun(env, command, "--functions") }
	got := run("verify")
	wantText(t, got, exitFailed, "sluice_v1 +"+sluice.Libraries()[0].SHA1[:12]+"  missing",
		"\ncure: sluice load --functions --redis ")
	wantNarrow(t, "verify", got.stdout)
	wantSaid(t, run("load"), exitDone, "loaded now", "1 library on 1 node")
	wantSaid(t, run("load"), exitDone, "loaded\n")

	limits := loader.New(rdb, loader.Functions())
	for _, flush := range [][]any{{"flushall"}, {"script", "flush"}} {
		must(t, rdb.Do(background, flush...).Err())
		if d, err := limits.ListLog("x", loader.PerMinute(3)).Allow(background, "s"); err != nil || !d.Granted {
			t.Errorf("after %s: %+v, %v", flush, d, err)
		}
		wantSaid(t, run("verify"), exitDone, "1 library on 1 node")
	}
	wantSaid(t, runLine(env, "inspect x s --limit 3/1m"), exitDone, "  remaining  1\n") // without scripts

	altered := strings.Replace(sluice.Libraries()[0].Source, "-- list_log v1", "-- list_log v0", 1)
	must(t, rdb.FunctionLoadReplace(background, altered).Err())
	for _, flags := range []string{"", " --try"} {
		got := runLine(env, "verify --functions"+flags)
		wantSaid(t, got, exitFailed, "other bytes", "cure: sluice load --functions")
	}
	wantSaid(t, run("load"), exitDone, "loaded now", "1 library on 1 node")
	wantSaid(t, run("verify"), exitDone, "1 library on 1 node")
}

// TestServerFunctionsCluster loads on the masters and finds the library on the replicas.
func TestServerFunctionsCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t)
	got := sluiceRun(nil, "load", "--functions", "--cluster", addrs[3])
	wantSaid(t, got, exitDone, "1 library on 3 nodes", "note: replicas get functions from their masters")
	redistest.Await(t, "the replicas have the library", func() bool {
		return sluiceRun(nil, "verify", "--functions", "--cluster", addrs[1]).status == exitDone
	})
	wantSaid(t, sluiceRun(nil, "verify", "--functions", "--cluster", addrs[1]), exitDone, "1 library on 6 nodes",
		addrs[3]+"  replica")
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	log := loader.New(rdb, loader.Functions()).ListLog("x", loader.PerMinute(3))
	for i := range 30 {
		if d, err := log.Allow(background, fmt.Sprint("s", i)); err != nil || !d.Granted {
			t.Errorf("%+v, %v", d, err)
		}
	}
	must(t, client(t, addrs[2]).FunctionFlush(background).Err())
	got = sluiceRun(nil, "verify", "--functions", "--cluster", addrs[1])
	wantText(t, got, exitFailed, addrs[2]+"  master +sluice_v1 .* missing")
}

// TestFunctionsRefused is what --functions cannot do.
func TestFunctionsRefused(t *testing.T) {
	wantSaid(t, sluiceRun(nil, "load", "--functions", "gcra"), exitUsage, "--functions wants no script: a library has all")
	old := fakeServer(t, func(args []string) string {
		if strings.EqualFold(args[0], "info") {
			return "$11\r\nrole:master\r\n"
		}
		return "-ERR unknown command '" + args[0] + "'\r\n"
	})
	for _, command := range []string{"load", "verify"} {
		got := sluiceRun(nil, command, "--functions", "--redis", old)
		wantSaid(t, got, exitFailed, "functions need Redis 7.0 or later")
	}
}

// TestServerACLFunctions has the users of acl --functions load, call and look.
func TestServerACLFunctions(t *testing.T) {
	server := redistest.Start(t)
	admin := client(t, server.Addr)
	setUsers(t, admin, "--functions")
	url := func(user string) string { return "--redis=redis://" + user + ":pw@" + server.Addr }
	wantSaid(t, sluiceRun(nil, "load", "--functions", url("sluice-load")), exitDone)
	wantSaid(t, sluiceRun(nil, "verify", "--functions", url("sluice-look")), exitDone)

	use := clientAs(t, server.Addr, "sluice-use", "pw")
	look := clientAs(t, server.Addr, "sluice-look", "pw")
	key, args := []string{"sluice:x:{s}:ll1"}, []any{3, 60000000, 1, 0}
	must(t, use.FCall(background, "list_log_v1", key, args...).Err())
	args[2] = 0
	must(t, look.FCallRO(background, "list_log_v1_look", key, args...).Err())
	wantNoRefusals(t, admin)
	wantRefused(t, "FCALL by one who looks", look.FCall(background, "list_log_v1", key, args...).Err())
	wantRefused(t, "a key outside the prefix", use.FCall(background, "list_log_v1", []string{"other"}, args...).Err())
	wantRefused(t, "a look outside the prefix",
		look.FCallRO(background, "list_log_v1_look", []string{"other"}, args...).Err())
}
