//go:build unix

package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// noted is what callers have noticed since it was last asked.
type noted struct {
	calls, degraded, refused int64 // degraded: not decided by Redis; refused: by a breaker
	p99                      time.Duration
	lastDegraded             time.Time
	goroutines               int
}

// startCallers starts callers in a place, whose limiters grant without Redis, and returns what tells what they notice.
// They end with the test.
type startCallers func(t *testing.T, redis *redistest.Server, breaker string) func() noted

var places = []struct {
	name  string
	start startCallers
}{
	{"Go, 50 goroutines", startLoader},
	{"nginx, 50 connections", startNginx},
	{"Python, 8 threads", startPython("threads")},
	{"Python, 8 tasks", startPython("asyncio")},
	{"Node, 50 callers", startNode},
}

// load counts what callers ask without a pause, and how they are answered.
type load struct {
	calls, degraded, refused atomic.Int64
	lastDegraded             atomic.Int64         // when, in ns
	took                     [50_000]atomic.Int64 // calls by their time, in units of 10 us
}

// start has callers ask.
func (l *load) start(callers int, ask func(caller int) (cause error)) *crowd {
	return startCrowd(callers, func(_ context.Context, caller int) { l.call(caller, ask) })
}

func (l *load) call(caller int, ask func(caller int) (cause error)) {
	begun := time.Now()
	cause := ask(caller)
	l.calls.Add(1)
	l.took[min(int(time.Since(begun)/(10*time.Microsecond)), len(l.took)-1)].Add(1)
	if cause != nil {
		l.degraded.Add(1)
		l.lastDegraded.Store(time.Now().UnixNano())
	}
	if errors.Is(cause, loader.ErrBreakerOpen) {
		l.refused.Add(1)
	}
}

// note returns what there was since the last time.
func (l *load) note() noted {
	n := noted{calls: l.calls.Swap(0), degraded: l.degraded.Swap(0), refused: l.refused.Swap(0),
		lastDegraded: time.Unix(0, l.lastDegraded.Load()), goroutines: runtime.NumGoroutine()}
	slower := n.calls / 100
	for i := len(l.took) - 1; i >= 0; i-- {
		if slower -= l.took[i].Swap(0); slower < 0 && n.p99 == 0 {
			n.p99 = time.Duration(i+1) * 10 * time.Microsecond
		}
	}
	return n
}

// newLimiter makes a limiter of Go that is never full, with or without a breaker, and returns what asks it.
func newLimiter(rdb redis.UniversalClient, breaker string, opts ...loader.LimiterOption) func(caller int) error {
	var without []loader.Option
	if breaker == "without" {
		without = append(without, loader.WithoutBreaker())
	}
	limiter := loader.New(rdb, without...).GCRA("x", loader.PerSecond(1_000_000), opts...)
	return func(caller int) error {
		d, err := limiter.Allow(context.Background(), strconv.Itoa(caller))
		return errors.Join(d.Cause, err)
	}
}

func startLoader(t *testing.T, server *redistest.Server, breaker string) func() noted {
	rdb, l := redis.NewClient(&redis.Options{Addr: server.Addr}), &load{}
	t.Cleanup(func() { _ = rdb.Close() })
	t.Cleanup(l.start(50, newLimiter(rdb, breaker, loader.FailOpen())).stop)
	return l.note
}

// get asks one of the documented ports of a site, and returns the header and what there is to read.
type get func(port, path string) (http.Header, string)

