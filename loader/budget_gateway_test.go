package loader_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	randv2 "math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// A gateway of language models, with 200,000 tokens a minute and 5 million a day for each customer. Time runs 600 times
// faster, except that a day is never over: so all charges are there at the end.
const (
	gatewayProcesses = 4
	gatewayRequests  = 50 // at once, of all processes
	gatewayMinute    = 100 * time.Millisecond
	gatewayDay       = 5 * time.Minute
	minuteTokens     = 200_000
	dayTokens        = 5_000_000
	answerTime       = 20 * time.Millisecond // at most
)

var gatewayLimits = []loader.Limit{permits(minuteTokens, gatewayMinute), permits(dayTokens, gatewayDay)}

// gatewayRequest is one request of a customer, with its times in microseconds. Redis charged the estimate at some time
// from asked to reserved, and settled it from finished to settled.
type gatewayRequest struct {
	customer          int
	estimate          int64 // 0: it was charged afterwards, without a reservation
	asked, reserved   int64
	actual            int64 // -1: it died, and was never settled
	finished, settled int64
}

const gatewayLine = "request %d %d %d %d %d %d %d"

// TestBudgetGateway has 50 concurrent requests of 4 processes reserve estimates that are wrong by up to 5 times, both
// ways, while connections are cut at random. One request in 20 dies unsettled, one in 20 is charged without a
// reservation, one in 5 is settled again. In the end each settled request is charged its actual cost, each unsettled
// one its estimate, and none was admitted while a window was full.
func TestBudgetGateway(t *testing.T) {
	if role := os.Getenv(partEnv); role != "" {
		serveAsGateway(t, role)
		return
	}
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	proxy.CutReplies(2000)
	var requests []gatewayRequest
	seen := map[string]int{}
	lines := 0
	processes := startProcesses(t, gatewayProcesses, func(i int) string { return fmt.Sprint(proxy.Addr, " ", i) },
		func(line string) {
			var r gatewayRequest
			if _, err := fmt.Sscanf(line, gatewayLine, &r.customer, &r.estimate, &r.asked, &r.reserved, &r.actual,
				&r.finished, &r.settled); err == nil {
				requests = append(requests, r)
			} else {
				seen[line]++
			}
			if lines++; lines%100 == 0 {
				proxy.CutReplies(500 + randv2.IntN(3000))
			}
		})
	started := time.Now()
	enough := func() bool {
		return time.Since(started) > *hammerFor && len(requests) > 2000 && seen["full minute"] > 100 &&
			seen["full day"] > 0 && seen["asked again"] > 50
	}
	for more := true; more; {
		processes.mu.Lock()
		before := lines
		more = !enough()
		processes.mu.Unlock()
		await(t, func() bool {
			processes.mu.Lock()
			defer processes.mu.Unlock()
			return lines > before
		})
	}
	processes.end()
	delete(seen, "PASS")
	t.Logf("%d requests in %v, %v", len(requests), time.Since(started).Round(time.Millisecond), seen)
	auditCharges(t, server.Client(t), requests)
	auditAdmissions(t, requests)
	auditIDs(t, server.Client(t), len(requests)+seen["withdrawn"])
}

// serveAsGateway is one of the processes. Every other one shares round trips.
func serveAsGateway(t *testing.T, role string) {
	var addr string
	var process int
	_, err := fmt.Sscan(role, &addr, &process)
	must(t, err)
	g := &gateway{t: t, stopped: make(chan struct{})}
	opts := []loader.Option{loader.Timeout(5 * time.Second), loader.Observe(loader.ObserverFunc(
		func(ctx context.Context, e loader.Event) {
			if e.Attempts > 1 {
				g.print("asked again")
			}
			if attempts, ok := ctx.Value(attemptsKey{}).(*int); ok {
				*attempts += e.Attempts
			}
		}))}
	if process%2 == 1 {
		opts = append(opts, loader.ShareRoundTrips())
	}
	g.budget = gatewayBudget(loader.New(client(t, addr), opts...))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(g.stopped)
	}()
	var all sync.WaitGroup
	for i := range gatewayRequests {
		if i%gatewayProcesses == process {
			all.Go(g.serve)
		}
	}
	all.Wait()
}

func gatewayBudget(limits *loader.Loader) loader.Budget {
	return limits.Budget("tokens", gatewayLimits, loader.SettleWithin(gatewayDay))
}

// attemptsKey is where a context has the number of attempts.
type attemptsKey struct{}

// gateway is one process.
type gateway struct {
	t       *testing.T
	budget  loader.Budget
	stopped chan struct{}
	mu      sync.Mutex // held while a line is printed
}

func (g *gateway) print(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Println(line)
}

// serve serves one request after the other. When a customer's day is full it goes on to the next one.
func (g *gateway) serve() {
	for customer := 0; ; {
		select {
		case <-g.stopped:
			return
		default:
		}
		r := gatewayRequest{customer: customer, estimate: 500 + randv2.Int64N(4000)}
		if full := g.request(r); full == gatewayDay {
			customer++
		}
	}
}

