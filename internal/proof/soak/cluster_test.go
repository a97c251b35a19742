//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// nodeTimeout is how many milliseconds a cluster waits for a node before it takes it for failing.
func nodeTimeout() string { return fmt.Sprint(byExtent(1000, 2000)) }

// cluster is a Redis Cluster under load.
type cluster struct {
	*run
	masters, replicas []*redistest.Server
	slotOf            map[*subject]int64
}

// TestCluster adds a node, moves slots to it and kills masters, while scripts are flushed all the time.
func TestCluster(t *testing.T) {
	inParallel(t)
	nodes := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", nodeTimeout())
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr, nodes[1].Addr},
		DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	c := &cluster{masters: nodes[:3], replicas: nodes[3:], slotOf: map[*subject]int64{}}
	c.run = begin(t, "3+3 Redis Cluster, cluster-node-timeout "+nodeTimeout()+" ms",
		"all masters say cluster_state:ok and name the replica", rdb, 1000)
	for _, s := range c.subjects {
		c.slotOf[s] = nodes[1].Client(t).ClusterKeySlot(context.Background(), s.name).Val()
	}

	// A kill by itself: nothing else tells the client that the slots have another master.
	added := c.add()
	slots := c.useSlots(rdb, c.subjectOf(0))
	c.kill(0, true, slots)
	slots.audit(c.losses[0])
	stopFlushing := c.flushScripts(nodes...)
	c.migrate(c.masters[1], added, int(byExtent(100, 300)))
	for i := 1; full() && i <= 6; i++ {
		c.awaitDecisions(c.asked.Load() + 10_000)
		c.revive((i - 1) % 3)
		c.kill(i%3, i%2 == 0, nil)
		c.migrate(added, c.masters[1], 100)
		c.migrate(c.masters[1], added, 100)
	}
	c.awaitDecisions(byExtent(10_000, 100_000))
	stopFlushing()
	c.end()
}

// kill kills a master and sees its replica take its place.
func (c *cluster) kill(i int, cut bool, slots *slotLoad) {
	c.t.Helper()
	owned := c.slotsOf(c.masters[i])
	c.killMaster(pair{
		master: c.masters[i], replica: c.replicas[i],
		of:      func(s *subject) bool { return owned[c.slotOf[s]] },
		settled: c.wholeWithout(i),
		slots:   slots,
	}, cut)
	c.masters[i], c.replicas[i] = c.replicas[i], c.masters[i]
}

// subjectOf is the name of a subject that is on a master.
func (c *cluster) subjectOf(i int) string {
	owned := c.slotsOf(c.masters[i])
	return c.subjects[slices.IndexFunc(c.subjects, func(s *subject) bool { return owned[c.slotOf[s]] })].name
}

// wholeWithout reports whether the other masters, and the replica that takes the place of one, say that they are whole
// again.
func (c *cluster) wholeWithout(i int) func() bool {
	heir := c.replicas[i]
	nodes := []*redis.Client{heir.Client(c.t)}
	for k, master := range c.masters {
		if k != i {
			nodes = append(nodes, master.Client(c.t))
		}
	}
	id, ctx := idOf(c.t, nodes[0]), context.Background()
	return func() bool {
		for _, node := range nodes {
			if !strings.Contains(node.ClusterInfo(ctx).Val(), "cluster_state:ok") ||
				!masterOf(node.ClusterNodes(ctx).Val(), id) {
				return false
			}
		}
		return true
	}
}

// masterOf reports whether a node is a master in the text of CLUSTER NODES.
func masterOf(nodes, id string) bool {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); fields[0] == id {
			return strings.Contains(fields[2], "master")
		}
	}
	return false
}

// revive starts the killed one of a pair again. It comes back as a replica, without data.
func (c *cluster) revive(i int) {
	c.t.Helper()
	c.replicas[i].Restart(c.t)
	redistest.AwaitReplica(c.t, c.replicas[i].Client(c.t))
	c.injected("node back as a replica", 1)
}

