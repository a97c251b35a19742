package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// Slots is the number of slots in a Redis Cluster.
const Slots = localredis.Slots

// StartCluster starts a Redis Cluster and waits until all nodes are ready: the masters first in the result, then one
// replica of each in the same order, and so on. extraArgs are added to the command line of every node. Three masters
// with one replica each take about 3 s.
func StartCluster(tb testing.TB, masters, replicas int, extraArgs ...string) (servers []*Server) {
	tb.Helper()
	nodes, err := localredis.StartCluster(Servers(tb)[0], tb.TempDir(), masters, replicas,
		func(node *localredis.Server) error { tb.Cleanup(node.Kill); return nil }, extraArgs...)
	must(tb, err)
	for _, node := range nodes {
		servers = append(servers, &Server{node})
	}
	return servers
}

// StartClusterNode starts a node that is a cluster on its own, without slots.
func StartClusterNode(tb testing.TB, extraArgs ...string) *Server {
	tb.Helper()
	node, err := localredis.StartClusterNode(Servers(tb)[0], tb.TempDir(), extraArgs...)
	must(tb, err)
	tb.Cleanup(node.Kill)
	return &Server{node}
}

// Meet joins a node to another's cluster. The nodes know each other a short time later.
func Meet(tb testing.TB, node, other *redis.Client) {
	tb.Helper()
	must(tb, localredis.Meet(node, other))
}

// AwaitReplica waits until a server is a replica that has its master's data.
func AwaitReplica(tb testing.TB, replica *redis.Client) {
	tb.Helper()
	Await(tb, "a replica has synchronized", func() bool { return localredis.Synchronized(replica) })
}

// Await waits until isSo returns true. After 30 s it fails the test.
func Await(tb testing.TB, what string, isSo func() bool) {
	tb.Helper()
	must(tb, localredis.Await(what, isSo))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
