//go:build unix

package soak

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// TestRing kills a server of three, whose subjects go to the others, and starts it again, which brings them back.
// A Ring keeps one copy of everything: each time what was granted before is forgotten, and nothing else is.
func TestRing(t *testing.T) {
	inParallel(t)
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	addrs := map[string]string{"a": servers[0].Addr, "b": servers[1].Addr, "c": servers[2].Addr}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, DisableIdentity: true,
		HeartbeatFrequency: 100 * time.Millisecond})
	t.Cleanup(func() { _ = ring.Close() })
	r := begin(t, "Ring of 3 servers, a heartbeat every 100 ms", "the Ring has taken it out", ring, 1000)
	stopFlushing := r.flushScripts(servers...)

	mortal := servers[0]
	owned := map[*subject]bool{}
	for _, s := range r.subjects {
		shard, err := ring.GetShardClientForKey(s.name)
		must(t, err)
		owned[s] = shard.Options().Addr == mortal.Addr
	}
	of := func(s *subject) bool { return owned[s] }

	for range byExtent(1, 3) {
		r.awaitDecisions(r.asked.Load() + byExtent(1000, 4000))
		mortal.Kill()
		killed := time.Now()
		r.injected("server killed", 1)
		redistest.Await(t, r.settles, func() bool { return ring.Len() == len(servers)-1 })
		settled := time.Since(killed)
		r.awaitService(of, time.Now())
		r.recovered(of, killed, settled)
		r.forgotten("server killed: all its grants lost, of the last", of, killed)

		r.awaitDecisions(r.asked.Load() + byExtent(1000, 4000))
		mortal.Restart(t)
		redistest.Await(t, "the ring has found it", func() bool { return ring.Len() == len(servers) })
		r.injected("server back, empty", 1)
		r.awaitService(of, time.Now())
		r.forgotten("server back: the others' grants to its subjects out of sight, of the last", of, time.Now())
	}
	stopFlushing()
	r.end()
}

// forgotten records that the server has lost all grants since the last call of forgotten.
func (r *run) forgotten(why string, of func(*subject) bool, until time.Time) {
	after := r.started
	if n := len(r.losses); n > 0 {
		after = r.losses[n-1].until
	}
	r.losses = append(r.losses, loss{why: why, of: of, after: after, until: until})
}
