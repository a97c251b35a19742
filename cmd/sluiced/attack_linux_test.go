package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

var (
	attackSpan = flag.Duration("attack", 300*time.Millisecond, "length of each attack on the server")
	attackKeys = flag.Int("keys", 20_000, "new values that one attack asks about")
)

const (
	attackClients = 8
	attackPause   = 5 * time.Millisecond
	newValues     = 10 // in a call
)

// maxResident bounds the memory of the process under every attack.
const maxResident = 256 << 20

// victim is a server that is attacked.
type victim struct {
	grpc, http string
	pid        int
	client     ratelimitv3.RateLimitServiceClient
}

func newVictim(t testing.TB, file string) *victim {
	redis, folder := redistest.Start(t), t.TempDir()
	path := filepath.Join(folder, "limits.yaml")
	must(t, os.WriteFile(path, []byte(file), 0o600))
	v := &victim{grpc: freePort(t), http: freePort(t)}
	admin := freePort(t)
	cmd := exec.Command(exampletest.Build(t, "..", "./sluiced"), "serve",
		"--redis", "redis://"+redis.Addr, "--grpc", v.grpc,
		"--http", v.http, "--admin", admin, "--timeout", "5s", path)
	log := &bytes.Buffer{}
	cmd.Stderr = log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if size := log.Len(); size > 100<<10 {
			t.Errorf("the log has %d bytes", size)
		}
	})
	v.pid = cmd.Process.Pid
	redistest.Await(t, "ready", func() bool { return get("http://"+admin+"/readyz") == 200 })
	v.client = v.connect(t)
	return v
}

func (v *victim) connect(t testing.TB) ratelimitv3.RateLimitServiceClient {
	conn, err := grpc.NewClient(v.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return ratelimitv3.NewRateLimitServiceClient(conn)
}

// resident is the memory of the process, in bytes.
func (v *victim) resident(t *testing.T) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return kilobytes << 10
}

// about asks about one descriptor, of a key and a value.
func about(key, value string) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}}}}
}

// resets are the bytes of a connection that begins calls and takes each back at once.
var resets = func() []byte {
	var frames bytes.Buffer
	frames.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&frames, nil)
	_ = framer.WriteSettings()
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	for id := uint32(1); id < 2000; id += 2 {
		block.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {"te", "trailers"},
			{":path", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName}, {"content-type", "application/grpc"}} {
			_ = headers.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = framer.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	return frames.Bytes()
}()

var large = strings.Repeat("x", 10<<20)

// attackers are what many goroutines do, again and again until the time is over.
var attackers = []struct {
	name string
	do   func(ctx context.Context, v *victim, client ratelimitv3.RateLimitServiceClient)
}{
	{"no attack", func(ctx context.Context, _ *victim, _ ratelimitv3.RateLimitServiceClient) { <-ctx.Done() }},
	{"malformed frames", func(ctx context.Context, v *victim, _ ratelimitv3.RateLimitServiceClient) {
		noise := make([]byte, 4096)
		for i := range noise {
			noise[i] = byte(rand.Uint32())
		}
		v.dial(ctx, v.grpc, append([]byte(http2.ClientPreface), noise...), false)
		v.dial(ctx, v.http, noise, false)
	}},
	{"10 MB descriptors", func(ctx context.Context, v *victim, client ratelimitv3.RateLimitServiceClient) {
		_, _ = client.ShouldRateLimit(ctx, about("a", large))
		response, err := http.Post("http://"+v.http+"/json", "application/json", strings.NewReader(large))
		if err == nil {
			_ = response.Body.Close()
		}
	}},
	{"new values", func(ctx context.Context, _ *victim, client ratelimitv3.RateLimitServiceClient) {
		r := &ratelimitv3.RateLimitRequest{Domain: "d"}
		for range newValues {
			r.Descriptors = append(r.Descriptors, about("a", fmt.Sprint(rand.Uint64())).Descriptors...)
		}
		_, _ = client.ShouldRateLimit(ctx, r)
		asked.Add(newValues)
	}},
	{"new overrides", func(ctx context.Context, _ *victim, client ratelimitv3.RateLimitServiceClient) {
		r := about("b", fmt.Sprint(rand.Uint64()))
		r.Descriptors[0].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: rand.Uint32(), Unit: typev3.RateLimitUnit_SECOND}
		_, _ = client.ShouldRateLimit(ctx, r)
	}},
	{"slow clients", func(ctx context.Context, v *victim, _ ratelimitv3.RateLimitServiceClient) {
		v.dial(ctx, v.http, []byte("POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"), true)
	}},
	{"silent connections", func(ctx context.Context, v *victim, _ ratelimitv3.RateLimitServiceClient) {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { v.dial(ctx, v.grpc, nil, true) })
		}
		wg.Wait()
	}},
	{"rapid resets", func(ctx context.Context, v *victim, _ ratelimitv3.RateLimitServiceClient) {
		v.dial(ctx, v.grpc, resets, false)
	}},
	{"calls", func(ctx context.Context, _ *victim, client ratelimitv3.RateLimitServiceClient) {
		_, _ = client.ShouldRateLimit(ctx, about("a", "flood"))
	}},
}

