package loader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// sentScripts are the names of the scripts that EVALSHA called, with their numbers of keys, as they were written.
type sentScripts struct {
	mu    sync.Mutex
	names []string
}

func (s *sentScripts) note(cmd redis.Cmder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, script := range sluice.All() {
		if args := cmd.Args(); len(args) > 2 && args[1] == script.SHA1 {
			s.names = append(s.names, fmt.Sprintf("%s %v", script.Name, args[2]))
		}
	}
}

func (s *sentScripts) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := strings.Join(s.names, ", ")
	s.names = nil
	return names
}

// watchScripts notes what a client sends.
func watchScripts(rdb interface{ AddHook(redis.Hook) }) *sentScripts {
	s := &sentScripts{}
	rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		for _, cmd := range cmds {
			s.note(cmd)
		}
		return send()
	}))
	return s
}

// asked is one entry of a batch, and the same as a single call.
type asked struct {
	limiter, subject int
	n                int64 // 0: Peek
	books            bool
}

// manyLimiters are limiters of a Loader whose entries a batch may send together, and others.
func manyLimiters(l *loader.Loader) []loader.Limiter {
	return []loader.Limiter{
		l.GCRA("a", loader.Limit{Permits: 3, Window: 10 * time.Second}, loader.MaxWait(time.Minute)),
		l.GCRA("a", loader.Limit{Permits: 5, Window: 10 * time.Second}, loader.MaxWait(time.Minute)),
		l.ListLog("a", loader.Limit{Permits: 3, Window: 10 * time.Second}, loader.MaxWait(time.Minute)),
		l.ListLog("b", loader.Limit{Permits: 3, Window: 10 * time.Second}, loader.MaxWait(time.Minute)),
		l.SliceRing("a", []loader.Limit{loader.PerMinute(3)}),
		l.SliceRing("b", []loader.Limit{{Permits: 2, Window: time.Second}, {Permits: 5, Window: 20 * time.Second}},
			loader.Slice(time.Second)),
	}
}

// TestManyAnswersAsSingles asks the same of two servers: in batches and in single calls. All decisions and errors are
// equal, those of later calls too, with keys that are damaged, and subjects that come several times.
func TestManyAnswersAsSingles(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 1))
		together, rdb1 := fake(t)
		apart, rdb2 := fake(t)
		limits, single := loader.New(rdb1, loader.Timeout(never)), loader.New(rdb2, loader.Timeout(never))
		must(t, limits.Preload(background)) // what is asked again may be decided after later entries
		limiters, singles := manyLimiters(limits), manyLimiters(single)
		sent := watchScripts(rdb1)
		now, packed := second0, 0
		for round := range 12 {
			now = now.Add(time.Duration(random.Int64N(int64(4 * time.Second))).Truncate(time.Microsecond))
			damaged := damages[random.IntN(len(damages))]
			for _, m := range []*miniredis.Miniredis{together, apart} {
				m.SetTime(now)
				damaged(m)
			}
			entries := make([]asked, 1+random.IntN(80))
			for i := range entries {
				entries[i] = asked{random.IntN(len(limiters)), random.IntN(12), random.Int64N(4), random.IntN(5) == 0}
			}
			batch := limits.Batch()
			results := make([]*loader.Result, len(entries))
			for i, e := range entries {
				results[i] = e.add(batch, limiters[e.limiter])
			}
			_, _ = batch.Do(background)
			packed += strings.Count(sent.take(), "_many ")
			for i, e := range entries {
				want, err := e.call(singles[e.limiter])
				got := results[i]
				if diff := cmp.Diff(want, got.Decision); diff != "" || fmt.Sprint(err) != fmt.Sprint(got.Err) {
					t.Fatalf("seed %d, round %d, entry %d %+v: %v, want %v\n%s", seed, round, i, e, got.Err, err, diff)
				}
			}
		}
		if got, want := together.Dump(), apart.Dump(); got != want {
			t.Fatalf("seed %d: afterwards\n%s\nwant\n%s", seed, got, want)
		}
		if packed < 5 {
			t.Errorf("seed %d: %d commands for many keys", seed, packed)
		}
	}
}

