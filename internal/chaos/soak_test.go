//go:build unix

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/audit"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var soakFor = flag.Duration("soak", 2*time.Second, "how long TestSoak runs")

const (
	soakCallers   = 8 // of each server
	soakPause     = 4 * time.Millisecond
	soakWarmUp    = time.Second // the roaming subjects of the beginning have expired
	leastRounds   = 6
	leastCompared = 30 // rounds from which on the first and the last third are more than single faults

	roaming      = 500 * time.Millisecond // window of the subjects that come and go
	staying      = 30 * time.Minute       // window of those that stay
	operatedKeys = "sluice:operated:{*}:tb1"
)

// soaked is a server under load, with its clock and its network.
type soaked struct {
	t      *testing.T
	server *redistest.Server
	clock  *redistest.Clock
	line   *line
	admin  *redis.Client // past the line
	limits []*loader.Loader

	asked atomic.Int64
	mu    sync.Mutex
	kinds map[string]int64 // of errors
}

// TestSoak asks two servers for everything that the loader can do, while faults happen at random. The memory of
// both sides stays flat, which takes a longer run than the default to tell, and an hour of the servers' clocks
// later nothing is left but what an operator set. One of the servers is never killed: on it memory is measured.
func TestSoak(t *testing.T) {
	lasting, mortal := soak(t), soak(t)
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for i := range 2 * soakCallers {
		on := []*soaked{lasting, mortal}[i%2]
		callers.Go(func() { on.call(ctx, rand.New(rand.NewPCG(uint64(i), 2))) })
	}
	time.Sleep(soakWarmUp)

	samples, injected := rounds(t, lasting, mortal)
	stop()
	callers.Wait()
	flat(t, samples)
	for _, s := range []*soaked{lasting, mortal} {
		s.nothingIsLeft()
	}
	t.Logf("%d calls; errors: %s; faults: %s", lasting.asked.Load()+mortal.asked.Load(),
		listOf(sum(lasting.kinds, mortal.kinds)), listOf(injected))
}

// soak starts a server and the clients of it.
func soak(t *testing.T) *soaked {
	t.Helper()
	server, clock := redistest.StartWithClock(t, redistest.Servers(t)[0])
	line := newLine(t, server.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: line.addr, DisableIdentity: true, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return &soaked{
		t: t, server: server, clock: clock, line: line, admin: server.Client(t), kinds: map[string]int64{},
		limits: []*loader.Loader{loader.New(rdb), loader.New(rdb, loader.ShareRoundTrips())},
	}
}

// call is one caller.
func (s *soaked) call(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		if err := s.ask(random); err != nil {
			s.note(err)
		}
		s.asked.Add(1)
		time.Sleep(rand.N(2 * soakPause))
	}
}

