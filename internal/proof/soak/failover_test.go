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

const (
	// cutOff is how long before a master's end its replica is cut off, where it is: what is granted in this time is
	// lost.
	cutOff = 150 * time.Millisecond

	// failoverLate is how much later service may be back, after a deployment says that it has got over the end of a
	// server.
	failoverLate = 4 * time.Second

	slotsTaken = "slots taken"
)

// masterKilled is the end of a master whose replica takes its place. cut says whether the replica is cut off before
// that: of some slots that are used then it does not know.
func (s *site) masterKilled(i int, cut bool, settled func() bool) *fault {
	var replicated func(offset int64) time.Time
	f := &fault{name: "master killed", server: i + 1, anywhere: true, late: failoverLate}
	if cut {
		f.name += ", its replica cut off"
	}
	f.begin = func(a *attack, e *event) {
		replicated = watchMaster(s.admins[i])
		time.Sleep(cutOff)
		if cut {
			unplug(a.t, s.replicas[i].Client(a.t), s.admins[i])
			enough := a.counts.of(slotsTaken) + byExtent(1, 3)
			redistest.Await(a.t, "slots are held that are not replicated",
				func() bool { return a.counts.of(slotsTaken) >= enough })
			time.Sleep(cutOff)
		}
		s.servers[i].Kill()
		now := time.Now()
		e.lost = &loss{since: now, until: now}
	}
	f.end = func(a *attack, e *event) {
		heir, offset := s.replicas[i].Client(a.t), int64(0)
		redistest.Await(a.t, "a replica is promoted", func() bool { offset = takenOver(heir); return offset > 0 })
		must(a.t, heir.ConfigSet(context.Background(), "masterauth", "").Err())
		e.lost.after = replicated(offset)
		s.servers[i], s.replicas[i], s.admins[i] = s.replicas[i], s.servers[i], heir
		redistest.Await(a.t, "the deployment has got over it", settled)
	}
	return f
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
