package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// proxy is how a configuration of docs/serve.md is run.
type proxy struct {
	name    string
	command []string // in a folder with the files of the page
	limits  string   // the file of the page that sluiced serves
	header  string   // names the limit, in denials
	down    int      // status without sluiced
}

// The files of the page are for a limit of five a minute: these wait less.
var proxies = []proxy{
	{"envoy", runEnvoy("envoy.yaml"), "limits.yaml", "X-Ratelimit-Limit", 503},
	{"ext_authz", runEnvoy("envoy-ext_authz.yaml"), "login.yaml", "Ratelimit-Policy", 503},
	{"nginx", []string{"nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr",
		"-g", "daemon off; master_process off; pid nginx.pid;"},
		"login.yaml", "Ratelimit-Policy", 503},
	{"caddy", []string{"caddy", "run", "--adapter", "caddyfile", "--config", "Caddyfile"},
		"login.yaml", "Ratelimit-Policy", 502},
	{"haproxy", []string{"haproxy", "-db", "-f", "haproxy.cfg"}, "login.yaml", "Ratelimit-Policy", 503},
}

func runEnvoy(file string) []string {
	return []string{"envoy", "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "error"}
}

// Each proxy, with its configuration of docs/serve.md: what a client sees of it when a limit is full, when Redis or
// sluiced are down, and when the files change.
func TestProxies(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, p, patient)
			r.isLimited(t, "3")
			r.limitsKeys(t)
			r.outlivesRedis(t)
			r.reloads(t)
			r.outlivesSluiced(t)
		})
	}
}

// rig is a proxy before an application, with sluiced and Redis beside it.
type rig struct {
	proxy
	dir, url string
	redis    *redistest.Server
	ports    map[string]string // by the port of the page
	stop     func()            // ends sluiced
	adapt    func(text string, ports map[string]string) string
	served   atomic.Int64 // requests that the application has seen
	asked    int64
}

func newRig(t *testing.T, p proxy, adapt func(string, map[string]string) string) *rig {
	t.Helper()
	r := &rig{proxy: p, dir: t.TempDir(), redis: redistest.Start(t), adapt: adapt}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { r.served.Add(1) }))
	t.Cleanup(app.Close)
	r.ports = map[string]string{"3000": app.URL[strings.LastIndex(app.URL, ":")+1:]}
	for _, port := range []string{"8000", "8079", "8080", "8081", "8082", "8083", "9090", "9092"} {
		r.ports[port] = exampletest.FreePort(t)
	}
	r.url = "http://127.0.0.1:" + r.ports["8000"]
	for name, text := range pageFiles(t) {
		r.write(t, name, text)
	}
	r.stop = r.start(t, "8080", "8081", "9090")
	t.Cleanup(func() { r.stop() })
	exampletest.StartIn(t, r.dir, p.command...)
	return r
}

// pageFiles returns the files that docs/serve.md shows, and those that it describes.
func pageFiles(t testing.TB) map[string]string {
	found := exampletest.Files(t, "../../docs/serve.md")
	before, rest, _ := strings.Cut(found["envoy.yaml"], "                  - name: envoy.filters.http.ratelimit\n")
	_, after, _ := strings.Cut(rest, "                  - name: envoy.filters.http.router\n")
	filter := "- " + strings.ReplaceAll(strings.TrimSpace(found["ext_authz.yaml"]), "\n", "\n  ")
	after = strings.Replace(after, "port_value: 8081", "port_value: 8080", 1)
	options := regexp.MustCompile(`(?s)      typed_extension_protocol_options:.*?(      load_assignment)`)
	found["envoy-ext_authz.yaml"] = before + strings.ReplaceAll("\n"+filter, "\n", "\n                  ")[1:] +
		"\n                  - name: envoy.filters.http.router\n" + options.ReplaceAllString(after, "$1")
	found["Caddyfile"] = "{\n\tadmin off\n}\n" + found["Caddyfile"]
	return found
}