func (s *soaked) note(err error) {
	kind := audit.KindOf(err)
	if as := (*loader.WaitError)(nil); errors.As(err, &as) {
		kind = "would wait too long"
	}
	if kind == audit.Unexpected {
		s.t.Errorf("a caller saw: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[kind]++
}

// ask makes one call of any kind, of any script.
func (s *soaked) ask(random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	limits := s.limits[random.IntN(len(s.limits))]
	limiter, subject := s.limiter(limits, random)
	var err error
	switch random.IntN(14) {
	case 0:
		_, err = limiter.Peek(ctx, subject)
	case 1:
		_, err = limiter.AllowN(ctx, subject, 2)
	case 2:
		err = reserveAndCancel(ctx, limiter, subject)
	case 3:
		ctx, cancel := context.WithTimeout(ctx, patience/10)
		defer cancel()
		err = limiter.Wait(ctx, subject)
	case 4:
		err = limiter.Reset(ctx, subject)
	case 5:
		err = operate(ctx, limits, fmt.Sprint(random.IntN(10)), 2+random.Int64N(4))
	case 6:
		err = s.batch(ctx, limits, random)
	case 7:
		err = reserveAndSettle(ctx, limits, subject, random)
	case 8:
		err = allowAndReturn(ctx, limiter, subject)
	case 9:
		err = s.all(ctx, limits, random)
	default:
		_, err = limiter.Allow(ctx, subject)
	}
	return err
}

// limiter is one of any script, for a subject that stays or for one that comes and goes.
func (s *soaked) limiter(limits *loader.Loader, random *rand.Rand) (loader.Limiter, string) {
	maker := makers[random.IntN(len(makers))]
	if random.IntN(4) == 0 {
		return maker.patient(limits, loader.Limit{Permits: 4, Window: staying}), fmt.Sprint("staying-", random.IntN(50))
	}
	subject := fmt.Sprintf("roaming-%d-%d", s.asked.Load()/1000, random.IntN(100))
	return maker.patient(limits, loader.Limit{Permits: 4, Window: roaming}), subject
}

// allowAndReturn gives a permit back as soon as it is granted.
func allowAndReturn(ctx context.Context, limiter loader.Limiter, subject string) error {
	d, err := limiter.Allow(ctx, subject)
	if returner, ok := limiter.(loader.Returner); ok && err == nil {
		_, err = returner.GiveBack(ctx, subject, d, 1)
	}
	return err
}

// all asks three limiters at once, leaving out those that cannot give back.
func (s *soaked) all(ctx context.Context, limits *loader.Loader, random *rand.Rand) error {
	all := limits.All()
	for n := 0; n < 3; {
		if limiter, subject := s.limiter(limits, random); isReturner(limiter) {
			all.Allow(limiter, subject)
			n++
		}
	}
	_, err := all.Do(ctx)
	return err
}

func isReturner(limiter loader.Limiter) bool {
	_, ok := limiter.(loader.Returner)
	return ok
}

func reserveAndCancel(ctx context.Context, limiter loader.Limiter, subject string) error {
	booker, ok := limiter.(loader.Reserver)
	if !ok {
		return nil
	}
	r, err := booker.Reserve(ctx, subject)
	if err != nil {
		return err
	}
	if err := r.Cancel(ctx); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// reserveAndSettle settles what it has reserved, now and then too late.
func reserveAndSettle(ctx context.Context, limits *loader.Loader, subject string, random *rand.Rand) error {
	tokens := limits.Budget("tokens", []loader.Limit{{Permits: 40, Window: roaming}}, loader.SettleWithin(roaming/5))
	id := fmt.Sprint(random.Uint64())
	d, err := tokens.Reserve(ctx, subject, id, 1+random.Int64N(10))
	if err != nil || !d.Granted {
		return err
	}
	if err := tokens.Settle(ctx, subject, id, random.Int64N(50)); !errors.Is(err, loader.ErrNotReserved) {
		return err
	}
	return nil
}

// operate sets a limit to stay, as an operator does, and asks for a permit of it.
func operate(ctx context.Context, limits *loader.Loader, subject string, permits int64) error {
	bucket := limits.TokenBucket("operated", loader.PerSecond(2))
	if err := bucket.SetLimit(ctx, subject, loader.PerSecond(permits)); err != nil {
		return err
	}
	_, err := bucket.Allow(ctx, subject)
	return err
}

func (s *soaked) batch(ctx context.Context, limits *loader.Loader, random *rand.Rand) error {
	batch := limits.Batch()
	for range 10 {
		limiter, subject := s.limiter(limits, random)
		batch.Allow(limiter, subject)
	}
	_, err := batch.Do(ctx)
	return err
}

// rounds injects one fault after another for as long as the soak lasts, and samples after each.
func rounds(t *testing.T, lasting, mortal *soaked) (samples []sample, injected map[string]int64) {
	t.Helper()
	injected = map[string]int64{}
	begun, told := time.Now(), time.Now()
	for len(samples) < leastRounds || time.Since(begun) < *soakFor {
		s, fault := mortal, soakFaults[rand.IntN(len(soakFaults))]
		if rand.IntN(2) == 0 && !fault.kills {
			s = lasting
		}
		must(t, fault.inject(s))
		injected[fault.what]++
		time.Sleep(100 * time.Millisecond)
		samples = append(samples, take(t, lasting))
		if time.Since(told) > min(max(*soakFor/20, 10*time.Second), time.Minute) {
			told = time.Now()
			t.Logf("%v: %d calls, %d faults, %v", time.Since(begun).Round(time.Second),
				lasting.asked.Load()+mortal.asked.Load(), len(samples), samples[len(samples)-1])
		}
	}
	return samples, injected
}

// soakFaults are undone when inject returns.
var soakFaults = []struct {
	what   string
	kills  bool // what the server holds is lost
	inject func(*soaked) error
}{
	{"kill -9 and restart", true, func(s *soaked) error {
		s.server.Kill()
		shortly()
		s.server.Restart(s.t)
		return nil
	}},
	{"SCRIPT FLUSH", false, func(s *soaked) error { return s.admin.ScriptFlush(context.Background()).Err() }},
	{"CLIENT KILL", false, func(s *soaked) error {
		return s.admin.ClientKillByFilter(context.Background(), "TYPE", "normal").Err()
	}},
	{"connections cut", false, func(s *soaked) error {
		s.line.cut()
		return nil
	}},
	{"slow network", false, func(s *soaked) error {
		s.line.delay.Store(int64(rand.N(50 * time.Millisecond)))
		shortly()
		s.line.delay.Store(0)
		return nil
	}},
	{"SIGSTOP and SIGCONT", false, func(s *soaked) error {
		stop := syscall.Kill(s.server.PID, syscall.SIGSTOP)
		shortly()
		return errors.Join(stop, syscall.Kill(s.server.PID, syscall.SIGCONT))
	}},
	{"memory full", false, func(s *soaked) error { return s.squeezed("noeviction", 1) }},
	{"keys evicted", false, func(s *soaked) error {
		used := field(s.admin.Info(context.Background(), "memory").Val(), "used_memory")
		return s.squeezed("allkeys-random", used-100_000)
	}},
}

// shortly is how long a fault lasts.
func shortly() { time.Sleep(rand.N(time.Second)) }

// squeezed sets a server's memory limit below its use for a short time.
func (s *soaked) squeezed(policy string, maxmemory int64) error {
	ctx := context.Background()
	err := errors.Join(
		s.admin.ConfigSet(ctx, "maxmemory-policy", policy).Err(),
		s.admin.ConfigSet(ctx, "maxmemory", fmt.Sprint(maxmemory)).Err(),
	)
	shortly()
	return errors.Join(err, s.admin.ConfigSet(ctx, "maxmemory", "0").Err())
}

// sample is what both sides use: bytes of live Go heap, goroutines, bytes used by the server, keys.
type sample struct{ heap, goroutines, memory, keys int64 }

func (s sample) String() string {
	return fmt.Sprintf("Go heap %.1f MiB, goroutines %d, Redis %.1f MiB, keys %d",
		float64(s.heap)/(1<<20), s.goroutines, float64(s.memory)/(1<<20), s.keys)
}

func take(t *testing.T, on *soaked) sample {
	t.Helper()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	info, err := on.admin.Info(context.Background(), "memory").Result()
	must(t, err)
	keys, err := on.admin.DBSize(context.Background()).Result()
	must(t, err)
	return sample{int64(memory.HeapAlloc), int64(runtime.NumGoroutine()), field(info, "used_memory"), keys}
}

// flat fails the test if the median of the last third of the samples is far above that of the first.
func flat(t *testing.T, samples []sample) {
	t.Helper()
	third := len(samples) / 3
	first, last := median(samples[:third]), median(samples[len(samples)-third:])
	t.Logf("medians of the first third: %v", first)
	t.Logf("medians of the last third:  %v", last)
	if len(samples) < leastCompared {
		t.Logf("%d samples are too few to compare: make soak-load", len(samples))
		return
	}
	for _, grown := range growth(first, last) {
		t.Error(grown)
	}
}

// growth says what is larger by more than a quarter and what comes and goes.
func growth(first, last sample) (grown []string) {
	for _, of := range []struct {
		what               string
		first, last, slack int64
	}{
		{"bytes of Go heap", first.heap, last.heap, 4 << 20},
		{"goroutines", first.goroutines, last.goroutines, 10},
		{"bytes of Redis", first.memory, last.memory, 1 << 20},
		{"keys", first.keys, last.keys, 500},
	} {
		if most := of.first + of.first/4 + of.slack; of.last > most {
			grown = append(grown, fmt.Sprintf("%s: %d at first, %d at last, want at most %d", of.what, of.first, of.last, most))
		}
	}
	return grown
}

func median(samples []sample) sample {
	of := func(value func(sample) int64) int64 {
		values := make([]int64, len(samples))
		for i, s := range samples {
			values[i] = value(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return sample{
		of(func(s sample) int64 { return s.heap }), of(func(s sample) int64 { return s.goroutines }),
		of(func(s sample) int64 { return s.memory }), of(func(s sample) int64 { return s.keys }),
	}
}

// nothingIsLeft steps the server's clock by an hour and waits until only what an operator set is there.
func (s *soaked) nothingIsLeft() {
	s.t.Helper()
	ctx := context.Background()
	before := s.admin.DBSize(ctx).Val()
	s.clock.Step(time.Hour)
	var left []string
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%d keys are left, %q among them", len(left), left[:min(len(left), 20)])
		}
	}()
	redistest.Await(s.t, "an hour later nothing is left", func() bool {
		left = s.admin.Keys(ctx, "*").Val()
		return !slices.ContainsFunc(left, func(key string) bool { return !operated(key) })
	})
	s.t.Logf("%d keys at the end, an hour later %d that an operator set", before, len(left))
	if before <= int64(len(left)) {
		s.t.Error("there was nothing that could have expired")
	}
}

// operated reports whether a key is a config that an operator set.
func operated(key string) bool {
	matched, _ := path.Match(operatedKeys, key)
	return matched
}

func sum(counts ...map[string]int64) map[string]int64 {
	total := map[string]int64{}
	for _, of := range counts {
		for what, n := range of {
			total[what] += n
		}
	}
	return total
}

// TestGrowth sees each of the four that leaks, and nothing where things come and go.
func TestGrowth(t *testing.T) {
	steady := sample{10 << 20, 100, 8 << 20, 4000}
	if grown := growth(steady, sample{12 << 20, 120, 9 << 20, 4500}); grown != nil {
		t.Error(grown)
	}
	if grown := growth(steady, sample{20 << 20, 140, 12 << 20, 6000}); len(grown) != 4 {
		t.Error(grown)
	}
}
