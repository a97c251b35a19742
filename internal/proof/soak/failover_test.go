//go:build unix

package soak

import (
	"context"
	"strconv"
	"sync"
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
	r := begin(t, "Sentinel trio, down-after-milliseconds 1000", rdb)
	slots := r.useSlots(rdb, "s")
	stopFlushing := r.flushScripts(s.Master, s.Replica)
	r.awaitDecisions(byExtent(1000, 10_000))
	o := &outage{about: r.subjects, settles: "all sentinels name the replica",
		settled: func() bool { return s.MasterIs(s.Replica.Addr) }}
	r.killMaster(o, s.Master, s.Replica, true, slots)
	slots.audit(o)
	r.awaitDecisions(byExtent(1000, 10_000))
	stopFlushing()
	r.end()
}

// TestRing kills a server of three, whose subjects go to the others, and starts it again, which brings them back.
// A Ring keeps one copy of everything: each time what was granted before is forgotten, and nothing else is.
func TestRing(t *testing.T) {
	inParallel(t)
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	addrs := map[string]string{"a": servers[0].Addr, "b": servers[1].Addr, "c": servers[2].Addr}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, DisableIdentity: true,
		HeartbeatFrequency: 100 * time.Millisecond})
	t.Cleanup(func() { _ = ring.Close() })
	r := begin(t, "Ring of 3 servers, a heartbeat every 100 ms", ring)
	stopFlushing := r.flushScripts(servers...)
	var about []*subject
	for _, s := range r.subjects {
		shard, err := ring.GetShardClientForKey(s.name)
		must(t, err)
		if shard.Options().Addr == servers[0].Addr {
			about = append(about, s)
		}
	}
	forgotten := r.started
	for range byExtent(1, 3) {
		r.awaitDecisions(byExtent(1000, 4000))
		servers[0].Kill()
		killed := &outage{name: "server killed", about: about, after: forgotten, until: time.Now(),
			settles: "the Ring has taken it out", settled: func() bool { return ring.Len() == len(servers)-1 }}
		r.overcome(killed)

		r.awaitDecisions(byExtent(1000, 4000))
		servers[0].Restart(t)
		back := &outage{name: "server back, empty", about: about, after: killed.until, until: time.Now(),
			settles: "the Ring has found it", settled: func() bool { return ring.Len() == len(servers) }}
		r.overcome(back)
		forgotten = time.Now()
		back.until = forgotten // what the others granted is out of sight from then on
	}
	stopFlushing()
	r.end()
}

// cutOff is how long before a master's end its replica is cut off, where it is: what is granted in this time is
// lost.
const cutOff = 150 * time.Millisecond

// killMaster kills a master and waits until its replica has been promoted and its subjects are served again. cut says
// whether the replica is cut off before that: of some slots that are used then, if there are any, it does not know.
func (r *run) killMaster(o *outage, master, replica *redistest.Server, cut bool, slots *slotLoad) {
	r.t.Helper()
	dying, heir := master.Client(r.t), replica.Client(r.t)
	replicated := watchMaster(dying)
	time.Sleep(cutOff)
	o.name = "master killed"
	if cut {
		o.name = "master killed, its replica cut off before"
		unplug(r.t, heir, dying)
		if slots != nil {
			slots.keepSome()
		}
		time.Sleep(cutOff)
	}
	master.Kill()
	o.until = time.Now()

	var offset int64
	redistest.Await(r.t, "a replica is promoted", func() bool { offset = takenOver(heir); return offset > 0 })
	must(r.t, heir.ConfigSet(context.Background(), "masterauth", "").Err())
	o.after = replicated(offset)
	r.overcome(o)
}

// watchMaster notes a master's replication offset every few milliseconds, by its clock, until it is gone. What it
// returns finds the last time up to which all writes are included in an offset.
func watchMaster(master *redis.Client) (replicated func(offset int64) time.Time) {
	type progress struct {
		at     time.Time
		offset int64
	}
	var done sync.WaitGroup
	var seen []progress
	done.Go(func() {
		for ctx := context.Background(); ; time.Sleep(2 * time.Millisecond) {
			now, info := &redis.TimeCmd{}, &redis.InfoCmd{}
			_, err := master.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				now, info = pipe.Time(ctx), pipe.InfoMap(ctx, "replication")
				return nil
			})
			if err != nil {
				return
			}
			seen = append(seen, progress{now.Val(), offsetIn(info, "master_repl_offset")})
		}
	})
	return func(offset int64) (last time.Time) {
		done.Wait()
		for _, p := range seen {
			if p.offset <= offset {
				last = p.at
			}
		}
		return last
	}
}

func offsetIn(info *redis.InfoCmd, name string) int64 {
	n, _ := strconv.ParseInt(info.Item("Replication", name), 10, 64)
	return n
}

// takenOver is the offset up to which a replica had its master's writes when it was promoted, or 0 while it
// has not been.
func takenOver(replica *redis.Client) int64 {
	info := replica.InfoMap(context.Background(), "replication")
	if info.Item("Replication", "role") != "master" {
		return 0
	}
	return offsetIn(info, "second_repl_offset") - 1
}

// unplug cuts a replica off its master and keeps it so: it asks with a password, which the master refuses.
func unplug(t *testing.T, replica, master *redis.Client) {
	t.Helper()
	must(t, replica.ConfigSet(context.Background(), "masterauth", "wrong").Err())
	must(t, master.ClientKillByFilter(context.Background(), "TYPE", "replica").Err())
}