// damages are done to both servers between the rounds.
var damages = []func(*miniredis.Miniredis){
	func(*miniredis.Miniredis) {},
	func(m *miniredis.Miniredis) { m.FlushAll() },
	func(m *miniredis.Miniredis) {
		m.Del("sluice:a:{s1}:gcra1")
		_, _ = m.Push("sluice:a:{s1}:gcra1", "x")
	},
	func(m *miniredis.Miniredis) { _ = m.Set("sluice:a:{s2}:gcra1", "x") },
	func(m *miniredis.Miniredis) { _ = m.Set("sluice:a:{s3}:ll1", "x") },
	func(m *miniredis.Miniredis) { _ = m.Set("sluice:a:{s5}:sr1:300000x201", "x") },
	func(m *miniredis.Miniredis) {
		m.Del("sluice:b:{s6}:sr1:1000000x21")
		_, _ = m.Push("sluice:b:{s6}:sr1:1000000x21", "x")
	},
	func(m *miniredis.Miniredis) {
		m.Del("sluice:b:{s4}:ll1")
		_, _ = m.Push("sluice:b:{s4}:ll1", "x")
	},
}

func (e asked) name() string { return fmt.Sprint("s", e.subject) }

func (e asked) add(b *loader.Batch, limiter loader.Limiter) *loader.Result {
	reserver, canBook := limiter.(loader.Reserver)
	switch {
	case e.n == 0:
		return b.Peek(limiter, e.name())
	case e.books && canBook:
		return b.ReserveN(reserver, e.name(), e.n)
	}
	return b.AllowN(limiter, e.name(), e.n)
}

func (e asked) call(limiter loader.Limiter) (loader.Decision, error) {
	reserver, canBook := limiter.(loader.Reserver)
	switch {
	case e.n == 0:
		return limiter.Peek(background, e.name())
	case e.books && canBook:
		r, err := reserver.ReserveN(background, e.name(), e.n)
		if err != nil {
			return loader.Decision{}, err
		}
		return r.Decision(), nil
	}
	return limiter.AllowN(background, e.name(), e.n)
}

// allowAll asks about so many subjects in one batch.
func allowAll(limits *loader.Loader, limiter loader.Limiter, subjects int) ([]*loader.Result, error) {
	batch := limits.Batch()
	for i := range subjects {
		batch.Allow(limiter, fmt.Sprint("s", i))
	}
	return batch.Do(background)
}

// A batch sends as few commands as the bounds of the scripts allow.
func TestManyBounds(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb, loader.Timeout(never))
		must(t, limits.Preload(background))
		sent := watchScripts(rdb)
		gcra, log := limits.GCRA("x", loader.PerMinute(2000)), limits.ListLog("x", loader.PerMinute(2000))
		ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(2000)})
		two := limits.SliceRing("y", []loader.Limit{loader.PerMinute(2000), loader.PerHour(2000)})
		five := limits.SliceRing("z", []loader.Limit{
			permits(2000, time.Second), permits(2000, 2*time.Second), permits(2000, 3*time.Second), loader.PerMinute(2000),
			loader.PerHour(2000),
		})
		for _, c := range []struct {
			limiter  loader.Limiter
			subjects int
			permits  int64
			want     string
		}{
			{gcra, 3, 1, "gcra 1, gcra 1, gcra 1"},
			{gcra, 4, 1, "gcra_many 4"},
			{gcra, 130, 1, "gcra_many 64, gcra_many 64, gcra 1, gcra 1"},
			{log, 64, 1, "list_log_many 64"},
			{log, 12, 100, "list_log_many 10, list_log 1, list_log 1"},
			{log, 4, 300, "list_log 1, list_log 1, list_log 1, list_log 1"},
			{ring, 16, 300, "slice_ring_many 16"},
			{ring, 18, 300, "slice_ring_many 16, slice_ring 1, slice_ring 1"},
			{two, 12, 300, "slice_ring_many 16, slice_ring_many 8"},
			{five, 4, 300, "slice_ring 5, slice_ring 5, slice_ring 5, slice_ring 5"},
		} {
			batch := limits.Batch()
			for i := range c.subjects {
				batch.AllowN(c.limiter, fmt.Sprint("s", i), c.permits)
			}
			if _, err := batch.Do(background); err != nil {
				t.Error(err)
			}
			if got := sent.take(); got != c.want {
				t.Errorf("%d subjects, %d permits: sent %s, want %s", c.subjects, c.permits, got, c.want)
			}
		}
	})
}

