package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// server is the Redis that everything runs on: private, on a free loopback port, without persistence.
type server struct {
	*redis.Client
	process *localredis.Server
}

// startServer runs the first program that SLUICE_SERVERS lists, else redis-server or valkey-server from PATH.
func startServer() (*server, error) {
	programs, err := localredis.Programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	process, err := localredis.Start(programs[0], dir, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &server{newClient(process.Addr), process}, nil
}

// newClient is the client of README's example for production, with none of the extras that would send commands of their
// own.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, DialerRetries: 1, ContextTimeoutEnabled: true,
		DisableIdentity: true, ReadTimeout: time.Minute, PoolSize: 64,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (s *server) stop() {
	_ = s.Close()
	s.process.Kill()
	_ = os.RemoveAll(s.process.Dir)
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

// commandStats is what the server has done since its statistics were reset, by command.
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
