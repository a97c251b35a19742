//go:build unix

package soak

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// nodeTimeout is how many milliseconds a cluster waits for a node before it takes it for failing.
func nodeTimeout() string { return fmt.Sprint(byExtent(1000, 2000)) }

// cluster is a Redis Cluster under load.
type cluster struct {
	*run
	masters, replicas []*redistest.Server
}

// TestCluster adds a node, moves slots to it and kills masters, while scripts are flushed all the time.
func TestCluster(t *testing.T) {
	inParallel(t)
	nodes := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", nodeTimeout())
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr, nodes[1].Addr},
		DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	c := &cluster{masters: nodes[:3], replicas: nodes[3:]}
	c.run = begin(t, "3+3 Redis Cluster, cluster-node-timeout "+nodeTimeout()+" ms", rdb)
	node := nodes[1].Client(t)
	for _, s := range c.subjects {
		s.slot = int(node.ClusterKeySlot(context.Background(), s.name).Val())
	}

	// A kill by itself: nothing else tells the client that the slots have another master.
	added := c.add()
	slots := c.useSlots(rdb, c.subjectsOf(c.masters[0])[0].name)
	slots.audit(c.kill(0, true, slots))
	stopFlushing := c.flushScripts(nodes...)
	c.migrate(c.masters[1], added, int(byExtent(100, 300)))
	for i := 1; full() && i <= 6; i++ {
		c.awaitDecisions(10_000)
		c.revive((i - 1) % 3)
		c.kill(i%3, i%2 == 0, nil)
		c.migrate(added, c.masters[1], 100)
		c.migrate(c.masters[1], added, 100)
	}
	c.awaitDecisions(byExtent(10_000, 100_000) - c.calls.of("decisions"))
	stopFlushing()
	c.end()
}

// kill kills a master and sees its replica take its place: the other masters and the replica say so.
func (c *cluster) kill(i int, cut bool, slots *slotLoad) *outage {
	c.t.Helper()
	heir := c.replicas[i]
	o := &outage{about: c.subjectsOf(c.masters[i]), settles: "all masters say cluster_state:ok and name the replica"}
	dead := c.masters[i]
	c.masters[i], c.replicas[i] = heir, dead
	masters := c.clients()
	o.settled = func() bool {
		for _, master := range masters {
			info := master.ClusterInfo(context.Background()).Val()
			if !strings.Contains(info, "cluster_state:ok") || len(slotsOf(master, heir)) == 0 {
				return false
			}
		}
		return true
	}
	c.killMaster(o, dead, heir, cut, slots)
	return o
}

// clients has a client for each master with replicas.
func (c *cluster) clients() (clients []*redis.Client) {
	for _, master := range c.masters {
		clients = append(clients, master.Client(c.t))
	}
	return clients
}

// revive starts the killed one of a pair again. It comes back as a replica, without data.
func (c *cluster) revive(i int) {
	c.t.Helper()
	c.replicas[i].Restart(c.t)
	redistest.AwaitReplica(c.t, c.replicas[i].Client(c.t))
	c.faults.add("node back as a replica", 1)
}

// slotsOf are the slots that a master has, as a node says.
func slotsOf(node *redis.Client, master *redistest.Server) map[int]bool {
	owned := map[int]bool{}
	for _, shard := range node.ClusterShards(context.Background()).Val() {
		isMaster := func(n redis.Node) bool {
			return n.Role == "master" && net.JoinHostPort(n.IP, fmt.Sprint(n.Port)) == master.Addr
		}
		for _, slots := range shard.Slots {
			for slot := int(slots.Start); slices.ContainsFunc(shard.Nodes, isMaster) && slot <= int(slots.End); slot++ {
				owned[slot] = true
			}
		}
	}
	return owned
}

// subjectsOf are the subjects that are on a master, as it says.
func (c *cluster) subjectsOf(master *redistest.Server) (subjects []*subject) {
	c.t.Helper()
	owned := slotsOf(master.Client(c.t), master)
	for _, s := range c.subjects {
		if owned[s.slot] {
			subjects = append(subjects, s)
		}
	}
	if len(subjects) == 0 {
		c.t.Fatalf("%s has no subjects", master.Addr)
	}
	return subjects
}

// add adds an empty master.
func (c *cluster) add() *redistest.Server {
	c.t.Helper()
	added := redistest.StartClusterNode(c.t, "--cluster-node-timeout", nodeTimeout())
	redistest.Meet(c.t, added.Client(c.t), c.masters[0].Client(c.t))
	for _, master := range c.clients() {
		redistest.Await(c.t, "a node knows the new one", func() bool {
			return strings.Contains(master.ClusterNodes(context.Background()).Val(), added.Addr)
		})
	}
	c.faults.add("empty node added", 1)
	return added
}

// migrate moves slots from one master to another, one after the other, as redis-cli --cluster reshard does: so many
// that have subjects.
func (c *cluster) migrate(from, to *redistest.Server, slots int) {
	c.t.Helper()
	source, target := from.Client(c.t), to.Client(c.t)
	sourceID, targetID := do(c.t, source, "cluster", "myid"), do(c.t, target, "cluster", "myid")
	redistest.Await(c.t, "the target is ready", func() bool {
		return strings.Contains(target.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	nodes := append([]*redis.Client{target, source}, c.clients()...)
	moved := map[int]bool{}
	for _, s := range c.subjectsOf(from) {
		if len(moved) == slots {
			break
		}
		if moved[s.slot] {
			continue
		}
		do(c.t, target, "cluster", "setslot", s.slot, "importing", sourceID)
		do(c.t, source, "cluster", "setslot", s.slot, "migrating", targetID)
		c.migrateKeys(source, to, s.slot)
		for _, node := range nodes {
			do(c.t, node, "cluster", "setslot", s.slot, "node", targetID)
		}
		c.faults.add("slots moved", 1)
		moved[s.slot] = true
	}
}

// migrateKeys moves all keys of a slot.
func (c *cluster) migrateKeys(source *redis.Client, to *redistest.Server, slot int) {
	c.t.Helper()
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys, err := source.ClusterGetKeysInSlot(context.Background(), slot, 100).Result()
		must(c.t, err)
		if len(keys) == 0 {
			return
		}
		command := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			command = append(command, key)
		}
		do(c.t, source, command...)
		c.faults.add("keys moved", int64(len(keys)))
	}
}

func do(t *testing.T, node *redis.Client, args ...any) any {
	t.Helper()
	reply, err := node.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}
