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

// timed is the replies to calls of a script after a preparation, and the server's time for one of them, in
// microseconds, by INFO commandstats.
func (s *server) timed(ctx context.Context, source string, prepare func(redis.Pipeliner), calls ...[]any) (
	replies []redis.Cmder, usec float64, err error) {
	_, err = s.Pipelined(ctx, func(p redis.Pipeliner) error {
		prepare(p)
		p.ScriptLoad(ctx, source)
		p.ConfigResetStat(ctx)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	replies, err = s.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, call := range calls {
			p.Do(ctx, call...)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, 0, err
	}
	info, err := s.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, 0, err
	}
	stats, _ := infoField(info, "cmdstat_evalsha:")
	n := 0
	if _, err := fmt.Sscanf(stats, "calls=%d,usec=%f,", &n, &usec); err != nil || n != len(calls) {
		return nil, 0, fmt.Errorf("%d calls of EVALSHA, want %d: %q: %w", n, len(calls), stats, err)
	}
	return replies, usec / float64(n), nil
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

// memory is the sum of MEMORY USAGE over all keys.
func (s *server) memory(ctx context.Context) (sum int64, err error) {
	keys, err := s.Keys(ctx, "*").Result()
	for _, key := range keys {
		bytes, failed := s.MemoryUsage(ctx, key, 0).Result()
		if !errors.Is(failed, redis.Nil) { // the key is gone meanwhile
			err = errors.Join(err, failed)
		}
		sum += bytes
	}
	return sum, err
}