// startSite starts nginx and sluiced with the files of docs/serve.md, and a limit that is never full. Without a server
// of Redis nginx asks one that always answers 204 in place of sluiced.
func startSite(t *testing.T, server *redistest.Server, breaker string) get {
	answering := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(s.Close)
		return s.URL[strings.LastIndex(s.URL, ":")+1:]
	}
	ports := map[string]string{"3000": answering(http.StatusOK)}
	for _, port := range []string{"8000", "8080", "9090"} {
		ports[port] = exampletest.FreePort(t)
	}
	if server == nil {
		ports["8080"] = answering(http.StatusNoContent)
	}
	dir, files := t.TempDir(), exampletest.Files(t, "../../../docs/serve.md")
	files["login.yaml"] = strings.Replace(files["login.yaml"], "[100/1m]", "[1000000/1s]\n    fail: open", 1)
	for _, name := range []string{"login.yaml", "nginx.conf"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(exampletest.WithPorts(files[name], ports)), 0o600))
	}
	if server != nil {
		exampletest.StartIn(t, dir, exampletest.Build(t, "../../..", "./cmd/sluiced"), "serve",
			"--redis", "redis://"+server.Addr, "--headers", "draft-11", "--http", "127.0.0.1:"+ports["8080"], "--grpc", "",
			"--admin", "127.0.0.1:"+ports["9090"], "--drain", "0s", fmt.Sprint("--breaker=", breaker == "with"), "login.yaml")
	}
	exampletest.StartIn(t, dir, "nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr",
		"-g", "daemon off; master_process off; pid nginx.pid; error_log stderr crit;")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}}
	t.Cleanup(client.CloseIdleConnections)
	return func(port, path string) (http.Header, string) {
		response, err := client.Get("http://127.0.0.1:" + ports[port] + path)
		if err != nil {
			return nil, err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.Header, response.Status + "\n" + string(body)
	}
}

// ask asks nginx.
func (g get) ask(int) error {
	header, _ := g("8000", "/")
	if header.Get("RateLimit") == "" { // it says nothing of what a fallback has granted
		return errUndecided
	}
	return nil
}

var errUndecided = errors.New("not decided by Redis")

func startNginx(t *testing.T, server *redistest.Server, breaker string) func() noted {
	site, l := startSite(t, server, breaker), &load{}
	t.Cleanup(l.start(50, site.ask).stop)
	open := regexp.MustCompile(`(?m)^sluiced_redis_breakers_open ([1-9])`)
	return func() noted {
		n := l.note()
		if _, metrics := site("9090", "/metrics"); open.MatchString(metrics) {
			n.refused = n.calls
		}
		return n
	}
}

// startProgram starts a program of callers, which answers each line with what it has noted.
func startProgram(t *testing.T, program string, args ...string) func() noted {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONPATH=../../../clients/python/src"), os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	answers := bufio.NewReader(out)
	return func() (n noted) {
		_, err := fmt.Fprintln(in)
		must(t, err)
		var p99, last int64
		if _, err := fmt.Fscanln(answers, &n.calls, &p99, &n.degraded, &n.refused, &last); err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		n.p99, n.lastDegraded = time.Duration(p99)*time.Microsecond, time.UnixMilli(last)
		return n
	}
}

func startPython(kind string) startCallers {
	return func(t *testing.T, server *redistest.Server, breaker string) func() noted {
		python := exampletest.Interpreter(t, "Debian: apt-get install python3-redis",
			[]string{"python3", "/usr/bin/python3"}, "-c", "import redis")
		return startProgram(t, python, "-B", "testdata/outage.py", kind, portOf(server), breaker)
	}
}

func startNode(t *testing.T, server *redistest.Server, breaker string) func() noted {
	client := exampletest.Absolute(t, "../../../examples/node/node_modules/redis")
	node := exampletest.Interpreter(t, "cd examples/node && npm ci", []string{"node"}, "-e", "require('"+client+"')")
	own := t.TempDir() // the package with the scripts that it has when it is packed
	for _, path := range []string{"clients/node/src", "clients/node/scripts.mjs", "scripts"} {
		must(t, os.MkdirAll(filepath.Join(own, filepath.Dir(path)), 0o700))
		must(t, exec.Command("cp", "-r", "../../../"+path, filepath.Join(own, path)).Run())
	}
	exampletest.Output(t, node, filepath.Join(own, "clients/node/scripts.mjs"))
	return startProgram(t, node, "testdata/outage.mjs", client, filepath.Join(own, "clients/node/src"),
		portOf(server), breaker)
}

func portOf(server *redistest.Server) string {
	return server.Addr[strings.LastIndex(server.Addr, ":")+1:]
}
