//go:build unix

package soak

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// Chaos is attacks on deployments that get over the end of a server. Their limits are for longer than that takes: what
// is granted too much afterwards shows.

// newChaos makes an attack on a deployment.
func newChaos(t *testing.T, s *site) *attack {
	t.Helper()
	s.prepare(t)
	return newAttack(t, chaosSetting(), s)
}

// chaosSetting has no GiveBack: that a grant is no more there to be given back may be the end of its server.
func chaosSetting() setting {
	with := setting{full: full(), tight: loader.Limit{Permits: 4, Window: 10 * time.Second},
		leases: loader.Limit{Permits: 5, Window: 12 * time.Second}, pause: 50 * time.Millisecond, rest: 2 * time.Second}
	for _, m := range modes {
		if m.how != givingBack {
			with.modes = append(with.modes, m)
		}
	}
	return with
}

// happen has faults happen, one after another.
func (a *attack) happen(faults ...*fault) {
	for _, f := range faults {
		a.inject(a.event(f))
	}
}

// TestSentinel kills a master that three sentinels watch.
func TestSentinel(t *testing.T) {
	trio := redistest.StartSentinels(t, time.Second)
	s := &site{name: "Sentinel trio, down-after-milliseconds 1000", trio: trio,
		servers: []*redistest.Server{trio.Master}, replicas: []*redistest.Server{trio.Replica}}
	a := newChaos(t, s)
	a.run(func() {
		defer a.flushScripts(trio.Master, trio.Replica)()
		a.happen(s.masterKilled(0, true, func() bool { return trio.MasterIs(trio.Replica.Addr) }))
	})
	a.report()
}

// heartbeat is how often a Ring asks its servers whether they are well. It takes out one that has not been three times.
const heartbeat = 100 * time.Millisecond

// TestRing kills a server of three, whose subjects go to the others, and starts it again, which brings them back.
// A Ring keeps one copy of everything: each time what was granted before is forgotten, and nothing else is.
func TestRing(t *testing.T) {
	s := &site{name: "Ring of 3 servers", shards: map[string]string{},
		servers: []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}}
	for i, name := range []string{"a", "b", "c"} {
		s.shards[name] = s.servers[i].Addr
	}
	a := newChaos(t, s)
	killed := &fault{name: "server killed", server: 1, anywhere: true, late: failoverLate}
	killed.begin = func(_ *attack, e *event) {
		s.servers[0].Kill()
		now := time.Now()
		e.lost = &loss{since: now, until: now}
	}
	killed.end = func(*attack, *event) { s.awaitShards(t, len(s.servers)-1) }
	back := &fault{name: "server back, empty", server: 1, anywhere: true, late: failoverLate}
	back.begin = func(*attack, *event) { s.servers[0].Restart(t) }
	back.end = func(_ *attack, e *event) {
		s.awaitShards(t, len(s.servers))
		e.lost = &loss{since: e.begun, until: time.Now()} // what the others granted is out of sight from then on
	}
	a.run(func() {
		defer a.flushScripts(s.servers...)()
		for range byExtent(1, 3) {
			a.happen(killed, back)
		}
	})
	a.report()
}

// awaitShards waits until all clients of a Ring use so many servers.
func (s *site) awaitShards(t *testing.T, n int) {
	t.Helper()
	for _, ring := range s.rings {
		redistest.Await(t, "a Ring uses the servers that are well", func() bool { return ring.Len() == n })
	}
}

// flushScripts flushes the scripts of one node after another, until what it returns is called.
func (a *attack) flushScripts(nodes ...*redistest.Server) (stop func()) {
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = redis.NewClient(&redis.Options{ // one that does not hold up the others when it is dead
			Addr: node.Addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		})
	}
	flushing := startCrowd(1, func(ctx context.Context, _ int) {
		time.Sleep(rand.N(60 * time.Millisecond))
		if clients[rand.IntN(len(clients))].ScriptFlush(ctx).Err() == nil { // some are dead
			a.counts.add("SCRIPT FLUSH", 1)
		}
	})
	return func() {
		flushing.stop()
		for _, client := range clients {
			_ = client.Close()
		}
	}
}
