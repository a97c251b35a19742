package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

func init() { logging.Disable() } // as main does

// output is what a program prints, while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func freePort(t testing.TB) string { return "127.0.0.1:" + exampletest.FreePort(t) }

// get returns the status of a URL, 0 if nobody answers.
func get(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

const oneRule = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: %d}}]\n"

// The life of a server: ready when Redis answers, UNAVAILABLE and not ready without it, new files applied and wrong ones
// refused while calls go on, and drained at its end.
func TestServerLife(t *testing.T) {
	redis := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(fmt.Sprintf(oneRule, 1))
	grpcAddr, adminAddr, out := freePort(t), freePort(t), &output{}
	environment := map[string]string{"SLUICED_REDIS": "redis://" + redis.Addr, "SLUICED_RELOAD": "100ms"}
	a := app{stdout: out, stderr: out, getenv: func(name string) string { return environment[name] }}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- a.run(ctx, []string{"serve", "--grpc", grpcAddr, "--http", "", "--admin", adminAddr, "--drain", "2s",
			"--timeout", "5s", path})
	}()
	readyz := "http://" + adminAddr + "/readyz"
	redistest.Await(t, "ready", func() bool { return get(readyz) == 200 })

	conn, err := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	client, health := ratelimitv3.NewRateLimitServiceClient(conn), grpc_health_v1.NewHealthClient(conn)
	serving := func(name string) string {
		r, _ := health.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: name})
		return r.GetStatus().String()
	}
	ask := func(ask string) (string, codes.Code) {
		r, err := client.ShouldRateLimit(context.Background(), request(t, ask))
		if err != nil {
			return "", grpcstatus.Code(err)
		}
		return shown(r), codes.OK
	}
	const name = "envoy.service.ratelimit.v3.RateLimitService"
	if got, _ := ask("a=1"); got != "OK 1/MINUTE 0" || serving("") != "SERVING" || serving(name) != "SERVING" {
		t.Errorf("%s; %s, %s", got, serving(""), serving(name))
	}
	if _, code := ask("a=1 own=2000000000"); code != codes.InvalidArgument {
		t.Errorf("malformed: %v", code)
	}
	if _, code := ask("a=" + strings.Repeat("x", 1<<20)); code != codes.ResourceExhausted {
		t.Errorf("a megabyte: %v", code)
	}

	write(fmt.Sprintf(oneRule, 3))
	redistest.Await(t, "the new file is applied", func() bool {
		got, _ := ask("a=1 own=0")
		return got == "OK 3/MINUTE 2"
	})
	hashOf := func(n int) string { return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, oneRule, n)))[:12] }
	for _, line := range []string{path + " " + hashOf(1) + ", new", path + " " + hashOf(3) + ", was " + hashOf(1)} {
		redistest.Await(t, line, func() bool { return strings.Contains(out.String(), `"files":["`+line+`"]`) })
	}
	response, err := http.Get("http://" + adminAddr + "/metrics")
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	info := regexp.MustCompile(`(?m)^sluiced_file_info.*$`).FindAllString(string(text), -1)
	if want := fmt.Sprintf("sluiced_file_info{file=%q,hash=%q} 1", path, hashOf(3)); len(info) != 1 || info[0] != want {
		t.Errorf("got %q, want %s", info, want)
	}
	write("domain: d\ndescriptors: [{kye: a}]\n")
	redistest.Await(t, "the wrong file is told", func() bool {
		return strings.Contains(out.String(), "unknown word \\\"kye\\\"")
	})
	if got, _ := ask("a=1"); got != "OK 3/MINUTE 1" {
		t.Errorf("after a wrong file: %s", got)
	}

	redis.Kill()
	redistest.Await(t, "not ready", func() bool { return get(readyz) == 503 && serving(name) == "NOT_SERVING" })
	if _, code := ask("a=1"); code != codes.Unavailable || get("http://"+adminAddr+"/healthz") != 200 || serving("") != "SERVING" {
		t.Errorf("without Redis: %v, %s", code, serving(""))
	}
	redis.Restart(t)
	redistest.Await(t, "ready again", func() bool { return get(readyz) == 200 })
	must(t, syscall.Kill(redis.PID, syscall.SIGSTOP))
	redistest.Await(t, "not ready: frozen", func() bool { return get(readyz) == 503 })
	must(t, syscall.Kill(redis.PID, syscall.SIGCONT))
	redistest.Await(t, "ready again", func() bool { return get(readyz) == 200 })
	must(t, redis.Client(t).ConfigSet(ctx, "maxmemory", "1").Err())
	redistest.Await(t, "not ready: full", func() bool { return get(readyz) == 503 })
	must(t, syscall.Kill(redis.PID, syscall.SIGSTOP))
	redistest.Await(t, "another cause is logged", func() bool { return strings.Count(out.String(), "it is frozen") == 2 })
	must(t, syscall.Kill(redis.PID, syscall.SIGCONT))
	must(t, redis.Client(t).ConfigSet(ctx, "maxmemory", "0").Err())
	redistest.Await(t, "ready again", func() bool { return get(readyz) == 200 })
	if got, _ := ask("a=1"); got != "OK 3/MINUTE 2" { // this Redis has kept nothing
		t.Errorf("after the restart: %s", got)
	}

	stop()
	redistest.Await(t, "draining", func() bool { return get(readyz) != 200 })
	if got, _ := ask("a=1"); got != "OK 3/MINUTE 1" {
		t.Errorf("while draining: %s", got)
	}
	if status := <-ended; status != exitDone {
		t.Errorf("exit status %d: %s", status, out)
	}
}

