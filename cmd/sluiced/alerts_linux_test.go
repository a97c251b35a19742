package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// installation is a way to ask sluiced, with files that have the same limits in each way.
type installation struct {
	name    string
	files   map[string]string
	wrong   []string // calls that no limit can be found for
	without []string // alerts that are for other ways
	outage  func(*testing.T, *redistest.Server)
}

var byDescriptor = map[string]string{
	"theirs.yaml": "domain: d\ndescriptors:\n  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 900000}}\n" +
		"  - {key: login, rate_limit: {unit: hour, requests_per_unit: 3}}\n" +
		"  - {key: unused, rate_limit: {unit: hour, requests_per_unit: 3}}\n" +
		"  - {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}\n",
	"ours.yaml": "limits:\n  open: {when: 'keys == \"open\"', by: keys, rates: 900000/1h, fail: open}\n",
}

var installations = []installation{
	{"auth", map[string]string{"web.yaml": "limits:\n" +
		"  wide: {when: 'request.path == \"/wide\"', by: request.ip, rates: 900000/1h}\n" +
		"  login: {when: 'request.path == \"/login\"', by: request.ip, rates: 3/1h}\n" +
		"  unused: {when: 'request.path == \"/unused\"', by: request.ip, rates: 3/1h}\n" +
		"  tried: {when: 'request.path == \"/tried\"', by: request.ip, rates: 3/1h, mode: shadow}\n" +
		"  open: {when: 'request.path == \"/open\"', by: request.ip, rates: 900000/1h, fail: open}\n",
	}, []string{"no_file"}, []string{"SluicedUnmatched", "SluicedMalformed"}, fill},
	{"grpc", byDescriptor, []string{"unmatched", "malformed"}, []string{"SluicedMisdirected"}, freeze},
	{"json", byDescriptor, []string{"unmatched", "malformed"}, []string{"SluicedMisdirected"}, kill},
}

func fill(t *testing.T, s *redistest.Server) {
	must(t, s.Client(t).ConfigSet(context.Background(), "maxmemory", "1").Err())
}

func freeze(t *testing.T, s *redistest.Server) {
	must(t, syscall.Kill(s.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(s.PID, syscall.SIGCONT) })
}

func kill(_ *testing.T, s *redistest.Server) { s.Kill() }

// Beside each way to ask sluiced, each query of the dashboard answers with data, and each alert fires when what it is
// for is done, and none before. The times of the rules are seconds here.
func TestAlerts(t *testing.T) {
	var all sync.WaitGroup // all at once, because they mostly wait
	defer all.Wait()
	for _, kind := range installations {
		all.Go(func() { t.Run(kind.name, func(t *testing.T) { newAlarm(t, kind).fireAll(t) }) })
	}
}

func (a *alarm) fireAll(t *testing.T) {
	calls := []string{"wide", "login", "open", "tried"}
	a.calls.Store(&calls)
	a.clients(t, 2)
	a.await(t, "SluicedUnused")
	for alert := range a.fired { // this machine may be slow, and Prometheus finds what it watches after some seconds
		if !slices.Contains([]string{"SluicedUnused", "SluicedSlow", "SluicedGone"}, alert) {
			t.Errorf("%s fires while all is well", alert)
		}
	}
	for name := range a.files {
		must(t, os.WriteFile(filepath.Join(a.dir, name), []byte("wrong: true\n"), 0o600))
	}
	more := slices.Concat(calls, a.wrong)
	a.calls.Store(&more)
	a.proxy.Delay(30*time.Millisecond, 0)
	a.clients(t, 10)
	a.await(t, "SluicedOldLimits", "SluicedSlow", "SluicedBusy", "SluicedUnmatched", "SluicedMalformed",
		"SluicedMisdirected")
	a.proxy.Pass()
	a.outage(t, a.redis)
	a.await(t, "SluicedWithoutRedis", "SluicedUndecided", "SluicedDegraded")
	a.stop()
	a.await(t, "SluicedGone")
	for _, alert := range alertName.FindAllStringSubmatch(read(t, deploy+"prometheus-rules.yaml"), -1) {
		if !a.fired[alert[1]] && !slices.Contains(a.without, alert[1]) {
			t.Errorf("%s has not fired", alert[1])
		}
	}
	for query, answered := range a.queries {
		if !answered {
			t.Errorf("no data for %s", query)
		}
	}
}

var (
	alertName = regexp.MustCompile(`alert: (\w+)`)
	lasts     = regexp.MustCompile(`(for: |\[|offset )\d+[smh]`)
)

// alarm is a sluiced with the Prometheus that watches it.
type alarm struct {
	installation
	dir, url, http, grpc string
	redis                *redistest.Server
	proxy                *redistest.Proxy
	stop                 func()
	calls                atomic.Pointer[[]string]
	fired                map[string]bool
	queries              map[string]bool // of the dashboard: whether one has answered
}

