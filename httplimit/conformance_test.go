package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/dunglas/httpsfv"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

const (
	conformanceSetups   = 2000 // random limits,
	conformanceRequests = 50   // and requests under each
)

// drawn is a random middleware, with what its headers may say at most.
type drawn struct {
	middleware *httplimit.Middleware
	maxN       int64
	maxReset   map[string]int64 // by the name of the item, in seconds: the window and a slice
	n          int64            // what the next request costs
}

// draw makes a middleware of one to three random limiters.
func draw(random *rand.Rand, limits *loader.Loader, subject string, opts ...httplimit.Option) *drawn {
	d := &drawn{maxN: 1 << 20, maxReset: map[string]int64{}}
	var charges []httplimit.Charge
	kinds := []func(*rand.Rand, *loader.Loader, string) loader.Limiter{
		d.drawListLog, d.drawZSetLog, d.drawSliceRing, d.drawGCRA, d.drawTokenBucket,
	}
	first := random.IntN(len(kinds))
	charges = append(charges, httplimit.Charge{
		Limiter: kinds[first](random, limits, "a"), Key: httplimit.KeyOf(subject)})
	if first < 3 {
		for i := range random.IntN(3) {
			limiter := kinds[random.IntN(3)](random, limits, strconv.Itoa(i))
			charges = append(charges, httplimit.Charge{Limiter: limiter, Key: httplimit.KeyOf(subject)})
		}
	}
	d.middleware = httplimit.PerRequest(limits, func(*http.Request) ([]httplimit.Charge, error) {
		for i := range charges {
			charges[i].N = d.n
		}
		return charges, nil
	}, opts...)
	return d
}

// drawLimit draws a limit, mostly a small one, with a window of 1 ms to 366 days.
func drawLimit(random *rand.Rand, longest time.Duration) loader.Limit {
	window := time.Millisecond << random.IntN(35)
	window += time.Duration(random.Int64N(int64(window))).Truncate(time.Microsecond)
	return loader.Limit{Permits: 1 + random.Int64N(1<<random.IntN(10)), Window: min(window, longest)}
}

const longestWindow = 366 * 24 * time.Hour

func (d *drawn) add(item string, limit loader.Limit, maxReset time.Duration) {
	d.maxN = min(d.maxN, limit.Permits)
	d.maxReset[item] = int64((maxReset + time.Second - 1) / time.Second)
}

func (d *drawn) drawListLog(random *rand.Rand, limits *loader.Loader, name string) loader.Limiter {
	limit := drawLimit(random, longestWindow)
	d.add("list-"+name, limit, limit.Window)
	return limits.ListLog("list-"+name, limit)
}

func (d *drawn) drawZSetLog(random *rand.Rand, limits *loader.Loader, name string) loader.Limiter {
	limit := drawLimit(random, longestWindow)
	d.maxN = min(d.maxN, 500)
	d.add("zset-"+name, limit, limit.Window)
	return limits.ZSetLog("zset-"+name, limit)
}

func (d *drawn) drawTokenBucket(random *rand.Rand, limits *loader.Loader, name string) loader.Limiter {
	limit := drawLimit(random, longestWindow)
	d.add("bucket-"+name, limit, limit.Window)
	return limits.TokenBucket("bucket-"+name, limit)
}

func (d *drawn) drawGCRA(random *rand.Rand, limits *loader.Loader, name string) loader.Limiter {
	limit := drawLimit(random, longestWindow)
	burst := limit.Permits
	if random.IntN(2) > 0 {
		burst = 1 + random.Int64N(50)
		limit.Burst = burst
	}
	refill := float64(limit.Window) * float64(burst) / float64(limit.Permits)
	d.add("gcra-"+name, loader.Limit{Permits: burst}, time.Duration(refill)+2*time.Microsecond)
	return limits.GCRA("gcra-"+name, limit)
}

// drawSliceRing draws a ring of one to four windows, each twice to a hundred times as long as the one before.
func (d *drawn) drawSliceRing(random *rand.Rand, limits *loader.Loader, name string) loader.Limiter {
	windows := []loader.Limit{drawLimit(random, time.Hour)}
	windows[0].Window = max(windows[0].Window, 10*time.Millisecond)
	slice := max(windows[0].Window/10, time.Millisecond).Truncate(time.Microsecond)
	for range random.IntN(4) {
		longer := drawLimit(random, time.Hour)
		longer.Window = windows[len(windows)-1].Window * time.Duration(2+random.IntN(8))
		if longer.Window/slice < 999 {
			windows = append(windows, longer)
		}
	}
	for _, w := range windows {
		item := "ring-" + name
		if len(windows) > 1 {
			item += "-" + shortSpan(w.Window)
		}
		slices := (w.Window + slice - 1) / slice
		d.add(item, w, (slices+1)*slice)
	}
	return limits.SliceRing("ring-"+name, windows, loader.Slice(slice))
}

// shortSpan is a window as items are named by it.
func shortSpan(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d > time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d/time.Minute%60)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// request makes a random request and returns what is wrong with the answer's headers.
func (d *drawn) request(random *rand.Rand) (*httptest.ResponseRecorder, error) {
	d.n = 1 + random.Int64N(1+d.maxN/8)
	return d.again()
}

// again makes the same request again.
func (d *drawn) again() (*httptest.ResponseRecorder, error) {
	w := serve(d.middleware.Handler(ok), httptest.NewRequest(http.MethodGet, "/", nil))
	return w, d.wrong(w)
}