// A user who may not load scripts is served with those that are loaded, and asks a cluster for nothing else that the
// users of sluice acl may not do.
func TestServerPreloaded(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	for _, node := range nodes {
		admin := node.Client(t)
		must(t, admin.Do(context.Background(), "ACL", "SETUSER", "use", "on", ">pw", "~*", "+@all", "-script",
			"-command").Err())
		must(t, loader.New(admin).Preload(context.Background()))
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(path, fmt.Appendf(nil, oneRule, 1), 0o600))
	addr, adminAddr, out := freePort(t), freePort(t), &output{}
	environment := map[string]string{"SLUICED_CLUSTER": "use@" + nodes[0].Addr, "SLUICED_REDIS_PASSWORD": "pw"}
	a := app{stdout: out, stderr: out, getenv: func(name string) string { return environment[name] }}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- a.run(ctx, []string{"serve", "--grpc", "", "--http", addr, "--admin", adminAddr, "--drain", "0s", path})
	}()
	redistest.Await(t, "ready", func() bool { return get("http://"+adminAddr+"/readyz") == 200 })
	if !strings.Contains(out.String(), "run sluice load") {
		t.Error(out)
	}
	stop()
	<-ended
	for _, node := range nodes {
		for _, refused := range node.Client(t).ACLLog(context.Background(), 100).Val() {
			if refused.Object != "script|load" {
				t.Errorf("%s: %+v", node.Addr, refused)
			}
		}
	}
}

