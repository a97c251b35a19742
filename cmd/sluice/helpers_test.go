package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var background = context.Background()

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// wantSaid is wantText with texts as they are.
func wantSaid(t *testing.T, got outcome, status int, texts ...string) {
	t.Helper()
	for i := range texts {
		texts[i] = regexp.QuoteMeta(texts[i])
	}
	wantText(t, got, status, texts...)
}

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

// wantNoRefusals fails if a server has refused a user something.
func wantNoRefusals(t *testing.T, admin *redis.Client) {
	t.Helper()
	if log, _ := admin.Do(background, "acl", "log").Slice(); len(log) > 0 {
		t.Errorf("%s refused %s", admin.Options().Addr, log)
	}
}

// grants takes a permit of a list_log from a subject.
func grants(t *testing.T, rdb redis.UniversalClient, limiter, subject string) {
	t.Helper()
	d, err := loader.New(rdb).ListLog(limiter, loader.PerMinute(9)).Allow(background, subject)
	if must(t, err); !d.Granted {
		t.Fatalf("%+v", d)
	}
}

// inspected is a server with every limiter, of which a subject holds two permits of three.
func inspected(t *testing.T) (rdb *redis.Client, env []string) {
	t.Helper()
	rdb, env = started(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	limit := loader.PerMinute(3)
	for _, l := range []loader.Limiter{limits.ListLog("try", limit), limits.ZSetLog("try", limit),
		limits.GCRA("try", limit), limits.TokenBucket("try", limit),
		limits.SliceRing("try", []loader.Limit{limit}, loader.Slice(time.Second))} {
		_, err := l.AllowN(background, "demo", 2)
		must(t, err)
	}
	_, _, err := limits.Concurrency("try", 3, time.Minute).TryAcquire(background, "demo")
	must(t, err)
	return rdb, env
}

// inCluster is a client of a cluster.
func inCluster(t *testing.T, addrs ...string) *redis.ClusterClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// addrsOf are the addresses of servers.
func addrsOf(servers []*redistest.Server) (addrs []string) {
	for _, server := range servers {
		addrs = append(addrs, server.Addr)
	}
	return addrs
}

// lineErr runs the program for what it does; what it says is the error of a failure.
func sluiceDone(t *testing.T, env []string, line string) {
	t.Helper()
	wantText(t, runLine(env, line), exitDone)
}
