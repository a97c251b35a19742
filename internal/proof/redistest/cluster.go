package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Slots is the number of slots in a Redis Cluster.
const Slots = 16384

const patience = 30 * time.Second

// StartCluster starts a Redis Cluster. The masters share the slots evenly, and each has the given number of replicas.
// It waits until every node knows the whole cluster and every replica is synchronized. The result lists the masters
// first, then one replica of each in the same order, and so on. extraArgs are added to the command line of every node.
// Three masters with one replica each take about 3 s.
func StartCluster(tb testing.TB, masters, replicas int, extraArgs ...string) []*Server {
	tb.Helper()
	nodes := make([]*Server, masters*(1+replicas))
	clients := make([]*redis.Client, len(nodes))
	for i := range nodes {
		nodes[i] = StartClusterNode(tb, extraArgs...)
		clients[i] = nodes[i].Client(tb)
		if i < masters {
			first, last := i*Slots/masters, (i+1)*Slots/masters-1
			must(tb, clients[i].ClusterAddSlotsRange(context.Background(), first, last).Err())
		}
		if i > 0 {
			Meet(tb, clients[i], clients[0])
		}
	}
	for i := masters; i < len(nodes); i++ {
		replicate(tb, clients[i], clients[i%masters])
	}
	for _, client := range clients {
		Await(tb, client.Options().Addr+" knows the whole cluster", func() bool { return whole(client, masters, len(nodes)) })
	}
	return nodes
}

// StartClusterNode starts a node that is a cluster on its own, without slots.
func StartClusterNode(tb testing.TB, extraArgs ...string) *Server {
	tb.Helper()
	bus, err := freeAddr()
	must(tb, err)
	_, port, _ := net.SplitHostPort(bus)
	return Start(tb, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", port, "--repl-diskless-sync-delay", "0",
	}, extraArgs...)...)
}

// Meet joins a node to another's cluster. The nodes know each other a short time later.
func Meet(tb testing.TB, node, other *redis.Client) {
	tb.Helper()
	ctx := context.Background()
	host, port, _ := net.SplitHostPort(other.Options().Addr)
	bus := other.ConfigGet(ctx, "cluster-port").Val()["cluster-port"]
	must(tb, node.Do(ctx, "cluster", "meet", host, port, bus).Err())
}

// replicate makes a node the replica of a master and waits until it has the data.
func replicate(tb testing.TB, node, master *redis.Client) {
	tb.Helper()
	ctx := context.Background()
	id := fmt.Sprint(master.Do(ctx, "cluster", "myid").Val())
	Await(tb, "a node knows its master", func() bool { return node.ClusterReplicate(ctx, id).Err() == nil })
	AwaitReplica(tb, node)
}

// AwaitReplica waits until a server is a replica that has its master's data.
func AwaitReplica(tb testing.TB, replica *redis.Client) {
	tb.Helper()
	Await(tb, "a replica has synchronized", func() bool {
		return strings.Contains(replica.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// whole reports whether a node knows all other nodes, their slots and their roles.
func whole(node *redis.Client, masters, nodes int) bool {
	ctx := context.Background()
	info, table := node.ClusterInfo(ctx).Val(), node.ClusterNodes(ctx).Val()
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, fmt.Sprint("cluster_known_nodes:", nodes)) &&
		strings.Contains(info, fmt.Sprint("cluster_size:", masters)) && strings.Count(table, "slave ") == nodes-masters
}

// Client returns a client for this server only. It is closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: s.Addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Await waits until isSo returns true. After 30 s it fails the test.
func Await(tb testing.TB, what string, isSo func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not so after %v: %s", patience, what)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
