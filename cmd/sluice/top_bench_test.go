package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/redistest"
)

// BenchmarkTop goes through 10^5 limiters of all scripts and says what that costs the server, in
// microseconds by INFO commandstats and as a share of the time; and what it does to others, as the
// time that a PING takes meanwhile and without it.
func BenchmarkTop(b *testing.B) {
	server := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true})
	defer rdb.Close()
	fill(b, rdb, 100_000)
	before := pings(b, rdb, func() { time.Sleep(2 * time.Second) })
	for b.Loop() {
		if err := rdb.ConfigResetStat(context.Background()).Err(); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		during := pings(b, rdb, func() {
			if got := sluiceRun(nil, "top", "--redis", server.Addr); got.status != exitDone {
				b.Error(got.stderr)
			}
		})
		took := time.Since(began)
		cost := serverTime(b, rdb)
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(cost.Seconds()*1000, "server-ms")
		b.ReportMetric(100*cost.Seconds()/took.Seconds(), "%-of-time")
		for _, q := range []float64{0.5, 0.99, 0.999} {
			b.ReportMetric(quantile(during, q), fmt.Sprintf("us-ping-p%g", 100*q))
			b.ReportMetric(quantile(before, q), fmt.Sprintf("us-idle-p%g", 100*q))
		}
	}
}

// fill makes limiters of every script, most with few permits and some with many.
func fill(tb testing.TB, rdb *redis.Client, n int) {
	tb.Helper()
	ctx := context.Background()
	var attempts []attempt
	for _, script := range sluice.All() {
		if err := rdb.ScriptLoad(ctx, script.Source).Err(); err != nil {
			tb.Fatal(err)
		}
		if !stored.Decides(script) {
			continue
		}
		words := strings.Fields(strings.NewReplacer("=1m", "=1h", "=3", "=100").Replace(needs[fullName(script)]))
		todo, err := newAttempt(script, append(words, "subject=SUBJECT", "permits=2"))
		if err != nil {
			tb.Fatal(err)
		}
		attempts = append(attempts, todo)
	}
	pipe := rdb.Pipeline()
	for i := range n {
		todo := attempts[i%len(attempts)]
		keys := slices.Clone(todo.keys)
		for k := range keys {
			keys[k] = strings.Replace(keys[k], "SUBJECT", strconv.Itoa(i), 1)
		}
		for range 1 + 10*(i%100/99) {
			pipe.EvalSha(ctx, todo.script.SHA1, keys, todo.withID()...)
		}
		if pipe.Len() > 1000 || i == n-1 {
			if _, err := pipe.Exec(ctx); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// pings measures PINGs, a millisecond apart, for as long as something else takes.
func pings(tb testing.TB, rdb *redis.Client, while func()) []time.Duration {
	tb.Helper()
	var taken []time.Duration
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			if err := rdb.Ping(context.Background()).Err(); err != nil {
				tb.Error(err)
				return
			}
			taken = append(taken, time.Since(began))
		}
	})
	while()
	close(done)
	wg.Wait()
	slices.Sort(taken)
	return taken
}

// quantile is one of sorted times, in microseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds())
}

// serverTime is how long the server has worked on commands, but for the PINGs.
func serverTime(tb testing.TB, rdb *redis.Client) (sum time.Duration) {
	tb.Helper()
	for name, fields := range parseInfo(rdb.Info(context.Background(), "commandstats").Val()) {
		_, rest, found := strings.Cut(fields, "usec=")
		text, _, _ := strings.Cut(rest, ",")
		us, err := strconv.Atoi(text)
		if !found || err != nil || name == "cmdstat_ping" {
			continue
		}
		sum += time.Duration(us) * time.Microsecond
	}
	return sum
}