// patient is a text of the page with other ports, and times that a busy machine keeps.
func patient(text string, ports map[string]string) string {
	return strings.NewReplacer("0.02s", "5s", "0.2s", "5s", "_timeout 1s", "_timeout 5s", "server 1s", "server 5s",
		"timeout = 2000", "timeout = 9000").Replace(exampletest.WithPorts(text, ports))
}

// keyed are limits for what a client says.
const keyed = `
  keyed: {when: request.path == "/keyed", by: 'request.header["x-api-key"]', empty: skip, rates: [2/1h]}
  refused: {when: request.path == "/refused", by: request.query.id, empty: refuse, rates: [2/1h]}
`

// refusing is what an operator of nginx may have in a location.
const refusing = "location / {\n deny 127.0.0.9; if ($uri = /forbidden) { return 403; }"

// write writes a file of the page with the ports of this test and short windows.
func (r *rig) write(t *testing.T, name, text string) {
	if name == "login.yaml" {
		text += keyed
	}
	text = strings.Replace(r.adapt(text, r.ports), "location / {", refusing, 1)
	text = strings.NewReplacer("[5/1m,", "[3/2s,", "minute, requests_per_unit: 5}",
		"second, requests_per_unit: 3}").Replace(text)
	must(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// start starts sluiced at ports of the page, and returns what stops it.
func (r *rig) start(t *testing.T, http, grpc, admin string) (stop func()) {
	out, ended := &output{}, make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{"serve", "--redis", "redis://" + r.redis.Addr, "--grpc", "127.0.0.1:" + r.ports[grpc],
		"--http", "127.0.0.1:" + r.ports[http], "--admin", "127.0.0.1:" + r.ports[admin], "--timeout", "3s",
		"--reload", "100ms", "--drain", "0s", "--auth-timeout", "3s", "--headers", "draft-11"}
	if r.limits == "limits.yaml" {
		args[len(args)-1] = "none"
	}
	a := app{stdout: out, stderr: out, getenv: func(string) string { return "" }}
	go func() { ended <- a.run(ctx, append(args, filepath.Join(r.dir, r.limits))) }()
	return func() {
		cancel()
		if status := <-ended; status != exitDone {
			t.Errorf("sluiced ended with %d: %s", status, out)
		}
		ended <- exitDone // for the next
	}
}

// spellings of the path that is limited.
var spellings = []string{"/login", "/login?x=1", "//login", "/login/", "/x/../login", "/login%2f", "/x%2f..%2flogin"}

// get asks the proxy for /login, from an address of the loopback network, in another spelling and with a header that
// claims another address each time.
func (r *rig) get(from string) *http.Response {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	r.asked++
	return r.do(client, spellings[int(r.asked)%len(spellings)], fmt.Sprintf("198.18.%d.%d", r.asked/250, r.asked%250))
}

// do sends a request that claims another address and another path.
func (r *rig) do(client *http.Client, path, claimed string) *http.Response {
	request, _ := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader("body"))
	request.Header.Set("X-Forwarded-For", claimed)
	request.Header.Set("X-Forwarded-Uri", "/free")
	request.Header.Set("X-Api-Key", "ada")
	response, err := client.Do(request)
	if err != nil {
		return &http.Response{}
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response
}

const client, other = "127.0.0.2", "127.0.0.3"

// becomes waits for a status.
func (r *rig) becomes(t *testing.T, from string, status int) {
	t.Helper()
	last := 0
	for range 1500 {
		last = r.get(from).StatusCode
		if last == status {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%d, and not %d within 30 s", last, status)
}

// deny asks until the client is denied, and returns that answer and how many were granted.
func (r *rig) deny(t *testing.T) (*http.Response, int) {
	t.Helper()
	for granted := range 1000 {
		switch response := r.get(client); response.StatusCode {
		case 200:
		case 429:
			return response, granted
		default:
			t.Fatalf("%d after %d granted, want 200 or 429", response.StatusCode, granted)
		}
	}
	t.Fatal("1000 granted")
	return nil, 0
}

// isLimited checks that a limit holds: denials say how long to wait, are not seen by the application, and deny nobody
// else; and who waits is granted.
func (r *rig) isLimited(t *testing.T, limit string) {
	t.Helper()
	r.becomes(t, other, 200)
	time.Sleep(2100 * time.Millisecond)
	before := r.served.Load()
	began := time.Now()
	response, granted := r.deny(t)
	if granted < 3 || r.served.Load() != before+int64(granted) {
		t.Errorf("%d granted, and the application saw %d", granted, r.served.Load()-before)
	}
	for _, spelling := range spellings {
		if got := r.get(client).StatusCode; got != 429 && time.Since(began) < time.Second {
			t.Errorf("%s or another spelling: %d", spelling, got)
		}
	}
	wait, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 3 {
		t.Errorf("Retry-After %q", response.Header.Get("Retry-After"))
	}
	kind := response.Header.Get("Content-Type")
	body, _ := io.ReadAll(response.Body)
	if r.limits == "login.yaml" && (kind != "application/problem+json" || !json.Valid(body)) {
		t.Errorf("a denial of %q, %s: want a problem", kind, body)
	}
	if !strings.Contains(response.Header.Get(r.header), limit) {
		t.Errorf("%s %q, want a limit of %s", r.header, response.Header.Get(r.header), limit)
	}
	if got := r.get(other).StatusCode; got != 200 {
		t.Errorf("another client: %d", got)
	}
	time.Sleep(time.Duration(wait) * time.Second)
	if got := r.get(client).StatusCode; got != 200 {
		t.Errorf("after Retry-After: %d", got)
	}
}

// limitsKeys checks that a limit by a client's header holds, that what is the client's fault is a 400, and that what
// nginx refuses by itself is no denial.
func (r *rig) limitsKeys(t *testing.T) {
	t.Helper()
	var got []int
	for range 3 {
		got = append(got, r.do(http.DefaultClient, "/keyed", "198.18.0.1").StatusCode)
	}
	if r.limits == "login.yaml" && !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("with a key in a header: %v, want the third denied", got)
	}
	if got := r.do(http.DefaultClient, "/refused", "198.18.0.1").StatusCode; r.limits == "login.yaml" && got != 400 {
		t.Errorf("without a key: %d", got)
	}
	if r.name != "nginx" {
		return
	}
	if got := r.do(http.DefaultClient, "/forbidden", "198.18.0.1").StatusCode; got != 403 {
		t.Errorf("a location that returns 403: %d", got)
	}
	if got := r.get("127.0.0.9").StatusCode; got != 403 {
		t.Errorf("a location that denies an address: %d", got)
	}
}

// outlivesRedis checks that nothing is let through without Redis, and that all is well after it.
func (r *rig) outlivesRedis(t *testing.T) {
	t.Helper()
	r.redis.Kill()
	before := r.served.Load()
	for range 3 {
		if got := r.get(client).StatusCode; got != 503 || r.served.Load() != before {
			t.Errorf("without Redis: %d, and the application saw %d", got, r.served.Load()-before)
		}
	}
	r.redis.Restart(t)
	r.becomes(t, other, 200)
}

// reloads checks that a changed file is applied.
func (r *rig) reloads(t *testing.T) {
	t.Helper()
	path := filepath.Join(r.dir, r.limits)
	text, err := os.ReadFile(path)
	must(t, err)
	change := strings.NewReplacer("[3/2s,", "[4/2s,", "requests_per_unit: 3}", "requests_per_unit: 4}")
	must(t, os.WriteFile(path, []byte(change.Replace(string(text))), 0o600))
	for range 100 {
		response, _ := r.deny(t)
		if strings.Contains(response.Header.Get(r.header), "4") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the new file is not applied")
}

// outlivesSluiced checks what the proxy does without sluiced, and that it finds it again.
func (r *rig) outlivesSluiced(t *testing.T) {
	t.Helper()
	r.stop()
	before := r.served.Load()
	if got := r.get(other).StatusCode; got != r.down || r.served.Load() != before {
		t.Errorf("without sluiced: %d, want %d, and the application saw %d", got, r.down, r.served.Load()-before)
	}
	r.stop = r.start(t, "8080", "8081", "9090")
	r.becomes(t, other, 200)
}
