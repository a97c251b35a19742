//go:build unix

package soak

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// TestSentinel kills a master that three sentinels watch.
func TestSentinel(t *testing.T) {
	inParallel(t)
	s := redistest.StartSentinels(t, time.Second)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs,
		DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	r := begin(t, "Sentinel trio, down-after-milliseconds 1000", "all sentinels name the replica", rdb, 1000)
	slots := r.useSlots(rdb, "s")
	stopFlushing := r.flushScripts(s.Master, s.Replica)
	r.awaitDecisions(byExtent(1000, 10_000))
	r.killMaster(pair{
		master: s.Master, replica: s.Replica,
		of:      func(*subject) bool { return true },
		settled: func() bool { return s.MasterIs(s.Replica.Addr) },
		slots:   slots,
	}, true)
	slots.audit(r.losses[0])
	r.awaitDecisions(r.asked.Load() + byExtent(1000, 10_000))
	stopFlushing()
	r.end()
}
