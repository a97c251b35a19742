package loader_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// loadFunctions loads the libraries, as sluice load --functions does.
func loadFunctions(tb testing.TB, rdb *redis.Client) {
	tb.Helper()
	for _, library := range sluice.Libraries() {
		must(tb, rdb.FunctionLoadReplace(background, library.Source).Err())
	}
}

// calls returns how often a server was sent a command.
func calls(rdb *redis.Client, command string) string {
	_, stats, _ := strings.Cut(rdb.Info(background, "commandstats").Val(), "cmdstat_"+command+":calls=")
	n, _, _ := strings.Cut(stats, ",")
	return n
}

// TestFunctions has every limiter decide by FCALL, by itself, in a batch and with shared round trips.
func TestFunctions(t *testing.T) {
	eachMode(t, func(t *testing.T, _ string, opts []loader.Option) {
		rdb := real(t)
		loadFunctions(t, rdb)
		limits := loader.New(rdb, append(opts, loader.Functions())...)
		for _, m := range makers {
			limiter := m.make(limits, loader.PerHour(2))
			d := wantGrant(t, limiter, "s", 1)
			if returner, ok := limiter.(loader.Returner); ok {
				wantReturned(t, returner, "s", d, 1, 1)
				wantGrant(t, limiter, "s", 1)
			}
			wantGrant(t, limiter, "s", 1)
			wantDenial(t, limiter, "s", 1)
			wantRemaining(t, limiter, "s", 0)
			batch := limits.Batch()
			results := []*loader.Result{}
			for i := range 8 {
				results = append(results, batch.Allow(limiter, fmt.Sprint("batch", i)))
			}
			must(t, errOf(batch.Do(background)))
			for _, r := range results {
				granted(t, r.Decision, r.Err)
			}
		}
		slot, err := limits.Concurrency("slots", 2, time.Minute).Acquire(background, "s")
		must(t, err)
		must(t, slot.Release())
		if n := calls(rdb, "evalsha") + calls(rdb, "eval"); n != "" {
			t.Errorf("EVALSHA or EVAL was sent %s times", n)
		}
	})
}

// TestFunctionsWhileFull: while Redis refuses writes it refuses functions that may write, and runs those that look.
func TestFunctionsWhileFull(t *testing.T) {
	rdb := real(t)
	loadFunctions(t, rdb)
	limits := loader.New(rdb, loader.Functions())
	for _, m := range makers {
		wantGrant(t, m.make(limits, loader.PerHour(1)), "s", 1)
	}
	must(t, rdb.ConfigSet(background, "maxmemory", "1").Err())
	for _, m := range makers {
		limiter := m.make(limits, loader.PerHour(1))
		_, err := limiter.Allow(background, "s")
		if err == nil || errors.Is(err, loader.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%s: %v", m.name, err)
		}
		wantRemaining(t, limiter, "s", 0)
	}
}

// TestFunctionsTogether has a batch send one call for many keys.
func TestFunctionsTogether(t *testing.T) {
	rdb := real(t)
	loadFunctions(t, rdb)
	limits := loader.New(rdb, loader.Functions())
	gcra, batch := limits.GCRA("x", loader.PerHour(1)), limits.Batch()
	for i := range 50 {
		batch.Allow(gcra, fmt.Sprint(i))
	}
	must(t, errOf(batch.Do(background)))
	if n := calls(rdb, "fcall"); n != "1" {
		t.Errorf("%s calls, want one for 50 keys", n)
	}
}

