package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// The rate limit services that are compared.
const (
	sluiced     = "sluiced"
	theirServer = "envoyproxy/ratelimit"
)

// theirPackage is the server whose place sluiced takes. It is built outside of this module.
const theirPackage = "github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36"

// serviceFile is what both are configured with.
const serviceFile = `domain: bench
descriptors:
  - {key: user, rate_limit: {unit: second, requests_per_unit: 100}}
  - {key: path, rate_limit: {unit: second, requests_per_unit: 100}}
  - {key: tenant, rate_limit: {unit: second, requests_per_unit: 100}}
  - {key: wide, rate_limit: {unit: day, requests_per_unit: 1000000}}
`

// serviceConnections is how many Envoy has: one for each of its threads.
const serviceConnections = 4

// A service is one of them while it runs.
type service struct {
	name    string
	process *exec.Cmd
	clients []ratelimitv3.RateLimitServiceClient
	next    atomic.Int64 // of the clients
}

// startServices builds and starts them, in a folder.
func (b *bench) startServices(ctx context.Context, folder string) ([]*service, error) {
	file := filepath.Join(folder, "limits", "config", "bench.yaml") // the path is theirs
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(serviceFile), 0o600))
	var services []*service
	for _, name := range b.services {
		if err != nil {
			break
		}
		s := &service{name: name}
		if err = b.startService(ctx, s, folder, file); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		services = append(services, s)
	}
	if err != nil {
		stopServices(services)
	}
	return services, err
}

func (b *bench) startService(ctx context.Context, s *service, folder, file string) error {
	addr, err := localredis.FreeAddr()
	if err != nil {
		return err
	}
	build, run := b.commands(s.name, folder, file, addr)
	b.progress("%s", strings.Join(build.Args, " "))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	if err := run.Start(); err != nil {
		return err
	}
	s.process = run
	return s.await(ctx, addr)
}

// commands build a service and run it. Ours ends no call early, as theirs does not.
func (b *bench) commands(name, folder, file, addr string) (build, run *exec.Cmd) {
	redis := b.server.process.Addr
	if name == sluiced {
		return exec.Command("go", "build", "-o", folder, "../cmd/sluiced"),
			exec.Command(filepath.Join(folder, "sluiced"), "serve", "--redis", "redis://"+redis, "--timeout", "10s",
				"--grpc", addr, "--http", "", "--admin", "", file)
	}
	_, port, _ := net.SplitHostPort(addr)
	build, run = exec.Command("go", "install", theirPackage), exec.Command(filepath.Join(folder, "service_cmd"))
	build.Env = append(os.Environ(), "GOBIN="+folder, "GOWORK=off")
	run.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis, "BACKEND_TYPE=redis", "USE_STATSD=false",
		"RUNTIME_ROOT="+folder, "RUNTIME_SUBDIRECTORY=limits", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=error",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+port, "HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0")
	return build, run
}

// await connects, and waits until the service answers.
func (s *service) await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for range serviceConnections {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		client := ratelimitv3.NewRateLimitServiceClient(conn)
		if _, err := client.ShouldRateLimit(ctx, request("wide", "first"), grpc.WaitForReady(true)); err != nil {
			return err
		}
		s.clients = append(s.clients, client)
	}
	return nil
}

func stopServices(services []*service) {
	for _, s := range services {
		if s.process != nil {
			_, _ = s.process.Process.Kill(), s.process.Wait()
		}
	}
}

// request asks about entries, given as key and value in turns, each in a descriptor.
func request(entries ...string) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: "bench"}
	for i := 0; i < len(entries); i += 2 {
		r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: entries[i], Value: entries[i+1]}}})
	}
	return r
}

// ask asks through each connection in turn.
func (s *service) ask(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return s.clients[s.next.Add(1)%serviceConnections].ShouldRateLimit(ctx, r)
}

// grants asks, and reports whether the call was granted.
func (s *service) grants(ctx context.Context, r *ratelimitv3.RateLimitRequest) (bool, error) {
	response, err := s.ask(ctx, r)
	return response.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, err
}

// cpu is the processor time that the service has used, in microseconds. Only Linux tells it, in hundredths of a second.
func (s *service) cpu() (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may have spaces
	fields := strings.Fields(rest)
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) * 1e4, errors.Join(err1, err2)
}