var asked atomic.Int64 // new values

// dial opens a connection, sends bytes, and waits for the server to close it, or for the end of the attack.
func (v *victim) dial(ctx context.Context, addr string, text []byte, stay bool) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
	_, _ = conn.Write(text)
	if stay {
		<-ctx.Done()
		return
	}
	_, _ = conn.Read(make([]byte, 1<<10))
}

// attackVictim names the attack that a process makes in place of the tests, and the addresses of its victim.
const attackVictim = "SLUICED_ATTACK"

func TestMain(m *testing.M) {
	flag.Parse()
	if what := strings.Split(os.Getenv(attackVictim), ","); len(what) == 3 {
		attack(what[0], &victim{grpc: what[1], http: what[2]})
		return
	}
	os.Exit(m.Run())
}

// attack is one of the attacks, by several clients that pause between calls.
func attack(name string, v *victim) {
	for _, attacker := range attackers {
		if attacker.name != name {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range attackClients {
			conn, _ := grpc.NewClient(v.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			client := ratelimitv3.NewRateLimitServiceClient(conn)
			wg.Go(func() {
				for ctx.Err() == nil {
					attacker.do(ctx, v, client)
					time.Sleep(attackPause)
				}
			})
		}
		time.Sleep(*attackSpan)
		for name == "new values" && asked.Load() < int64(*attackKeys) {
			time.Sleep(attackPause)
		}
		cancel()
		wg.Wait()
	}
}

// startAttack starts the attack in a process that gets only the processor time that nobody else wants: the attackers'
// own work is not the server's. ended is closed at its end.
func startAttack(t *testing.T, name string, v *victim) (ended chan struct{}) {
	cmd := exec.Command("chrt", append([]string{"--idle", "0"}, os.Args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%s,%s", attackVictim, name, v.grpc, v.http))
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}()
	return ended
}

// Attacks by several clients: the memory stays bounded, and a caller of 100 calls a second gets all his answers. The
// table says how long they took.
func TestServerAttack(t *testing.T) {
	v := newVictim(t, "domain: d\ndescriptors:\n"+
		"  - {key: caller, rate_limit: {unit: second, requests_per_unit: 1000000}}\n"+
		"  - {key: a, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 10}}\n")
	rest := time.Duration(0)
	fmt.Printf("%-20s %10s %10s %8s %10s\n", "attack", "p50", "p99", "ratio", "resident")
	for _, attacker := range attackers {
		var took []time.Duration
		maxMemory := 0
		ended := startAttack(t, attacker.name, v)
		for attacked := true; attacked; {
			sent := time.Now()
			r, err := v.client.ShouldRateLimit(context.Background(), about("caller", "1"))
			if err != nil || r.OverallCode != ratelimitv3.RateLimitResponse_OK {
				t.Fatalf("%s: another caller got %v, %v", attacker.name, r, err)
			}
			took = append(took, time.Since(sent))
			maxMemory = max(maxMemory, v.resident(t))
			select {
			case <-ended:
				attacked = false
			case <-time.After(10 * time.Millisecond):
			}
		}
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		if rest == 0 {
			rest = p99
		}
		fmt.Printf("%-20s %10s %10s %8.1f %7d MB\n", attacker.name, took[len(took)/2].Round(time.Microsecond),
			p99.Round(time.Microsecond), float64(p99)/float64(rest), maxMemory>>20)
		if maxMemory > maxResident {
			t.Errorf("%s: %d MB", attacker.name, maxMemory>>20)
		}
	}
}
