package frameworks

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/internal/proof/soak"
)

const sluicedLimits = `domain: shop
descriptors:
  - {key: api_key, value: key-1, rate_limit: {unit: minute, requests_per_unit: 60}}
  - {key: api_key, value: key-2, rate_limit: {unit: second, requests_per_unit: 100}}
`

// TestServerLoadSluiced is TestServerLoad through Envoy and two sluiced, which are restarted one at a time as well.
// Envoy's configuration is that of docs/serve.md.
func TestServerLoadSluiced(t *testing.T) {
	binary := exampletest.Build(t, "../../cmd/sluiced", "github.com/sluice-redis/sluice/cmd/sluiced")
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	limits := write("limits.yaml", sluicedLimits)
	var instances []*instance
	for range 2 {
		s := &instance{binary: binary, redis: "redis://" + server.Addr, limits: limits, grpc: exampletest.FreePort(t),
			admin: exampletest.FreePort(t)}
		t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
		s.start(t)
		instances = append(instances, s)
	}
	envoy, port := exampletest.Files(t, "../../docs/serve.md")["envoy.yaml"], exampletest.FreePort(t)
	endpoint := "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8081}}}}"
	envoy = strings.Replace(envoy, endpoint, endpoint+", "+strings.Replace(endpoint, "8081", "8082", 1), 1)
	envoy = strings.ReplaceAll(envoy, "- remote_address: {}", "- request_headers: {header_name: x-none, descriptor_key: none}")
	envoy = strings.Replace(envoy, "{remote_address: {}}",
		"{request_headers: {header_name: x-api-key, descriptor_key: api_key}}", 1)
	write("envoy.yaml", exampletest.WithPorts(envoy, map[string]string{"8000": port, "8081": instances[0].grpc,
		"8082": instances[1].grpc, "3000": app.URL[strings.LastIndex(app.URL, ":")+1:]}))
	exampletest.StartIn(t, dir, "envoy", "-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1", "-l", "error")
	address := "http://127.0.0.1:" + port
	redistest.Await(t, "Envoy", func() bool { return statusOf(address) == http.StatusOK })

	l := &load{granted: map[string][]soak.Spent{}}
	var ended sync.WaitGroup
	ended.Go(func() { l.run(address, uint64(*requests)) })
	l.killAndRestart(t, server, int64(*requests), func(i int64) { instances[i%2].restart(t) })
	ended.Wait()
	l.check(t, 0)
}

// instance is a sluiced that may be restarted.
type instance struct {
	binary, redis, limits, grpc, admin string
	cmd                                *exec.Cmd
}

func (s *instance) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.binary, "serve", "--redis", s.redis, "--grpc", "127.0.0.1:"+s.grpc, "--http", "",
		"--admin", "127.0.0.1:"+s.admin, "--headers", "draft-11", "--drain", "3s", s.limits)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "sluiced", func() bool { return statusOf("http://127.0.0.1:"+s.admin+"/readyz") == http.StatusOK })
}

// restart ends sluiced as Kubernetes does, and starts it again.
func (s *instance) restart(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("sluiced: %v", err)
	}
	s.start(t)
	time.Sleep(2 * time.Second) // Envoy asks once a second whether it is back
}

// statusOf returns the status of a URL, 0 if nobody answers.
func statusOf(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
