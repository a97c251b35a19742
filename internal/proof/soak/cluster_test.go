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

// TestCluster adds a node, moves slots to it and back, and kills masters, while scripts are flushed.
func TestCluster(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", nodeTimeout())
	s := &site{name: "3+3 Redis Cluster", cluster: true, servers: nodes[:3:3], replicas: nodes[3:]}
	a := newChaos(t, s)
	kill := func(i int, cut bool) *fault {
		heir := s.replicas[i].Addr
		return s.masterKilled(i, cut, func() bool { return s.whole() && s.allName(heir) })
	}
	slots := s.slotsOf(1)
	spare := redistest.Slots / 2 // of the same server
	for slices.Contains(slots, spare) {
		spare--
	}
	a.run(func() {
		added := s.add(t)
		// A node without slots would become a replica.
		s.migrate(a, []int{spare}, s.servers[1], added)
		a.happen(kill(0, true)) // by itself: nothing else tells the clients that the slots have another master
		defer a.flushScripts(append(nodes, added)...)()
		moved := &fault{
			name: "slots moved", server: 2, anywhere: true, late: failoverLate,
			begin: func(*attack, *event) { s.migrate(a, slots, s.servers[1], added) },
			end:   func(*attack, *event) { s.migrate(a, slots, added, s.servers[1]) },
		}
		a.happen(moved)
		// The server whose slots move dies last: Redis 7.0 may forget a slot that has moved when it is back as a replica.
		for i, died := 0, 0; full() && i < 6; i++ {
			s.revive(a, died)
			died = []int{2, 0, 2, 0, 2, 1}[i]
			a.happen(kill(died, i%2 == 0), moved)
		}
	})
	a.report()
}

// allName reports whether all masters say that a node has slots.
func (s *site) allName(addr string) bool {
	return !slices.ContainsFunc(s.admins, func(master *redis.Client) bool {
		shards := master.ClusterShards(context.Background()).Val()
		return !slices.ContainsFunc(shards, func(s redis.ClusterShard) bool {
			return len(s.Slots) > 0 && slices.ContainsFunc(s.Nodes, func(n redis.Node) bool {
				return n.Role == "master" && net.JoinHostPort(n.IP, fmt.Sprint(n.Port)) == addr
			})
		})
	})
}

// revive starts the killed one of a pair again. It comes back as a replica, without data.
func (s *site) revive(a *attack, i int) {
	a.t.Helper()
	s.replicas[i].Restart(a.t)
	redistest.AwaitReplica(a.t, s.replicas[i].Client(a.t))
	a.counts.add("nodes back as a replica", 1)
}

// add adds an empty master.
func (s *site) add(t *testing.T) *redistest.Server {
	t.Helper()
	added := redistest.StartClusterNode(t, "--cluster-node-timeout", nodeTimeout())
	redistest.Meet(t, added.Client(t), s.admins[0])
	for _, master := range s.admins {
		redistest.Await(t, "a node knows the new one", func() bool {
			return strings.Contains(master.ClusterNodes(context.Background()).Val(), added.Addr)
		})
	}
	return added
}

// slotsOf are the slots that have subjects of one server.
func (s *site) slotsOf(server int) (slots []int) {
	for _, subject := range s.subjects[server] {
		slots = append(slots, s.slot(subject))
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// migrate moves slots from one master to another, one after the other, as redis-cli --cluster reshard does. The other
// nodes learn of it from the two.
func (s *site) migrate(a *attack, slots []int, from, to *redistest.Server) {
	a.t.Helper()
	source, target := from.Client(a.t), to.Client(a.t)
	do := func(node *redis.Client, args ...any) any {
		reply, err := node.Do(context.Background(), args...).Result()
		must(a.t, err)
		return reply
	}
	sourceID, targetID := do(source, "cluster", "myid"), do(target, "cluster", "myid")
	redistest.Await(a.t, "the target is ready", func() bool {
		return strings.Contains(target.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	for _, slot := range slots {
		do(target, "cluster", "setslot", slot, "importing", sourceID)
		do(source, "cluster", "setslot", slot, "migrating", targetID)
		a.counts.add("keys moved", migrateKeys(a.t, source, to, slot))
		do(target, "cluster", "setslot", slot, "node", targetID)
		do(source, "cluster", "setslot", slot, "node", targetID)
	}
	a.counts.add("slots moved", int64(len(slots)))
}

// migrateKeys moves all keys of a slot.
func migrateKeys(t *testing.T, source *redis.Client, to *redistest.Server, slot int) (moved int64) {
	t.Helper()
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys, err := source.ClusterGetKeysInSlot(context.Background(), slot, 100).Result()
		must(t, err)
		if len(keys) == 0 {
			return moved
		}
		command := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			command = append(command, key)
		}
		must(t, source.Do(context.Background(), command...).Err())
		moved += int64(len(keys))
	}
}
