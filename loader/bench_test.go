package loader_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// BenchmarkAllow holds a decision against the bare EVALSHA that it sends, which go-redis might repeat, with a
// context that cannot end and with one that has a deadline. They take turns of 20 calls, since what else
// runs on a machine changes by the second; the medians are printed, and ratios to the bare one.
//
//	go test ./loader -run '^$' -bench Allow -benchtime 2000x
func BenchmarkAllow(b *testing.B) {
	rdb := real(b)
	limits := loader.New(rdb)
	must(b, limits.Preload(background))
	deadline, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	for i, m := range makers {
		b.Run(m.name, func(b *testing.B) {
			limiter := m.make(limits, loader.PerSecond(5000))
			sum, keys, args := sentBy(b, rdb.Options().Addr, i)
			bare := func() error { return rdb.EvalSha(background, sum, keys, args...).Err() }
			allow := func() error { return errOf(limiter.Allow(background, "s")) }
			bounded := func() error { return errOf(limiter.Allow(deadline, "s")) }

			var took [3][]effort
			for b.Loop() {
				for way, call := range []func() error{bare, allow, bounded} {
					took[way] = append(took[way], effort{wall: turn(b, call)})
				}
			}
			base := median(took[0], wallTime)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(us(base), "bare_us")
			b.ReportMetric(float64(median(took[1], wallTime))/float64(base), "x_bare")
			b.ReportMetric(float64(median(took[2], wallTime))/float64(base), "x_bare_with_deadline")
		})
	}
}

// turn is the time of one call, of 20 in a row.
func turn(b *testing.B, call func() error) time.Duration {
	const calls = 20
	started := time.Now()
	for range calls {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(started) / calls
}

// BenchmarkNobodyListens is a call without a deadline to an address at which no server listens, by how often go-redis
// dials: as it does by default, and once.
//
//	go test ./loader -run '^$' -bench NobodyListens -benchtime 5x
func BenchmarkNobodyListens(b *testing.B) {
	for _, dials := range []int{5, 1} {
		b.Run(fmt.Sprintf("DialerRetries=%d", dials), func(b *testing.B) {
			opt := options("127.0.0.1:1")
			opt.DialerRetries = dials
			limiter := loader.New(clientOf(b, opt)).ListLog("x", loader.PerHour(1))
			for b.Loop() {
				if errOf(limiter.Allow(background, "s")) == nil {
					b.Fatal("a server listens")
				}
			}
		})
	}
}

// mostAllocations is how many more a decision may take than the bare EVALSHA that it sends: one for the goroutine of
// the round trip, two for the id of a ZSetLog, and one where the garbage collector has emptied a pool.
const mostAllocations = 4 + raceAllocations

// TestAllocations holds every limiter against the EVALSHA that it sends, which finds its keys and
// arguments made already, over the same connection.
func TestAllocations(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(limits, loader.PerSecond(5000))
		sum, keys, args := sentBy(t, rdb.Options().Addr, i)
		bare := testing.AllocsPerRun(1000, func() {
			if reply, err := rdb.EvalSha(background, sum, keys, args...).Int64Slice(); err != nil || len(reply) < 5 {
				t.Error(reply, err)
			}
		})
		ours := testing.AllocsPerRun(1000, func() {
			if _, err := limiter.Allow(background, "s"); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%v allocations, a bare EVALSHA %v", ours, bare)
		if ours > bare+mostAllocations {
			t.Errorf("%v allocations, want at most %d more than the %v of a bare EVALSHA", ours, mostAllocations, bare)
		}
	})
}

// sentBy is what a limiter sends for one permit.
func sentBy(tb testing.TB, addr string, maker int) (sum string, keys []string, args []any) {
	tb.Helper()
	rdb := client(tb, addr)
	var words []any
	rdb.AddHook(hook{before: func(cmd redis.Cmder) {
		if cmd.Name() == "evalsha" {
			words = cmd.Args()
		}
	}})
	must(tb, errOf(makers[maker].make(loader.New(rdb), loader.PerSecond(5000)).Allow(context.Background(), "s")))
	count, err := strconv.Atoi(fmt.Sprint(words[2]))
	must(tb, err)
	for _, key := range words[3 : 3+count] {
		keys = append(keys, key.(string))
	}
	return words[1].(string), keys, words[3+count:]
}

// BenchmarkLeased is what one process decides by itself and how much of it reaches Redis: with permits held, and with a
// limit that is used up and denials remembered.
//
//	go test ./loader -run '^$' -bench Leased -benchtime 3s
func BenchmarkLeased(b *testing.B) {
	for _, c := range []struct {
		name     string
		limit    int64 // a second
		subjects int
	}{
		{"granted, 1 subject", 1_000_000_000, 1},
		{"granted, 100 subjects", 100_000_000, 100},
		{"mostly denied, 1 subject", 100_000, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			rdb := real(b)
			var calls atomic.Int64
			rdb.AddHook(hook{before: func(redis.Cmder) { calls.Add(1) }})
			ring := loader.New(rdb).SliceRing("bench", []loader.Limit{loader.PerSecond(c.limit)},
				loader.LeaseAge(time.Second/4), loader.RememberDenials(1000))
			leased, err := ring.Leased(loader.LeaseOptions{Block: 1000})
			must(b, err)
			defer func() { must(b, leased.Close(background)) }()

			subjects := make([]string, c.subjects)
			for i := range subjects {
				subjects[i] = "subject-" + strconv.Itoa(i)
			}
			var grants atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				mine := int64(0)
				for i := 0; pb.Next(); i++ {
					d, err := leased.Allow(background, subjects[i%len(subjects)])
					if err != nil {
						b.Error(err)
						return
					}
					if d.Granted {
						mine++
					}
				}
				grants.Add(mine)
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(100*float64(grants.Load())/float64(b.N), "%granted")
			b.ReportMetric(100*float64(calls.Load())/float64(b.N), "%to-redis")
		})
	}
}

