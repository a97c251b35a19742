package redistest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Every key is answered, and a replica stands by each master.
func TestStartCluster(t *testing.T) {
	nodes := StartCluster(t, 3, 1, "--cluster-node-timeout", "1000")
	if len(nodes) != 6 {
		t.Fatalf("%d nodes", len(nodes))
	}
	for i, master := range nodes[:3] {
		replica := nodes[3+i].Client(t)
		role := replica.Do(context.Background(), "role").Val().([]any)
		if got := fmt.Sprintf("%v:%v", role[1], role[2]); role[0] != "slave" || got != master.Addr {
			t.Errorf("the replica of %s says %v", master.Addr, role)
		}
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}, DisableIdentity: true})
	defer rdb.Close()
	for _, key := range []string{"a", "b", "c", "d"} {
		must(t, rdb.Set(context.Background(), key, "x", 0).Err())
	}
}

// A sentinel of the three tells where the master is, before and after it was killed.
func TestStartSentinels(t *testing.T) {
	s := StartSentinels(t, time.Second)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs,
		DisableIdentity: true})
	defer rdb.Close()
	must(t, rdb.Set(context.Background(), "k", "v", 0).Err())
	s.Master.Kill()
	Await(t, "the replica is the master", func() bool { return rdb.Get(context.Background(), "k").Val() == "v" })
}

// A restarted server is at its old address, and has lost what it did not keep.
func TestKillAndRestart(t *testing.T) {
	s := Start(t)
	c := s.Client(t)
	must(t, c.Set(context.Background(), "k", "v", 0).Err())
	pid := s.PID
	s.Kill()
	if s.Answers() {
		t.Error("it answers after Kill")
	}
	s.Restart(t)
	if n, err := c.DBSize(context.Background()).Result(); n != 0 || err != nil || s.PID == pid {
		t.Errorf("%d keys, %v, process %d as before", n, err, s.PID)
	}
}
