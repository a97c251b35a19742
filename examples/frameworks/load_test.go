package frameworks

import (
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/internal/proof/soak"
	"github.com/sluice-redis/sluice/loader"
)

var requests = flag.Int("requests", 20_000, "requests of TestServerLoad with a file; a fifth of them without")

// kills is how often Redis is killed during a load.
const kills = 5

// TestServerLoad calls examples/api as fast as it answers, while its Redis is killed and restarted: once with a file
// that has each grant before the reply, and once without. Each restart without one may grant a limit again.
func TestServerLoad(t *testing.T) {
	binary := exampletest.Build(t, "../..", "./examples/api")
	for _, c := range []struct {
		name     string
		requests int
		options  []string
		lost     int64 // limits that may be granted again
	}{
		{"file", *requests, []string{"--appendonly", "yes", "--appendfsync", "always"}, 0},
		{"memory", *requests / 5, nil, kills},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, c.options...)
			address := exampletest.Serve(t, exec.Command(binary, "-redis", "redis://"+server.Addr, "-listen", "127.0.0.1:0"))
			l := &load{granted: map[string][]soak.Spent{}}
			var ended sync.WaitGroup
			ended.Go(func() { l.run(address, uint64(c.requests)) })
			l.killAndRestart(t, server, int64(c.requests), func(int64) {})
			ended.Wait()
			l.check(t, c.lost)
		})
	}
}

// killAndRestart kills the server several times, evenly over the load, and restarts it once it is missed. It calls
// after each time.
func (l *load) killAndRestart(t *testing.T, server *redistest.Server, requests int64, after func(i int64)) {
	t.Helper()
	for i := range int64(kills) {
		redistest.Await(t, "the next part of the load", func() bool { return l.answered.Load() >= requests*(i+1)/(kills+1) })
		server.Kill()
		before := l.unavailable.Load()
		redistest.Await(t, "answers without Redis", func() bool { return l.unavailable.Load() >= before+50 })
		server.Restart(t)
		after(i)
	}
	l.up.Store(time.Now().UnixNano())
}

// load is what vegeta saw.
type load struct {
	answered, unavailable atomic.Int64
	up                    atomic.Int64 // when Redis was restarted for the last time, in nanoseconds since 1970; 0 before
	recovered             atomic.Bool  // something was granted after that
	metrics               vegeta.Metrics
	wrong                 []string
	granted               map[string][]soak.Spent // by API key
}

var apiKeys = []string{"key-1", "key-2", "key-2"}

// run sends so many requests from 64 workers, and more until something is granted after the last restart.
func (l *load) run(address string, requests uint64) {
	var next atomic.Uint64
	targets := func(target *vegeta.Target) error {
		key := apiKeys[next.Add(1)%uint64(len(apiKeys))]
		target.Method, target.URL = http.MethodGet, address+"/hello?"+key
		target.Header = http.Header{"X-Api-Key": {key}}
		return nil
	}
	attacker := vegeta.NewAttacker(vegeta.MaxWorkers(64), vegeta.Timeout(10*time.Second))
	for result := range attacker.Attack(targets, unpaced{l, requests}, 0, "") {
		l.add(result)
	}
	l.metrics.Close()
}

// unpaced sends requests without a pause.
type unpaced struct {
	*load
	requests uint64
}

func (u unpaced) Pace(_ time.Duration, sent uint64) (wait time.Duration, stop bool) {
	return 0, sent >= u.requests && u.recovered.Load() || sent >= 100*u.requests
}
func (unpaced) Rate(time.Duration) float64 { return 0 } // for reports

func (l *load) add(r *vegeta.Result) {
	l.answered.Add(1)
	l.metrics.Add(r)
	switch {
	case r.Code == http.StatusOK:
		_, key, _ := strings.Cut(r.URL, "?")
		if up := l.up.Load(); up > 0 && r.Timestamp.UnixNano() > up {
			l.recovered.Store(true)
		}
		l.granted[key] = append(l.granted[key], soak.Spent{From: r.Timestamp, To: r.End(), Permits: 1})
	case r.Code == http.StatusTooManyRequests && r.Headers.Get("Retry-After") != "" && r.Headers.Get("RateLimit") != "":
	case r.Code == http.StatusServiceUnavailable:
		l.unavailable.Add(1)
	default:
		l.wrong = append(l.wrong, fmt.Sprintf("%d %s %v", r.Code, r.Error, r.Headers))
	}
}

// check fails the test if there was an answer other than 200, a whole 429 and 503, if a window had more than the limit
// and the limits that were lost, or if nothing was granted after the last restart.
func (l *load) check(t *testing.T, lost int64) {
	t.Helper()
	m := l.metrics
	t.Logf("%d requests in %v, %.0f a second; p50 %v, p99 %v, longest %v; statuses %v; %d kills", m.Requests,
		(m.Duration + m.Wait).Round(time.Millisecond), m.Rate, m.Latencies.P50, m.Latencies.P99, m.Latencies.Max,
		m.StatusCodes, kills)
	if len(l.wrong) > 0 {
		t.Errorf("%d answers are neither 200, nor a whole 429, nor 503, the first: %s", len(l.wrong), l.wrong[0])
	}
	for key, limit := range map[string]loader.Limit{"key-1": loader.PerMinute(60), "key-2": loader.PerSecond(100)} {
		extra := soak.Extra(l.granted[key], limit, soak.InWindow)
		t.Logf("%s: %d granted, %d more than %d in %v", key, len(l.granted[key]), extra, limit.Permits, limit.Window)
		if extra > lost*limit.Permits {
			t.Errorf("%s: %d more than %d in %v", key, extra, limit.Permits, limit.Window)
		}
	}
	if !l.recovered.Load() {
		t.Error("nothing was granted after the last restart")
	}
}