// slotsOf are the slots that a master has, as it says.
func (c *cluster) slotsOf(master *redistest.Server) map[int64]bool {
	c.t.Helper()
	node := master.Client(c.t)
	shards, err := node.ClusterShards(context.Background()).Result()
	must(c.t, err)
	id, owned := idOf(c.t, node), map[int64]bool{}
	for _, shard := range shards {
		if !slices.ContainsFunc(shard.Nodes, func(n redis.Node) bool { return n.ID == id }) {
			continue
		}
		for _, slots := range shard.Slots {
			for slot := slots.Start; slot <= slots.End; slot++ {
				owned[slot] = true
			}
		}
	}
	if len(owned) == 0 {
		c.t.Fatalf("%s has no slots", master.Addr)
	}
	return owned
}

// add adds an empty master.
func (c *cluster) add() *redistest.Server {
	c.t.Helper()
	added := redistest.StartClusterNode(c.t, "--cluster-node-timeout", nodeTimeout())
	node := added.Client(c.t)
	redistest.Meet(c.t, node, c.masters[0].Client(c.t))
	for _, master := range c.masters {
		client := master.Client(c.t)
		redistest.Await(c.t, "a node knows the new one", func() bool {
			return strings.Contains(client.ClusterNodes(context.Background()).Val(), added.Addr)
		})
	}
	c.injected("empty node added", 1)
	return added
}

// migrate moves slots from one master to another, one after the other, as redis-cli --cluster reshard does:
// those of as many subjects.
func (c *cluster) migrate(from, to *redistest.Server, subjects int) {
	c.t.Helper()
	owned := c.slotsOf(from)
	source, target := from.Client(c.t), to.Client(c.t)
	sourceID, targetID := idOf(c.t, source), idOf(c.t, target)
	nodes := []*redis.Client{target, source}
	for _, master := range c.masters {
		if master != from && master != to {
			nodes = append(nodes, master.Client(c.t))
		}
	}
	redistest.Await(c.t, "the target is ready", func() bool {
		return strings.Contains(target.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	for _, s := range c.subjects {
		slot := c.slotOf[s]
		if subjects == 0 || !owned[slot] {
			continue
		}
		do(c.t, target, "cluster", "setslot", slot, "importing", sourceID)
		do(c.t, source, "cluster", "setslot", slot, "migrating", targetID)
		c.injected("keys moved", c.migrateKeys(source, to, slot))
		for _, node := range nodes {
			do(c.t, node, "cluster", "setslot", slot, "node", targetID)
		}
		c.injected("slots moved", 1)
		owned[slot] = false
		subjects--
	}
}

// migrateKeys moves all keys of a slot and returns how many there were.
func (c *cluster) migrateKeys(source *redis.Client, to *redistest.Server, slot int64) (moved int64) {
	c.t.Helper()
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys, err := source.ClusterGetKeysInSlot(context.Background(), int(slot), 100).Result()
		must(c.t, err)
		if len(keys) == 0 {
			return moved
		}
		command := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			command = append(command, key)
		}
		do(c.t, source, command...)
		moved += int64(len(keys))
	}
}

// flushScripts flushes the scripts of one node after another, until what it returns is called.
func (r *run) flushScripts(nodes ...*redistest.Server) (stop func()) {
	var flushing sync.WaitGroup
	ended := make(chan struct{})
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = redis.NewClient(&redis.Options{ // one that does not hold up the others when it is dead
			Addr: node.Addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		})
		r.t.Cleanup(func() { _ = clients[i].Close() })
	}
	flushed := int64(0)
	flushing.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(rand.N(60 * time.Millisecond)):
			}
			if clients[rand.IntN(len(clients))].ScriptFlush(context.Background()).Err() == nil { // some are dead
				flushed++
			}
		}
	})
	return func() {
		close(ended)
		flushing.Wait()
		r.injected("SCRIPT FLUSH", flushed)
	}
}

func idOf(t *testing.T, node *redis.Client) string {
	t.Helper()
	return fmt.Sprint(do(t, node, "cluster", "myid"))
}

func do(t *testing.T, node *redis.Client, args ...any) any {
	t.Helper()
	reply, err := node.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}