// A password on the command line is refused and not shown; flags that are wrong name what is wanted.
func TestFlags(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"serve --redis redis://:hunter2@localhost x.yaml", "a password on the command line"},
		{"serve --redis redis://:hunter2@local:host x.yaml", "--redis: "},
		{"serve", "no files"},
		{"serve --timeout 1us x.yaml", "--timeout is 1µs: want 1ms to 10s"},
		{"serve --fail sometimes x.yaml", `--fail "sometimes": want closed, open`},
		{"serve --max-calls hunter2 x.yaml", "not a value of --max-calls: want one such as its default, 4096"},
		{"serve x.yaml --http=", "a flag after the files"},
		{"serve --auth-timeout 1m x.yaml", "--auth-timeout is 1m0s: want 1ms to 10s"},
		{"serve --tls-cert x x.yaml", "want --tls-cert and --tls-key together"},
		{"serve --embedded --redis localhost:1 x.yaml", "want one of them"},
		{"serve --cluster a:1,b:2/3 x.yaml", "a cluster has database 0 only"},
		{"serve --cluster a:1/0,b:2 x.yaml", "once, behind the last host"},
		{"serve --prefix a:b x.yaml", `--prefix "a:b": want letters, digits, dot, underscore and dash`},
		{"sevre", "there is no command"},
		{"check", "check wants files"},
	} {
		out := &output{}
		a := app{stdout: out, stderr: out, getenv: func(string) string { return "" }}
		status := a.run(context.Background(), strings.Fields(test.args))
		if status != exitUsage || !strings.Contains(out.String(), test.want) || strings.Contains(out.String(), "hunter2") {
			t.Errorf("%s: exit status %d: %s", test.args, status, out)
		}
	}
	const set = "/?read_timeout=2s&dial_timeout=5s&conn_max_lifetime=7s&client_name=me"
	for flags, want := range map[dial.Flags]string{
		{Redis: "localhost:1"}:                           "[localhost:1]3s 5s 1m0s 0 false",
		{Redis: "rediss://a:1" + set + "&db=3"}:          "[a:1]me5s 2s 7s 3 true",
		{Cluster: "rediss://a:1,b:2" + set}:              "[a:1 b:2]me5s 2s 7s 0 true",
		{Sentinel: "rediss://m@a:1,b:2" + set + "&db=3"}: "[FailoverClient]me5s 2s 7s 3 true",
	} {
		rdb, _, err := app{getenv: func(string) string { return "" }}.client(settings{redis: flags})
		must(t, err)
		var got string
		switch rdb := rdb.(type) {
		case *redis.Client:
			o := rdb.Options()
			got = fmt.Sprint([]string{o.Addr}, o.ClientName, o.DialTimeout, o.ReadTimeout, o.ConnMaxLifetime, o.DB,
				o.TLSConfig != nil)
		case *redis.ClusterClient:
			o := rdb.Options()
			got = fmt.Sprint(o.Addrs, o.ClientName, o.DialTimeout, o.ReadTimeout, o.ConnMaxLifetime, 0, o.TLSConfig != nil)
		}
		if got != want {
			t.Errorf("%+v: %s, want %s", flags, got, want)
		}
	}
	out := &output{}
	if status := (app{stdout: out, stderr: out}).run(context.Background(), []string{"--version"}); status != exitDone {
		t.Errorf("--version: exit status %d: %s", status, out)
	}
}

// A Redis that does not fit the flags is told with what to do about it.
func TestServerOtherwiseThanNamed(t *testing.T) {
	path, out := filepath.Join(t.TempDir(), "limits.yaml"), &output{}
	must(t, os.WriteFile(path, fmt.Appendf(nil, oneRule, 1), 0o600))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	server := redistest.Start(t)
	go func() {
		a := app{stdout: out, stderr: out, getenv: func(string) string { return "" }}
		ended <- a.run(ctx, []string{"serve", "--grpc", "", "--admin", "", "--http", freePort(t), "--drain", "0s",
			"--cluster", server.Addr, path})
	}()
	defer func() { stop(); <-ended }()
	redistest.Await(t, "the cure is logged", func() bool {
		return strings.Contains(out.String(), `"cure":"the server is not a cluster: name it with --redis`)
	})
}

// The files of limits that docs/serve.md shows have no mistakes, nor has what convert makes of theirs.
func TestFilesOfPage(t *testing.T) {
	shown, folder := exampletest.Files(t, "../../docs/serve.md"), t.TempDir()
	run := func(args ...string) string {
		out := &output{}
		if status := (app{stdout: out, stderr: out, getenv: os.Getenv}).run(context.Background(), args); status != exitDone {
			t.Errorf("%s: exit status %d: %s", args, status, out)
		}
		return out.String()
	}
	for _, name := range []string{"limits.yaml", "login.yaml", "api.yaml"} {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, []byte(shown[name]), 0o600))
		run("check", path)
	}
	converted := filepath.Join(folder, "converted.yaml")
	must(t, os.WriteFile(converted, []byte(run("convert", filepath.Join(folder, "limits.yaml"))), 0o600))
	run("check", converted)
	further := filepath.Join(folder, "further.yaml")
	must(t, os.WriteFile(further, []byte("domain: d\n---\ndomain: e\n"), 0o600))
	if text := run("check", further); !strings.Contains(text, "further.yaml has further documents behind the first") {
		t.Error(text)
	}
}
