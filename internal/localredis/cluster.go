package localredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Slots is the number of slots in a Redis Cluster.
const Slots = 16384

const patience = 30 * time.Second

// StartCluster starts a Redis Cluster, each node in a folder of its own in dir. The masters share the slots evenly, and
// each has the given number of replicas. It waits until every node knows the whole cluster and every replica is
// synchronized. The result lists the masters first, then one replica of each in the same order, and so on. It calls
// started with each node before the nodes know each other. extraArgs are added to the command line of every node. The
// caller must Kill all nodes that it returns, with an error too.
func StartCluster(
	binary, dir string, masters, replicas int, started func(*Server) error, extraArgs ...string,
) (nodes []*Server, err error) {
	clients := make([]*redis.Client, masters*(1+replicas))
	for i := range clients {
		folder := filepath.Join(dir, fmt.Sprint("node", i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nodes, err
		}
		node, err := StartClusterNode(binary, folder, extraArgs...)
		if err != nil {
			return nodes, err
		}
		nodes, clients[i] = append(nodes, node), Client(node.Addr)
		defer clients[i].Close()
		if err := started(node); err != nil {
			return nodes, err
		}
	}
	return nodes, join(clients, masters)
}

// join makes a cluster of nodes that are each one of their own.
func join(nodes []*redis.Client, masters int) error {
	ctx := context.Background()
	for i, node := range nodes {
		if i < masters {
			first, last := i*Slots/masters, (i+1)*Slots/masters-1
			if err := node.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
				return err
			}
		}
		if i == 0 {
			continue
		}
		if err := Meet(node, nodes[0]); err != nil {
			return err
		}
	}
	for i := masters; i < len(nodes); i++ {
		if err := replicate(nodes[i], nodes[i%masters]); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		err := Await(node.Options().Addr+" knows the whole cluster", func() bool { return whole(node, masters, len(nodes)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// StartClusterNode starts a node that is a cluster on its own, without slots.
func StartClusterNode(binary, dir string, extraArgs ...string) (*Server, error) {
	bus, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(bus)
	return Start(binary, dir, nil, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", port, "--repl-diskless-sync-delay", "0",
	}, extraArgs...)...)
}

// Meet joins a node to another's cluster. The nodes know each other a short time later.
func Meet(node, other *redis.Client) error {
	ctx := context.Background()
	host, port, _ := net.SplitHostPort(other.Options().Addr)
	bus := other.ConfigGet(ctx, "cluster-port").Val()["cluster-port"]
	return node.Do(ctx, "cluster", "meet", host, port, bus).Err()
}

// MoveSlot has the slot of a hash tag on its way from one master to another: calls of keys that are not there yet get
// ASK. What it returns ends the move. The other nodes learn of it from the two.
func MoveSlot(tag string, from, to *redis.Client) (end func() error) {
	ctx := context.Background()
	slot := from.ClusterKeySlot(ctx, tag).Val()
	set := func(node *redis.Client, state string, other *redis.Client) error {
		return node.Do(ctx, "cluster", "setslot", slot, state, other.ClusterMyID(ctx).Val()).Err()
	}
	err := errors.Join(set(to, "importing", from), set(from, "migrating", to))
	return func() error {
		host, port, _ := net.SplitHostPort(to.Options().Addr)
		for _, key := range from.ClusterGetKeysInSlot(ctx, int(slot), 1000).Val() {
			err = errors.Join(err, from.Migrate(ctx, host, port, key, 0, 5*time.Second).Err())
		}
		return errors.Join(err, set(to, "node", to), set(from, "node", to))
	}
}

// replicate makes a node the replica of a master and waits until it has the data.
func replicate(node, master *redis.Client) error {
	ctx := context.Background()
	id := fmt.Sprint(master.Do(ctx, "cluster", "myid").Val())
	return errors.Join(
		Await("a node knows its master", func() bool { return node.ClusterReplicate(ctx, id).Err() == nil }),
		Await("a replica has synchronized", func() bool { return Synchronized(node) }))
}

// Synchronized reports whether a server is a replica that has its master's data.
func Synchronized(replica *redis.Client) bool {
	return strings.Contains(replica.Info(context.Background(), "replication").Val(), "master_link_status:up")
}

// whole reports whether a node knows all other nodes, their slots and their roles.
func whole(node *redis.Client, masters, nodes int) bool {
	ctx := context.Background()
	info, table := node.ClusterInfo(ctx).Val(), node.ClusterNodes(ctx).Val()
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, fmt.Sprint("cluster_known_nodes:", nodes)) &&
		strings.Contains(info, fmt.Sprint("cluster_size:", masters)) && strings.Count(table, "slave ") == nodes-masters
}

// Client returns a client for one server only.
func Client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Await waits until isSo returns true, for 30 s at most.
func Await(what string, isSo func() bool) error {
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not so after %v: %s", patience, what)
		}
	}
	return nil
}