// wrong returns what is wrong with the headers of an answer.
func (d *drawn) wrong(w *httptest.ResponseRecorder) error {
	policies, err := itemsOf(w, "Ratelimit-Policy", "q", "w")
	if err != nil {
		return err
	}
	states, err := itemsOf(w, "Ratelimit", "r", "t")
	if err != nil {
		return err
	}
	retryAfter, err := retryAfterOf(w)
	if err != nil {
		return err
	}
	if len(policies) != len(states) || len(states) == 0 {
		return fmt.Errorf("%d policies and %d states", len(policies), len(states))
	}
	for i, state := range states {
		q, window, r, t := policies[i].values[0], policies[i].values[1], state.values[0], state.values[1]
		maxReset, known := d.maxReset[state.name]
		switch {
		case state.name != policies[i].name || !known:
			return fmt.Errorf("item %d is %q, the policy %q; known are %v", i, state.name, policies[i].name, d.maxReset)
		case r < 0 || r > q || q < 1:
			return fmt.Errorf("%q: r=%d of q=%d", state.name, r, q)
		case window < 1 || t < 0 || t > maxReset:
			return fmt.Errorf("%q: w=%d, t=%d, want at most %d", state.name, window, t, maxReset)
		case w.Code == 429 && t > retryAfter:
			return fmt.Errorf("%q: t=%d beyond Retry-After %d", state.name, t, retryAfter)
		}
	}
	return nil
}

// item is one item of a header, with two integer parameters.
type item struct {
	name   string
	values [2]int64
}

// itemsOf parses a header as a list of items with these parameters.
func itemsOf(w *httptest.ResponseRecorder, header string, names ...string) (items []item, err error) {
	list, err := httpsfv.UnmarshalList(w.Header()[header])
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", header, w.Header()[header], err)
	}
	for _, member := range list {
		parsed := member.(httpsfv.Item)
		it := item{name: parsed.Value.(string)}
		for i, name := range names {
			value, _ := parsed.Params.Get(name)
			number, ok := value.(int64)
			if !ok {
				return nil, fmt.Errorf("%s %q: no integer %s", header, w.Header()[header], name)
			}
			it.values[i] = number
		}
		items = append(items, it)
	}
	return items, nil
}

// retryAfterOf returns Retry-After: whole seconds of a 429, nothing of a 200.
func retryAfterOf(w *httptest.ResponseRecorder) (int64, error) {
	text := w.Header().Get("Retry-After")
	seconds, err := strconv.ParseUint(text, 10, 63)
	switch {
	case w.Code == 200 && text == "":
		return 0, nil
	case w.Code != 429 || err != nil || seconds == 0:
		return 0, fmt.Errorf("%d with Retry-After %q: %s", w.Code, text, w.Body)
	}
	return int64(seconds), nil
}

// On a real server, the headers of 100000 random decisions under random limits are right.
func TestServerHeaders(t *testing.T) {
	_, limits := real(t, loader.Timeout(time.Minute))
	setups := make(chan uint64)
	var workers sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for range 32 {
		workers.Go(func() {
			for seed := range setups {
				random := rand.New(rand.NewPCG(seed, 0))
				d := draw(random, limits, strconv.FormatUint(seed, 10), httplimit.RetryJitter(time.Second))
				for range conformanceRequests {
					w, err := d.request(random)
					if err != nil {
						t.Errorf("setup %d: %v\n%v", seed, err, w.Header())
						break
					}
					mu.Lock()
					codes[w.Code]++
					mu.Unlock()
				}
			}
		})
	}
	for seed := range uint64(conformanceSetups) {
		setups <- seed
	}
	close(setups)
	workers.Wait()
	t.Logf("answers: %v", codes)
	if codes[200] < 10000 || codes[429] < 10000 {
		t.Errorf("%v: want many of both", codes)
	}
}

// A client that comes back when Retry-After says is granted, under random limits, and a second earlier it would not be.
func TestRetryAfterIsObeyed(t *testing.T) {
	m, limits := fake(t)
	obeyed := 0
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		d, now := draw(random, limits, strconv.FormatUint(seed, 10)), second0
		for range 100 {
			m.SetTime(now)
			w, err := d.request(random)
			if err != nil {
				t.Fatalf("setup %d: %v", seed, err)
			}
			if w.Code == 200 {
				now = now.Add(time.Duration(random.IntN(1000)) * time.Microsecond)
				continue
			}
			wait, _ := retryAfterOf(w)
			obeyed++
			if !comesBack(t, m, limits, d, now.Add(time.Duration(wait)*time.Second)) {
				t.Fatalf("setup %d: Retry-After %d: %v", seed, wait, w.Header())
			}
			break
		}
	}
	if obeyed < 75 {
		t.Errorf("only %d of the setups came to a denial", obeyed)
	}
}

// comesBack repeats a request that was denied: a second too early, and then at the time that Retry-After has said. It
// reports whether it was denied and then granted.
func comesBack(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader, d *drawn, at time.Time) bool {
	t.Helper()
	var codes [2]int
	for i, now := range []time.Time{at.Add(-time.Second), at} {
		if err := limits.Flush(t.Context()); err != nil { // what the others of an All have granted
			t.Fatal(err)
		}
		m.SetTime(now)
		w, err := d.again()
		if err != nil {
			t.Error(err)
		}
		codes[i] = w.Code
	}
	return codes == [2]int{429, 200}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// A name is written as RFC 9651 has it.
func TestHeaderNames(t *testing.T) {
	header, result := http.Header{}, httplimit.Result{}
	result.Decisions = []httplimit.Decision{{Policy: `a"b\`, Decision: loader.Decision{Granted: true}}}
	httplimit.SetHeaders(header, httplimit.Draft11, result)
	if got, want := header.Get("RateLimit"), `"a\"b\\";r=0;t=0`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