// Reports for several subjects in one pipeline go as one command if their amounts are equal, and else by themselves.
func TestManyReports(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb, loader.Timeout(never))
		must(t, limits.Preload(background))
		sent, onTheWay, release := watchScripts(rdb), make(chan bool, 99), make(chan bool)
		rdb.AddHook(around(func(_ context.Context, _ []redis.Cmder, send func() error) error {
			onTheWay <- true
			<-release
			return send()
		}))
		ring := limits.SliceRing("x", []loader.Limit{permits(1000, time.Minute), permits(5000, time.Hour)})
		amounts := []int64{100, 200, 0, 7, 7, 1500, 7, 7} // of s0 to s5, and of s0 and s1 again
		var wg sync.WaitGroup
		for i, n := range amounts {
			wg.Go(func() {
				d, err := ring.Report(background, fmt.Sprint("s", i%6), n)
				if err != nil || d.Granted != (n <= 1000) {
					t.Errorf("a report of %d: %+v, %v", n, d, err)
				}
			})
			if i < 2 { // it is sent by itself
				<-onTheWay
				continue
			}
			for limits.SharedRequests() < i-1 {
				time.Sleep(time.Millisecond)
			}
		}
		close(release)
		wg.Wait()
		got := strings.Split(sent.take(), ", ")
		slices.Sort(got)
		want := "[slice_ring 2 slice_ring 2 slice_ring 2 slice_ring 2 slice_ring_many 8]"
		if fmt.Sprint(got) != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		for i, want := range []int64{893, 793, 1000, 993, 993, 0} {
			wantRemaining(t, ring, fmt.Sprint("s", i), want)
		}
	})
}

// A script for many keys is loaded like another. Where it is not preloaded, or refused, single calls are sent, and
// after that for some time.
func TestManyMissing(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		sent := watchScripts(rdb)
		for _, c := range []struct {
			name   string
			limits *loader.Loader
			first  string
			second string
		}{
			{"loads", loader.New(rdb, loader.Timeout(never)), "gcra_many 4, gcra_many 4", "gcra_many 4"},
			{"preloaded only", loader.New(rdb, loader.Timeout(never), loader.PreloadedOnly()),
				"gcra_many 4, gcra 1, gcra 1, gcra 1, gcra 1",
				"gcra 1, gcra 1, gcra 1, gcra 1"},
		} {
			must(t, rdb.ScriptFlush(background).Err())
			must(t, rdb.ScriptLoad(background, sluice.GCRAV1().Source).Err())
			limiter := c.limits.GCRA("x", loader.PerMinute(100))
			for _, want := range []string{c.first, c.second} {
				if _, err := allowAll(c.limits, limiter, 4); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				if got := sent.take(); got != want {
					t.Errorf("%s: sent %s, want %s", c.name, got, want)
				}
			}
		}
	})
}

// What a server refuses for many keys is asked for one by one. An error inside a script leaves the outcome unknown.
func TestManyRefused(t *testing.T) {
	for _, c := range []struct {
		refusal string
		unknown bool
		next    string
	}{
		{"CROSSSLOT Keys in request don't hash to the same slot", false, "gcra 1, gcra 1, gcra 1, gcra 1"},
		{"NOPERM No permissions to access a key", false, "gcra 1, gcra 1, gcra 1, gcra 1"},
		{"BADARG KEYS: want 1 to 64", false, "gcra_many 4"},
		{"ERR no room script: x, on @user_script:9.", true, "gcra_many 4"},
	} {
		_, rdb := fake(t)
		limits := loader.New(rdb, loader.Timeout(never))
		must(t, limits.Preload(background))
		refuses := true
		rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			if refuses && cmds[0].Args()[1] == sluice.GCRAManyV1SHA1 {
				refuses = false
				cmds[0].SetErr(serverError(c.refusal))
				return cmds[0].Err()
			}
			return send()
		}))
		limiter := limits.GCRA("x", loader.PerMinute(2))
		results, err := allowAll(limits, limiter, 4)
		for _, r := range results {
			if c.unknown != errors.Is(r.Err, loader.ErrOutcomeUnknown) || !c.unknown && r.Remaining != 1 {
				t.Errorf("%s: %+v, %v", c.refusal, r, err)
			}
		}
		sent := watchScripts(rdb)
		if _, err := allowAll(limits, limiter, 4); err != nil {
			t.Errorf("%s: afterwards %v", c.refusal, err)
		}
		if got := sent.take(); got != c.next {
			t.Errorf("%s: sent %s afterwards, want %s", c.refusal, got, c.next)
		}
	}
}

