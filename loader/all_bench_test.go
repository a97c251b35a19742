package loader_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

const (
	attackers   = 50     // callers from one full address, and as many from addresses of their own
	attackRate  = 10_000 // calls a second, of all attackers
	serviceRate = 1000   // permits a second, for all
)

// BenchmarkAllRefusals has callers from one full address ask at 10,000 a second for an address and the whole service,
// while others ask for less and for more than the service allows, which is 1,000 a second. It prints what the others
// are granted, without attackers, with them, and with remembered denials, and the share of a core that the server
// needs.
//
//	go test ./loader -run '^$' -bench AllRefusals -benchtime 1x
func BenchmarkAllRefusals(b *testing.B) {
	for _, c := range []struct {
		name   string
		attack bool
		opts   []loader.LimiterOption
	}{
		{"no attack", false, nil},
		{"attack", true, nil},
		{"attack, remembered denials", true, []loader.LimiterOption{loader.RememberDenials(1000)}},
	} {
		for _, demand := range []int{800, 2000} {
			b.Run(fmt.Sprintf("%s, the others ask at %d", c.name, demand), func(b *testing.B) {
				for b.Loop() {
					measureRefusals(b, c.attack, demand, c.opts)
				}
			})
		}
	}
}

// measureRefusals has the callers ask for some seconds.
func measureRefusals(b *testing.B, attack bool, demand int, opts []loader.LimiterOption) {
	const during = 5 * time.Second
	rdb := real(b)
	limits := loader.New(rdb)
	must(b, limits.Preload(background))
	address := limits.ListLog("address", loader.PerHour(10_000), opts...)
	service := limits.ListLog("service", loader.PerSecond(serviceRate), opts...)
	full := address.With(loader.PerHour(1))
	must(b, errOf(full.Allow(background, "attacker")))

	var asked, granted, attacked atomic.Int64
	var took times
	ask := func(address loader.ListLog, subject string) bool {
		all := limits.All()
		all.Allow(address, subject)
		all.Allow(service, "login")
		d, err := all.Do(background)
		must(b, err)
		return d.Granted
	}
	server, began := serverTime(b, rdb), time.Now()
	var callers sync.WaitGroup
	if attack {
		callers.Go(func() {
			paced(attackers, attackRate, during, func(int) { ask(full, "attacker"); attacked.Add(1) })
		})
	}
	paced(attackers, demand, during, func(i int) {
		started := time.Now()
		if ask(address, strconv.Itoa(i)) {
			granted.Add(1)
		}
		took.add(time.Since(started))
		asked.Add(1)
	})
	rate := func(n *atomic.Int64) float64 { return float64(n.Load()) / time.Since(began).Seconds() }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate(&asked), "asked/s")
	b.ReportMetric(rate(&granted), "granted/s")
	b.ReportMetric(float64(took.quantile(0.5))/float64(time.Microsecond), "median_us")
	callers.Wait()
	must(b, limits.Flush(background))
	b.ReportMetric(rate(&attacked), "refusals/s")
	b.ReportMetric(100*float64(serverTime(b, rdb)-server)/float64(time.Since(began)), "%core")
}

// paced has n goroutines call at this rate in all. One that is late catches up.
func paced(n, rate int, during time.Duration, call func(i int)) {
	interval := time.Duration(n) * time.Second / time.Duration(rate)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			next := time.Now().Add(interval * time.Duration(i) / time.Duration(n))
			for until := time.Now().Add(during); next.Before(until); next = next.Add(interval) {
				time.Sleep(time.Until(next))
				call(i)
			}
		})
	}
	all.Wait()
}

// times are how long calls took.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

func (t *times) quantile(q float64) time.Duration {
	slices.Sort(t.all)
	return t.all[int(q*float64(len(t.all)-1))]
}