// request serves one request, or tells which window was full.
func (g *gateway) request(r gatewayRequest) (full time.Duration) {
	id, subject := rand.Text(), fmt.Sprint("customer ", r.customer)
	r.actual = int64(float64(r.estimate) * math.Pow(5, 2*randv2.Float64()-1))
	if randv2.IntN(20) == 0 {
		r.estimate, r.finished = 0, time.Now().UnixMicro()
		g.settle(g.budget.Charge, subject, id, r.actual)
	} else {
		if full = g.reserve(&r, subject, id); full > 0 {
			return full
		}
		<-time.After(randv2.N(answerTime))
		r.finished = time.Now().UnixMicro()
		if randv2.IntN(20) == 0 {
			r.actual = -1
		} else {
			g.settle(g.budget.Settle, subject, id, r.actual)
		}
	}
	r.settled = time.Now().UnixMicro()
	g.print(fmt.Sprintf(gatewayLine, r.customer, r.estimate, r.asked, r.reserved, r.actual, r.finished, r.settled))
	return 0
}

// reserve reserves the estimate. It asks with the same id after errors. If it is denied at a second attempt, the first
// one may still be on its way on a lost connection: it withdraws that.
func (g *gateway) reserve(r *gatewayRequest, subject, id string) (full time.Duration) {
	attempts := 0
	ctx := context.WithValue(background, attemptsKey{}, &attempts)
	r.asked = time.Now().UnixMicro()
	d, err := g.budget.Reserve(ctx, subject, id, r.estimate)
	for ; err != nil; d, err = g.budget.Reserve(ctx, subject, id, r.estimate) {
		g.print("failed")
	}
	switch {
	case d.Granted:
		r.reserved = d.Now.UnixMicro()
		return 0
	case attempts > 1:
		g.settle(g.budget.Charge, subject, id, 0)
		g.print("withdrawn")
	}
	if d.Limit.Window == gatewayDay {
		g.print("full day")
		return gatewayDay
	}
	g.print("full minute")
	<-time.After(min(d.Wait, gatewayMinute))
	return gatewayMinute
}

// settle settles a request until that is done, and one in 5 again, with any cost.
func (g *gateway) settle(
	settle func(ctx context.Context, subject, id string, actual int64) error, subject, id string, actual int64,
) {
	times := 1
	if randv2.IntN(5) == 0 {
		times = 3
	}
	for i := range times {
		ctx, cancel := context.WithTimeout(background, time.Minute)
		if err := settle(ctx, subject, id, actual+int64(i*1000)); err != nil {
			g.t.Errorf("settling %d: %v", i, err)
		}
		cancel()
	}
}

// auditCharges compares what Redis has charged each customer with the requests.
func auditCharges(t *testing.T, rdb *redis.Client, requests []gatewayRequest) {
	want := map[int]int64{}
	for _, r := range requests {
		want[r.customer] += max(r.actual, 0)
		if r.actual < 0 {
			want[r.customer] += r.estimate
		}
	}
	const unlimited = 1_000_000_000
	day := gatewayBudget(loader.New(rdb)).With(permits(unlimited, gatewayDay))
	for customer, cost := range want {
		d, err := day.Peek(background, fmt.Sprint("customer ", customer))
		must(t, err)
		if charged := unlimited - d.Remaining; charged != cost {
			t.Errorf("customer %d is charged %d, want %d", customer, charged, cost)
		}
	}
}

// auditAdmissions adds up, for each reservation, what the windows surely held before it. Times are known to lie between
// two times. What is given back is given back to the time of its reservation.
func auditAdmissions(t *testing.T, requests []gatewayRequest) {
	most := map[time.Duration]int64{}
	for i, r := range requests {
		if r.estimate == 0 {
			continue
		}
		for _, limit := range gatewayLimits {
			held := r.estimate
			for j, other := range requests {
				if i != j && other.customer == r.customer {
					held += other.surelyHeld(r, limit.Window.Microseconds())
				}
			}
			most[limit.Window] = max(most[limit.Window], held)
			if held > limit.Permits {
				t.Errorf("a reservation of %d was granted where %v held %d", r.estimate, limit.Window, held-r.estimate)
			}
		}
	}
	t.Logf("reservations filled the minute to %d and the day to %d, at least", most[gatewayMinute], most[gatewayDay])
}

// surelyHeld is what the window before the reservation of r surely held of this request.
func (other gatewayRequest) surelyHeld(r gatewayRequest, window int64) (held int64) {
	within := func(from, to int64) bool { return from > r.reserved-window && to < r.asked }
	if other.estimate > 0 && within(other.asked, other.reserved) {
		held = other.estimate
		if other.actual >= 0 && other.finished < r.reserved {
			held = min(held, other.actual)
		}
	}
	if other.actual > other.estimate && within(other.finished, other.settled) {
		held += other.actual - other.estimate
	}
	return held
}

// auditIDs wants one key of each request, which expires, and nothing else but a ring of each customer.
func auditIDs(t *testing.T, rdb *redis.Client, requests int) {
	ids, bytes := 0, int64(0)
	for keys := rdb.Scan(background, 0, "*:bg1:*", 1000).Iterator(); keys.Next(background); {
		ids++
		if ttl := rdb.PTTL(background, keys.Val()).Val(); ttl <= 0 || ttl > gatewayDay {
			t.Errorf("%s expires after %v, want %v at most", keys.Val(), ttl, gatewayDay)
		}
		bytes += rdb.MemoryUsage(background, keys.Val()).Val()
	}
	rings := 0
	for _, key := range rdb.Keys(background, "*").Val() {
		if strings.Contains(key, ":sr1:") {
			rings++
		}
	}
	if total := rdb.DBSize(background).Val(); ids != requests || total != int64(ids+rings) {
		t.Errorf("%d ids and %d rings of %d keys; want %d ids and nothing else", ids, rings, total, requests)
	}
	t.Logf("%d ids of %d bytes", ids, bytes/int64(max(ids, 1)))
}
