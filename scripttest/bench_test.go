package scripttest_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/redistest"
)

// The faults of time and memory of the systems S1 to S4, which the last section of the package doc describes, beside
// ours, on a real server: `make bench-scripts`.

// fillBucket adds so many entries of one permit to a bucket that all clients share.
func (r *remote) fillBucket(entries int, at int64) {
	before, _ := strconv.Atoi(r.do("LLEN", tokenBucketV1.keys[1]))
	r.pipeline(entries, func(p redis.Pipeliner, i int) {
		p.RPush(context.Background(), tokenBucketV1.keys[1], layout.TokenBucketEntry(uint64(at), uint64(before+i), 1))
	})
}

// fillSet adds so many entries as S4 stores them.
func (r *remote) fillSet(entries int, at int64) {
	before, _ := strconv.Atoi(r.do("ZCARD", tokenBucketV1.keys[1]))
	r.pipeline(entries, func(p redis.Pipeliner, i int) {
		member := layout.Integer(8, uint64(before+i)) + layout.Integer(4, 1)
		p.ZAdd(context.Background(), tokenBucketV1.keys[1], redis.Z{Score: float64(at), Member: member})
	})
}

func (r *remote) fillList(entries int, at int64) {
	r.pipeline(entries, func(p redis.Pipeliner, _ int) {
		p.RPush(context.Background(), listLogV1.keys[0], at)
	})
}

func (r *remote) fillLog(name func(at int64, i int) string) func(entries int, at int64) {
	return func(entries int, at int64) {
		r.pipeline(entries, func(p redis.Pipeliner, i int) {
			p.ZAdd(context.Background(), zsetLogV1.keys[0], redis.Z{Score: float64(at), Member: name(at, i)})
		})
	}
}

// named is an id of 19 bytes.
func named(at int64, i int) string { return fmt.Sprintf("%s%08d", strconv.FormatInt(at, 36), i) }

func uuid(at int64, i int) string { return fmt.Sprintf("%08x-aaaa-bbbb-cccc-%012x", i, at) }

// pipeline sends so many commands, ten thousand at a time.
func (r *remote) pipeline(commands int, add func(p redis.Pipeliner, i int)) {
	for from := 0; from < commands; from += 10_000 {
		p := r.client.Pipeline()
		for i := from; i < min(from+10_000, commands); i++ {
			add(p, i)
		}
		if _, err := p.Exec(context.Background()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// serverMicroseconds is what the server has spent in EVALSHA so far.
func (r *remote) serverMicroseconds() float64 {
	_, stats, _ := strings.Cut(r.do("INFO", "commandstats"), "cmdstat_evalsha:")
	_, usec, _ := strings.Cut(stats, "usec=")
	usec, _, _ = strings.Cut(usec, ",")
	us, _ := strconv.ParseFloat(usec, 64)
	return us
}

// BenchmarkAfterExpiry is the server's time for the one call that finds everything but one permit expired: ours, and
// S4, which reads the entries and removes them one by one.
func BenchmarkAfterExpiry(b *testing.B) {
	r := connectServer(b, redistest.Start(b).Addr)
	for _, c := range []struct {
		name    string
		script  *sluice.Script
		keys    []string
		args    string
		fill    func(entries int, at int64)
		entries []int
	}{
		{"list_log", &sluice.ListLogV1, listLogV1.keys, "1000000 10000000 1 0", r.fillList, []int{1e4, 1e5, 1e6}},
		{"zset_log", &sluice.ZSetLogV1, zsetLogV1.keys, "10000 10000000 1 0 x", r.fillLog(named), []int{1e4}},
		{"token_bucket", &sluice.TokenBucketV1, tokenBucketV1.keys, "1000000 10000000 0 1 0", r.fillBucket,
			[]int{1e4, 1e5, 1e6}},
		{"S4", faultyScript(b, "s4_random_member"), tokenBucketV1.keys, "1000000 10000000 0 1 0", r.fillSet,
			[]int{1e4, 1e5, 1e6}},
	} {
		for _, entries := range c.entries {
			b.Run(fmt.Sprintf("%s/%d", c.name, entries), func(b *testing.B) {
				total := 0.0
				for range b.N {
					r.do("FLUSHALL")
					c.fill(entries-1, epoch)
					c.fill(1, epoch+9_000_000)
					r.setTime(epoch + 10_000_000)
					before := r.serverMicroseconds()
					if _, failed := r.call(c.script, false, c.keys, strings.Fields(c.args)); failed != "" {
						b.Fatal(failed)
					}
					total += r.serverMicroseconds() - before
				}
				b.ReportMetric(total/float64(b.N), "server-us/call")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func faultyScript(t testing.TB, name string) *sluice.Script {
	source := readFaulty(t, name)
	return &sluice.Script{File: name + ".lua", Source: source, SHA1: sha1Hex(source), Reply: sluice.TokenBucketV1.Reply}
}

// BenchmarkBytesAPermit is the memory of ten thousand permits, beside S2's UUID for each.
func BenchmarkBytesAPermit(b *testing.B) {
	r := connectServer(b, redistest.Start(b).Addr)
	const permits = 10_000
	for _, c := range []struct {
		name string
		key  string
		fill func(entries int, at int64)
	}{
		{"list_log", listLogV1.keys[0], r.fillList},
		{"zset_log", zsetLogV1.keys[0], r.fillLog(named)},
		{"token_bucket", tokenBucketV1.keys[1], r.fillBucket},
		{"S2", zsetLogV1.keys[0], r.fillLog(uuid)},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				r.do("FLUSHALL")
				c.fill(permits, epoch)
			}
			bytes, err := strconv.ParseFloat(r.do("MEMORY", "USAGE", c.key, "SAMPLES", "0"), 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(bytes/permits, "bytes/permit")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// What the fillers write is what the scripts write: the benchmarks measure the state of the scripts.
func TestServerFillersWriteWhatScriptsWrite(t *testing.T) {
	r := connectServer(t, redistest.Start(t).Addr)
	r.setTime(epoch)
	for _, c := range []struct {
		table table
		args  string
		key   string
		fill  func(entries int, at int64)
	}{
		{listLogV1, "9 10000000 1 0", listLogV1.keys[0], r.fillList},
		{tokenBucketV1, "9 10000000 0 1 0", tokenBucketV1.keys[1], r.fillBucket},
	} {
		for range 3 {
			if _, failed := r.call(c.table.script, false, c.table.keys, strings.Fields(c.args)); failed != "" {
				t.Fatal(failed)
			}
		}
		written := r.do("DUMP", c.key)
		r.do("DEL", c.key)
		c.fill(3, epoch)
		if diff := cmp.Diff(written, r.do("DUMP", c.key)); diff != "" {
			t.Errorf("%s (-script +filler):\n%s", c.table.script.Name, diff)
		}
	}
}