// BenchmarkTogether has 64 goroutines decide one by one and by ShareRoundTrips, and two in batches of 64, in turns,
// and prints the medians: decisions a second, how many times the first that is, and the processor's
// microseconds for each decision, here and in the server.
//
//	go test ./loader -run '^$' -bench Together -benchtime 20x
//
// The server runs one script at a time and is soon at its end: the microseconds that it needs for one say
// where that is. "nothing" is a script that does nothing, which leaves the round trip alone; "1 ms away"
// is a server on another host, asked over as many connections as go-redis makes by default.
func BenchmarkTogether(b *testing.B) {
	near := real(b)
	opt := options(near.Options().Addr)
	opt.Dialer = dialDistant
	granted, denied := loader.PerSecond(1000000), loader.PerDay(1)
	b.Run("granted", func(b *testing.B) { together(b, near, allow1(granted), allow64(granted)) })
	b.Run("denied", func(b *testing.B) { together(b, near, allow1(denied), allow64(denied)) })
	b.Run("granted, one subject", func(b *testing.B) { together(b, near, hot(granted), nil) })
	b.Run("denied, one subject", func(b *testing.B) { together(b, near, hot(denied), nil) })
	b.Run("10000 a second, one subject", func(b *testing.B) { together(b, near, hot(loader.PerSecond(10000)), nil) })
	b.Run("nothing", func(b *testing.B) { together(b, near, nothing(near), nil) })
	b.Run("1 ms away", func(b *testing.B) { together(b, clientOf(b, opt), allow1(granted), allow64(granted)) })
}

// distant is a connection to a server 1 ms away: whatever arrives may be read 1 ms later.
type distant struct {
	net.Conn
	arrived chan segment
	rest    []byte
}

type segment struct {
	bytes []byte
	at    time.Time
}

func dialDistant(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d := &distant{Conn: conn, arrived: make(chan segment, 1024)}
	go func() {
		defer close(d.arrived)
		for {
			buffer := make([]byte, 32<<10)
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			d.arrived <- segment{buffer[:n], time.Now().Add(time.Millisecond)}
		}
	}()
	return d, nil
}

func (d *distant) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		s, ok := <-d.arrived
		if !ok {
			return 0, io.EOF
		}
		time.Sleep(time.Until(s.at))
		d.rest = s.bytes
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// SetDeadline and SetReadDeadline do nothing: they would end the reading ahead.
func (d *distant) SetDeadline(time.Time) error     { return nil }
func (d *distant) SetReadDeadline(time.Time) error { return nil }

