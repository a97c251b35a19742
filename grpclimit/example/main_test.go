package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// The program is short, and does what its first line says.
func TestServerExample(t *testing.T) {
	source, err := os.ReadFile("main.go")
	must(t, err)
	if lines := strings.Count(string(source), "\n"); lines > 45 {
		t.Errorf("the program has %d lines, want at most 45", lines)
	}
	redisServer := redistest.Start(t)
	conn, err := grpc.NewClient(start(t, "redis://"+redisServer.Addr),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	health := grpc_health_v1.NewHealthClient(conn)
	for range 10 {
		_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		must(t, err)
	}
	_, err = health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	wait := time.Duration(0)
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			wait = retry.RetryDelay.AsDuration()
		}
	}
	if status.Code(err) != codes.ResourceExhausted || wait <= 0 || wait > time.Minute {
		t.Errorf("the eleventh call: %v, RetryInfo %v", err, wait)
	}
	stream, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	must(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream: %v", err)
	}
	redisServer.Kill()
	if _, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without Redis: %v", err)
	}
}

// start builds and runs the program, and returns the address on which it listens.
func start(t *testing.T, redisURL string) (addr string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "example")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-redis", redisURL, "-listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, addr, found := strings.Cut(lines.Text(), "listening on "); found {
			return addr
		}
	}
	t.Fatal("the program ended without an address")
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
