package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinels is a master, its replica, and the sentinels that watch the master.
type Sentinels struct {
	Master, Replica *Server
	Name            string   // the sentinels' name for the master
	Addrs           []string // of the sentinels
}

// StartSentinels starts a master, a replica and three sentinels, and waits until they know each other. The sentinels
// start a failover when the master has not answered for downAfter.
func StartSentinels(tb testing.TB, downAfter time.Duration) *Sentinels {
	tb.Helper()
	s := &Sentinels{Name: "main", Master: Start(tb, "--repl-diskless-sync-delay", "0"), Replica: Start(tb)}
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	replica := s.Replica.Client(tb)
	must(tb, replica.ReplicaOf(context.Background(), host, port).Err())
	AwaitReplica(tb, replica)
	const sentinels = 3
	for range sentinels {
		s.Addrs = append(s.Addrs, startSentinel(tb, s.Name, host, port, downAfter))
	}
	for _, addr := range s.Addrs {
		Await(tb, "a sentinel knows the replica and the others", func() bool {
			return s.knows(addr, "num-slaves", 1) && s.knows(addr, "num-other-sentinels", sentinels-1)
		})
	}
	return s
}

// knows reports whether a sentinel's counter has this value.
func (s *Sentinels) knows(addr, field string, n int) bool {
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer sentinel.Close()
	return sentinel.Master(context.Background(), s.Name).Val()[field] == fmt.Sprint(n)
}

// MasterIs reports whether all sentinels name this address as the master's.
func (s *Sentinels) MasterIs(addr string) bool {
	for _, sentinel := range s.Addrs {
		client := redis.NewSentinelClient(&redis.Options{Addr: sentinel, DisableIdentity: true})
		at, err := client.GetMasterAddrByName(context.Background(), s.Name).Result()
		_ = client.Close()
		if err != nil || net.JoinHostPort(at[0], at[1]) != addr {
			return false
		}
	}
	return true
}

// startSentinel starts one sentinel. It takes its configuration from a file that it writes to, so the program
// that is started is a script that names it.
func startSentinel(tb testing.TB, name, host, port string, downAfter time.Duration) string {
	tb.Helper()
	dir := tb.TempDir()
	config, program := filepath.Join(dir, "sentinel.conf"), filepath.Join(dir, "sentinel")
	must(tb, os.WriteFile(config, fmt.Appendf(nil, `sentinel monitor %[1]s %[2]s %[3]s 2
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 10000
`, name, host, port, downAfter.Milliseconds()), 0o600))
	must(tb, os.WriteFile(program, fmt.Appendf(nil,
		"#!/bin/sh\n# $2 is the port\nexec %s %s --sentinel --bind 127.0.0.1 --port \"$2\"\n", Servers(tb)[0], config),
		0o700))
	return StartBinary(tb, program).Addr
}