type asking func(ctx context.Context, l *loader.Loader, subject string) error

func allow1(limit loader.Limit) asking {
	return func(ctx context.Context, l *loader.Loader, subject string) error {
		return errOf(l.GCRA("together", limit).Allow(ctx, subject))
	}
}

func hot(limit loader.Limit) asking {
	allow := allow1(limit)
	return func(ctx context.Context, l *loader.Loader, _ string) error { return allow(ctx, l, "hot") }
}

func allow64(limit loader.Limit) asking {
	return func(ctx context.Context, l *loader.Loader, subject string) error {
		batch, limiter := l.Batch(), l.GCRA("together", limit)
		for range callers {
			batch.Allow(limiter, subject)
		}
		_, err := batch.Do(ctx)
		return err
	}
}

func nothing(rdb *redis.Client) asking {
	idle := rdb.ScriptLoad(background, "return {1, 1, 1, 1, 1}").Val()
	return func(ctx context.Context, _ *loader.Loader, subject string) error {
		return rdb.EvalSha(ctx, idle, []string{subject}, 1000000, 1000000, 1000000, 1, 0).Err()
	}
}

// callers is how many goroutines ask at once, and how many entries a batch has.
const callers = 64

// measured is one way to ask, with what it took in each round.
type measured struct {
	name   string
	decide func(subject string) error
	each   int // decisions by one call of decide
	took   []effort
}

// effort is what one decision took.
type effort struct{ wall, client, server time.Duration }

// together measures the ways in turns.
func together(b *testing.B, rdb *redis.Client, one, many asking) {
	ctx, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	must(b, loader.New(rdb).Preload(ctx))
	single, shared := loader.New(rdb), loader.New(rdb, loader.ShareRoundTrips())
	ways := []*measured{
		{name: "single", each: 1, decide: func(s string) error { return one(background, single, s) }},
		{name: "single_deadline", each: 1, decide: func(s string) error { return one(ctx, single, s) }},
		{name: "shared", each: 1, decide: func(s string) error { return one(background, shared, s) }},
		{name: "shared_deadline", each: 1, decide: func(s string) error { return one(ctx, shared, s) }},
	}
	if many != nil {
		ways = append(ways, &measured{name: "batch", each: callers, decide: func(s string) error {
			return many(background,
				single, s)
		}})
	}
	for b.Loop() {
		for _, w := range ways {
			w.took = append(w.took, w.round(b, rdb, 8192))
		}
	}
	b.ReportMetric(0, "ns/op")
	base := median(ways[0].took, wallTime)
	for _, w := range ways {
		wall := median(w.took, wallTime)
		b.ReportMetric(float64(time.Second)/float64(wall), w.name+"/s")
		b.ReportMetric(float64(base)/float64(wall), w.name+"_x")
		b.ReportMetric(us(median(w.took, func(e effort) time.Duration { return e.client })), w.name+"_client_us")
		b.ReportMetric(us(median(w.took, func(e effort) time.Duration { return e.server })), w.name+"_server_us")
	}
}

// round has the callers make n decisions.
func (w *measured) round(b *testing.B, rdb *redis.Client, n int) effort {
	client, server, started := clientTime(), serverTime(b, rdb), time.Now()
	goroutines := callers
	if w.each > 1 {
		goroutines = 2
	}
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			subject := strconv.Itoa(i)
			for range n / goroutines / w.each {
				if err := w.decide(subject); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	per := time.Duration(n)
	return effort{time.Since(started) / per, (clientTime() - client) / per, (serverTime(b, rdb) - server) / per}
}

func median(efforts []effort, of func(effort) time.Duration) time.Duration {
	all := make([]time.Duration, len(efforts))
	for i, e := range efforts {
		all[i] = of(e)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func wallTime(e effort) time.Duration { return e.wall }

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// clientTime is the processor time of this process.
func clientTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serverTime is the processor time of the server.
func serverTime(b *testing.B, rdb *redis.Client) time.Duration {
	b.Helper()
	var total float64
	for line := range strings.Lines(rdb.Info(background, "cpu").Val()) {
		var seconds float64
		for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
			if _, err := fmt.Sscanf(line, field+":%g", &seconds); err == nil {
				total += seconds
			}
		}
	}
	return time.Duration(total * float64(time.Second))
}