// One of many callers leaves before their command is written: nothing is decided for that one, and the others get
// their decisions.
func TestManyCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var written []string
		release := make(chan struct{})
		rdb := redis.NewClient(options("nowhere:0"))
		rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, _ func() error) error {
			<-release
			mu.Lock()
			defer mu.Unlock()
			for _, cmd := range cmds {
				words := write(cmd)
				keys, _ := strconv.Atoi(words[2])
				written = append(written, strings.Join(words[2:3+max(keys, 1)], " "))
				switch {
				case keys == 0:
					cmd.SetErr(serverError("BADARG KEYS: want 1 to 64"))
				case keys == 1:
					cmd.(interface{ SetVal([]int64) }).SetVal(yes(2))
					cmd.SetErr(nil)
				default:
					cmd.(interface{ SetVal([]int64) }).SetVal(append([]int64{5}, slices.Repeat(yes(2)[:4], keys)...))
					cmd.SetErr(nil)
				}
			}
			return nil
		}))
		limiter := loader.New(rdb, loader.Timeout(never)).GCRA("x", loader.PerMinute(5))
		ctx, leave := context.WithCancel(background)
		var done atomic.Int64
		come(limiter, &done, "a", "b") // both pipelines are on their way
		come(limiter, &done, "c", "d", "e")
		var left error
		go func() { left = errOf(limiter.Allow(ctx, "leaves")) }()
		synctest.Wait()
		release <- struct{}{} // the next pipeline is made of four, and not written yet
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		synctest.Wait()
		slices.Sort(written)
		got := fmt.Sprint(written)
		want := "[0 sluice:x:{c}:gcra1 1 sluice:x:{a}:gcra1 1 sluice:x:{b}:gcra1 1 sluice:x:{c}:gcra1 " +
			"1 sluice:x:{d}:gcra1 1 sluice:x:{e}:gcra1]"
		if got != want {
			t.Errorf("written %s, want %s", got, want)
		}
		if !errors.Is(left, context.Canceled) || errors.Is(left, loader.ErrOutcomeUnknown) || done.Load() != 5 {
			t.Errorf("the one who left: %v; %d of the others granted", left, done.Load())
		}
	})
}

// A Ring has several servers: its commands have one key.
func TestManyNotOnARing(t *testing.T) {
	m := miniredis.RunT(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": m.Addr()}, DisableIdentity: true})
	t.Cleanup(func() { _ = ring.Close() })
	sent := watchScripts(ring)
	limits := loader.New(ring, loader.Timeout(never))
	must(t, limits.Preload(background))
	if _, err := allowAll(limits, limits.GCRA("x", loader.PerMinute(2)), 4); err != nil {
		t.Error(err)
	}
	if got := sent.take(); got != "gcra 1, gcra 1, gcra 1, gcra 1" {
		t.Errorf("sent %s", got)
	}
}

// Where long searches use up a call's time, the keys that are left are asked for one by one.
func TestManyLongSearches(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb, loader.Timeout(never))
		log := limits.ListLog("x", loader.PerHour(5000))
		now, err := rdb.Time(background).Result()
		must(t, err)
		for i := range 40 {
			entries := make([]any, 4000)
			for k := range entries {
				entries[k] = now.Add(-2 * time.Hour).UnixMicro()
				if k >= 3000 {
					entries[k] = now.Add(-time.Minute).UnixMicro()
				}
			}
			must(t, rdb.RPush(background, fmt.Sprintf("sluice:x:{s%d}:ll1", i), entries...).Err())
		}
		results, err := allowAll(limits, log, 40)
		for i, r := range results {
			if r.Err != nil || !r.Granted || r.Remaining != 3999 {
				t.Errorf("subject %d: %+v, %v", i, r, err)
			}
		}
	})
}
