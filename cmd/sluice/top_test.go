package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestRest sleeps on a clock that is not real: what a page took is a part of its period.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(2 * time.Millisecond)
		if err := rest(t.Context(), began, 40*time.Millisecond); err != nil || time.Since(began) != 40*time.Millisecond {
			t.Errorf("%v, %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := rest(ctx, began, time.Hour); err == nil {
			t.Error("it went on")
		}
	})
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

// TestVerdict tells of keys that could not be read beside a server that did not answer: the cluster may be down.
func TestVerdict(t *testing.T) {
	c := census{Unread: 2, unreadable: errors.New("CLUSTERDOWN")}
	c.fail("a:1", errors.New("silent"))
	text := c.verdict(t.Context()).Error()
	for _, want := range []string{"not known: silent\n", "2 keys could not be read, the first with: CLUSTERDOWN"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

// TestServerTop ranks limiters of every script, some of them under other names.
func TestServerTop(t *testing.T) {
	rdb, env := started(t)
	hour := loader.PerHour(100)
	limits, mine := loader.New(rdb), loader.New(rdb, loader.Prefix("mine"))
	for subject, take := range map[string]struct {
		loader.Limiter
		permits int64
	}{
		"five": {limits.ListLog("try", hour), 5}, "seven": {limits.ZSetLog("try", hour), 7},
		"nine": {limits.TokenBucket("try", hour), 9}, "many": {limits.ListLog("other", hour), 99},
		"six":   {limits.TokenBucket("try", hour, loader.PerClient(), loader.ClientID("web-1")), 6},
		"8":     {limits.SliceRing("try", []loader.Limit{hour}), 8},
		"fifty": {limits.GCRA("try", hour), 50}, "sixty": {limits.GCRA("try", hour), 60},
		"here": {mine.ListLog("try", hour), 98},
	} {
		_, err := take.AllowN(background, subject, take.permits)
		must(t, err)
	}
	_, _, err := limits.Concurrency("try", 3, time.Minute).TryAcquire(background, "slots")
	must(t, err)
	must(t, rdb.Set(background, "sluice:try:{bad}:ll1", "x", 0).Err())
	must(t, rdb.Set(background, "sluice:session:{ada}", "x", 0).Err())

	got := runLine(env, "top --limiter try --share 100 --json")
	wantText(t, got, exitDone)
	var c census
	must(t, json.Unmarshal([]byte(got.stdout), &c))
	var ranked []string
	for _, one := range append(c.Logs, c.Buckets...) {
		ranked = append(ranked, fmt.Sprint(one.Subject, one.Client, " ", one.Permits, " ", one.Script))
		if one.Memory < 50 || one.TTL < 1_000_000 {
			t.Errorf("%+v", one)
		}
	}
	if diff := cmp.Diff([]string{
		"nine 9 token_bucket_v1", "8 8 slice_ring_v1", "seven 7 zset_log_v1", "sixweb-1 6 token_bucket_v1",
		"five 5 list_log_v1", "slots 1 concurrency_v1", "sixty 0 gcra_v1", "fifty 0 gcra_v1",
	}, ranked); diff != "" {
		t.Error(diff)
	}
	got = runLine(env, "top --n 3 --share 100")
	wantText(t, got, exitDone,
		`^most permits stored, refused calls not counted\npermits +newest.*\n +99 .* list_log_v1 +other +many\n`,
		` +8 .* slice_ring_v1 +try +8 in 1h0m18s\n\nfurthest from full\n *full in +expires +memory`,
		`9 subjects \(of 14 keys scanned\)\n1 key that a script would refuse; the first:\n`+
			`  sluice inspect 'sluice:try:\{bad\}:ll1'\n`)
	wantNarrow(t, "top", got.stdout)
	wantText(t, runLine(env, "top --n 2 --by memory"), exitDone,
		`^most memory\npermits +newest +expires +memory.*\n +8 .* 8 in 1h0m18s\n +99 .* many\n\n9 subjects`)
	wantText(t, runLine(env, "top --prefix mine"), exitDone, `98 .* here\n\n1 subject \(of 14 keys`)
}

// fill has a subject for each number.
func fill(t *testing.T, rdb redis.UniversalClient, n int) {
	t.Helper()
	for i := range n {
		grants(t, rdb, "try", fmt.Sprint("s", i))
	}
}

// TestServerTopInterrupted interrupts it once it has begun.
func TestServerTopInterrupted(t *testing.T) {
	rdb, env := started(t)
	fill(t, rdb, 500)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	run := make(chan outcome)
	go func() { run <- runUnder(ctx, env, "top", "--share", "1") }()
	redistest.Await(t, "three pages are asked for", func() bool {
		calls := 0
		_, _ = fmt.Sscanf(parseInfo(rdb.Info(background, "commandstats").Val())["cmdstat_scan"], "calls=%d", &calls)
		return calls >= 3
	})
	cancel()
	wantText(t, <-run, exitInterrupted, `^most .*\npermits .*\n +1 .*\d+ B `,
		`subjects \(of \d+ keys scanned\), until it was interrupted\n`, "interrupted\n$")
}

// TestServerTopDeadMaster kills one of three masters: what the others say is shown, the dead one is named, the exit
// status says that not all is known. What its replica takes over is counted.
func TestServerTopDeadMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 1)
	rdb := inCluster(t, addrsOf(nodes)...)
	fill(t, rdb, 12)
	all := "top --cluster=" + nodes[1].Addr
	wantText(t, runLine(nil, all), exitDone, `12 subjects \(of 12 keys`)
	replica := nodes[3].Client(t)
	redistest.Await(t, "the replica has everything", func() bool {
		return replica.DBSize(background).Val() == nodes[0].Client(t).DBSize(background).Val()
	})
	left := 12 - replica.DBSize(background).Val()
	nodes[0].Kill()
	wantText(t, runLine(nil, all), exitFailed, fmt.Sprintf(`%d subjects \(of %d keys`, left, left), "list_log_v1 +try +s",
		"not known: .*"+nodes[0].Addr, "cure: ")
	redistest.Await(t, "the replica takes over", func() bool {
		_ = replica.Do(background, "cluster", "failover", "takeover").Err()
		return strings.Contains(nodes[1].Client(t).ClusterNodes(background).Val(), nodes[3].Addr+"@") &&
			strings.Contains(replica.Info(background, "replication").Val(), "role:master")
	})
	redistest.Await(t, "all is found", func() bool { return runLine(nil, all).status == exitDone })
	wantText(t, runLine(nil, all), exitDone, `12 subjects \(of 12 keys`)
}