func newAlarm(t *testing.T, kind installation) *alarm {
	a := &alarm{installation: kind, dir: t.TempDir(), http: freePort(t), grpc: freePort(t), redis: redistest.Start(t),
		fired: map[string]bool{}, queries: map[string]bool{}}
	a.proxy = redistest.StartProxy(t, a.redis.Addr)
	for name, text := range kind.files {
		must(t, os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600))
	}
	admin, out := freePort(t), &output{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	program := app{stdout: out, stderr: out, getenv: func(string) string { return "" }}
	go func() {
		ended <- program.run(ctx, []string{"serve", "--redis", "redis://" + a.proxy.Addr, "--grpc", a.grpc, "--http", a.http,
			"--admin", admin, "--timeout", "2s", "--auth-timeout", "2s", "--reload", "100ms", "--drain", "0s", "--max-calls", "4", a.dir})
	}()
	a.stop = func() { cancel(); ended <- <-ended }
	t.Cleanup(a.stop)
	redistest.Await(t, "ready", func() bool { return get("http://"+admin+"/readyz") == 200 })
	prometheus := t.TempDir()
	rules := lasts.ReplaceAllString(read(t, deploy+"prometheus-rules.yaml"), "${1}5s")
	rules = strings.ReplaceAll(rules, "for: 5s", "for: 1s")
	must(t, os.WriteFile(filepath.Join(prometheus, "rules.yaml"), []byte(rules), 0o600))
	must(t, os.WriteFile(filepath.Join(prometheus, "prometheus.yml"), []byte("global: {scrape_interval: 1s, "+
		"scrape_timeout: 1s, evaluation_interval: 500ms}\nrule_files: [rules.yaml]\nscrape_configs:\n"+
		"  - {job_name: sluiced, static_configs: [{targets: [\""+admin+"\"]}]}\n"), 0o600))
	address := freePort(t)
	a.url = "http://" + address + "/api/v1/"
	exampletest.StartIn(t, prometheus, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--log.level=error")
	redistest.Await(t, "sluiced is watched", func() bool { return a.hasData(t, "sluiced_redis_up") })
	a.readDashboard(t)
	return a
}

func (a *alarm) readDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal([]byte(read(t, deploy+"grafana.json")), &dashboard))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			a.queries[strings.NewReplacer("$__rate_interval", "5s", "$domain", ".*").Replace(target.Expr)] = false
		}
	}
	if len(a.queries) < 10 {
		t.Errorf("only %d queries", len(a.queries))
	}
}

// clients sends the calls again and again, from several clients, until the test ends.
func (a *alarm) clients(t *testing.T, n int) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	conn, err := grpc.NewClient(a.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	for range n {
		go func() {
			for ctx.Err() == nil {
				for _, call := range *a.calls.Load() {
					a.call(t, client, call)
					time.Sleep(2 * time.Millisecond)
				}
			}
		}()
	}
}

// call sends one call in the way of the installation.
func (a *alarm) call(t *testing.T, client ratelimitv3.RateLimitServiceClient, call string) {
	ask := request(t, call+"=1")
	switch call {
	case "no_file":
		get("http://" + a.http + "/auth/none")
		return
	case "unmatched":
		ask.Domain = "other"
	case "malformed":
		ask.Domain = ""
	}
	switch a.name {
	case "auth":
		get("http://" + a.http + "/auth/web/" + call)
	case "grpc":
		_, _ = client.ShouldRateLimit(context.Background(), ask)
	case "json":
		body, _ := protojson.Marshal(ask)
		if response, err := http.Post("http://"+a.http+"/json", "application/json", bytes.NewReader(body)); err == nil {
			_ = response.Body.Close()
		}
	}
}

// await waits for alerts, those that are for this way, and asks the queries of the dashboard meanwhile.
func (a *alarm) await(t *testing.T, alerts ...string) {
	t.Helper()
	for _, alert := range alerts {
		delete(a.fired, alert)
	}
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		var firing struct {
			Data struct {
				Alerts []struct {
					State  string
					Labels map[string]string
				}
			}
		}
		a.get(t, "alerts", &firing)
		for _, alert := range firing.Data.Alerts {
			if alert.State == "firing" {
				a.fired[alert.Labels["alertname"]] = true
			}
		}
		for query, answered := range maps.Clone(a.queries) {
			a.queries[query] = answered || a.hasData(t, query)
		}
		missing := slices.DeleteFunc(slices.Clone(alerts), func(name string) bool {
			return a.fired[name] || slices.Contains(a.without, name)
		})
		if len(missing) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v do not fire, %v have", missing, slices.Collect(maps.Keys(a.fired)))
		}
	}
}

// hasData reports whether a query answers with a number.
func (a *alarm) hasData(t *testing.T, query string) bool {
	var answer struct {
		Data struct{ Result []struct{ Value []any } }
	}
	a.get(t, "query?query="+url.QueryEscape(query), &answer)
	for _, result := range answer.Data.Result {
		if len(result.Value) == 2 && result.Value[1] != "NaN" {
			return true
		}
	}
	return false
}

func (a *alarm) get(t *testing.T, path string, into any) {
	response, err := http.Get(a.url + path)
	if err != nil {
		return // Prometheus starts
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil && response.StatusCode == http.StatusOK {
		t.Error(path, err)
	}
}
