package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sluice-redis/sluice/internal/redistest"
)

// startTimeout is how long the server may take until it answers PING.
const startTimeout = 10 * time.Second

// server is the Redis that everything runs on: private, on a free loopback port, without persistence.
type server struct {
	*redis.Client
	addr string
	cmd  *exec.Cmd
	dir  string
}

// startServer runs the first program that SLUICE_SERVERS lists, else redis-server or valkey-server from PATH.
func startServer(ctx context.Context) (*server, error) {
	binary, err := serverBinary()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{Client: newClient(addr), addr: addr, cmd: cmd, dir: dir}
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	return s, nil
}

func serverBinary() (string, error) {
	for _, name := range append(strings.Fields(os.Getenv(redistest.Environment)), "redis-server", "valkey-server") {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-server or valkey-server on PATH: run `make test` once, it installs one")
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// newClient is a client with none of the extras that would send commands of their own.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true, ReadTimeout: time.Minute, PoolSize: 64,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.Ping(ctx).Err()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *server) stop() {
	_ = s.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

// version is "Redis 7.0.15" or "Valkey 8.0.1".
func (s *server) version(ctx context.Context) (string, error) {
	info, err := s.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	if version, ok := infoField(info, "valkey_version:"); ok {
		return "Valkey " + version, nil
	}
	version, _ := infoField(info, "redis_version:")
	return "Redis " + version, nil
}

func infoField(info, name string) (string, bool) {
	_, rest, found := strings.Cut(info, "\n"+name)
	value, _, _ := strings.Cut(rest, "\r\n")
	return value, found
}

// spent is what the server did in one kind of command.
type spent struct {
	calls int
	usec  float64
}

// commandStats is what the server has done since resetStats, by command.
func (s *server) commandStats(ctx context.Context) (map[string]spent, error) {
	info, err := s.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	stats := map[string]spent{}
	for line := range strings.Lines(info) {
		name, fields, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		calls, rest, _ := strings.Cut(fields, ",usec=")
		usec, _, _ := strings.Cut(rest, ",")
		n, err1 := strconv.Atoi(calls)
		us, err2 := strconv.ParseFloat(usec, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("INFO commandstats: %q: %w", line, err)
		}
		stats[name] = spent{n, us}
	}
	return stats, nil
}

// cpu is the processor time that the server has used, in microseconds.
func (s *server) cpu(ctx context.Context) (float64, error) {
	info, err := s.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	user, _ := infoField(info, "used_cpu_user:")
	system, _ := infoField(info, "used_cpu_sys:")
	u, err1 := strconv.ParseFloat(user, 64)
	k, err2 := strconv.ParseFloat(system, 64)
	return (u + k) * 1e6, errors.Join(err1, err2)
}

func (s *server) resetStats(ctx context.Context) error { return s.ConfigResetStat(ctx).Err() }

// memory is the sum of MEMORY USAGE over the keys that there are.
func (s *server) memory(ctx context.Context, keys []string) (int64, error) {
	var sum int64
	for _, key := range keys {
		bytes, err := s.MemoryUsage(ctx, key, 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}