// TestFunctionsMissing: on a server without the library, and on one that knows no functions, the error says what to do.
func TestFunctionsMissing(t *testing.T) {
	eachMode(t, func(t *testing.T, _ string, opts []loader.Option) {
		opts = append(opts, loader.Functions())
		rdb := real(t)
		log := loader.New(rdb, opts...).ListLog("x", loader.PerHour(2))
		_, err := log.Allow(background, "s")
		if !errors.Is(err, loader.ErrNotLoaded) || errors.Is(err, loader.ErrOutcomeUnknown) ||
			!strings.Contains(err.Error(), "`sluice load --functions`") {
			t.Error(err)
		}
		loadFunctions(t, rdb)
		wantGrant(t, log, "s", 1)

		_, old := fake(t) // has no functions, like Redis 6
		_, err = loader.New(old, opts...).ListLog("x", loader.PerHour(2)).Allow(background, "s")
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Functions needs Redis 7.0") {
			t.Error(err)
		}
	})
}

// TestFunctionsStay is what a library outlives: FLUSHALL, SCRIPT FLUSH, and with an AOF or an RDB a restart.
func TestFunctionsStay(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		saves bool
		stays bool
	}{
		"AOF":     {[]string{"--appendonly", "yes", "--appendfsync", "always"}, false, true},
		"RDB":     {nil, true, true},
		"neither": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			rdb := client(t, server.Addr)
			limits := loader.New(rdb, loader.Functions())
			must(t, limits.Preload(background))
			log := limits.ListLog("x", loader.PerHour(3))
			must(t, rdb.FlushAll(background).Err())
			wantGrant(t, log, "s", 1)
			must(t, rdb.ScriptFlush(background).Err())
			wantGrant(t, log, "s", 1)
			if c.saves {
				must(t, rdb.Save(background).Err())
			}
			server.Kill()
			server.Restart(t)
			_, err := log.Allow(background, "s")
			if stays := err == nil; stays != c.stays || !stays && !errors.Is(err, loader.ErrNotLoaded) {
				t.Errorf("after the restart: %v; want it to stay %v", err, c.stays)
			}
		})
	}
}

// TestFunctionsAfterFailover: a replica that is promoted has the functions of its master.
func TestFunctionsAfterFailover(t *testing.T) {
	master, replica := real(t), real(t)
	must(t, loader.New(master, loader.Functions()).Preload(background))
	log := loader.New(replica, loader.Functions()).ListLog("x", loader.PerHour(2))
	host, port, _ := net.SplitHostPort(master.Options().Addr)
	must(t, replica.ReplicaOf(background, host, port).Err())
	redistest.AwaitReplica(t, replica)
	if _, err := log.Allow(background, "s"); err == nil || errors.Is(err, loader.ErrNotLoaded) {
		t.Errorf("on the replica: %v, want READONLY", err)
	}
	must(t, replica.ReplicaOf(background, "no", "one").Err())
	wantGrant(t, log, "s", 1)
}

// TestFunctionsPreloadedOnce: Preload loads what is missing or has other bytes, and no more. It takes the server 3 ms.
func TestFunctionsPreloadedOnce(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb, loader.Functions())
	for range 3 {
		must(t, limits.Preload(background))
	}
	if n := calls(rdb, "function|load"); n != "1" {
		t.Errorf("loaded %s times, want once", n)
	}
	old := strings.Replace(sluice.Libraries()[0].Source, "-- list_log v1", "-- list_log v0", 1)
	must(t, rdb.FunctionLoadReplace(background, old).Err())
	must(t, limits.Preload(background))
	if n := calls(rdb, "function|load"); n != "3" {
		t.Errorf("loaded %s times, want 3", n)
	}
}

// TestFunctionRaises: a user without the right to a command that a function needs is told so.
func TestFunctionRaises(t *testing.T) {
	admin := real(t)
	loadFunctions(t, admin)
	must(t, admin.Do(background, "ACL", "SETUSER", "u", "on", ">secret", "~*", "+@all", "-set").Err())
	opt := options(admin.Options().Addr)
	opt.Username, opt.Password = "u", "secret"
	_, err := loader.New(clientOf(t, opt), loader.Functions()).GCRA("x", loader.PerHour(2)).Allow(background, "s")
	if err == nil || errors.Is(err, loader.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "lacks a right") {
		t.Errorf("%v, want that it is refused", err)
	}
}
