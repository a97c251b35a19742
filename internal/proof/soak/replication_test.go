//go:build unix

package soak

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// progress is a master's replication offset at a time of its clock.
type progress struct {
	at     time.Time
	offset int64
}

// watch records a master's progress every few milliseconds until the master is gone.
type watch struct {
	done sync.WaitGroup
	seen []progress
}

func watchMaster(master *redis.Client) *watch {
	w := &watch{}
	w.done.Go(func() {
		for {
			now, info := &redis.TimeCmd{}, &redis.StringCmd{}
			_, err := master.TxPipelined(context.Background(), func(pipe redis.Pipeliner) error {
				now, info = pipe.Time(context.Background()), pipe.Info(context.Background(), "replication")
				return nil
			})
			if err != nil {
				return
			}
			w.seen = append(w.seen, progress{now.Val(), field(info.Val(), "master_repl_offset")})
			time.Sleep(2 * time.Millisecond)
		}
	})
	return w
}

// replicated returns the last time up to which all writes are included in an offset.
func (w *watch) replicated(offset int64) time.Time {
	w.done.Wait()
	var last time.Time
	for _, p := range w.seen {
		if p.offset <= offset {
			last = p.at
		}
	}
	return last
}

// field is a number in the text of INFO.
func field(info, name string) int64 {
	_, text, _ := strings.Cut(info, "\n"+name+":")
	text, _, _ = strings.Cut(text, "\r")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// takenOver is the offset up to which a replica had its master's writes when it was promoted, or 0 while it
// has not been.
func takenOver(replica *redis.Client) int64 {
	info := replica.Info(context.Background(), "replication").Val()
	if !strings.Contains(info, "role:master") {
		return 0
	}
	return field(info, "second_repl_offset") - 1
}

// cutOff is how long before a master's end its replica is cut off, where it is: what is granted in this time is
// lost.
const cutOff = 150 * time.Millisecond

// unplug cuts a replica off its master and keeps it so: it asks with a password, which the master refuses.
func unplug(t *testing.T, replica, master *redis.Client) {
	t.Helper()
	must(t, replica.ConfigSet(context.Background(), "masterauth", "wrong").Err())
	must(t, master.ClientKillByFilter(context.Background(), "TYPE", "replica").Err())
}

// pair is a master, the replica that takes its place, and their subjects.
type pair struct {
	master, replica *redistest.Server
	of              func(*subject) bool
	settled         func() bool // whether all others know that the replica has taken its place
	slots           *slotLoad   // on the master; nil: none
}

// killMaster kills a master and waits until its replica has been promoted and its subjects are served again.
// cut says whether the replica is cut off before that: of some slots that are used then it does not know.
func (r *run) killMaster(p pair, cut bool) {
	r.t.Helper()
	dying, heir := p.master.Client(r.t), p.replica.Client(r.t)
	watch := watchMaster(dying)
	time.Sleep(cutOff)
	what := "master killed"
	if cut {
		what = "master killed, its replica cut off before"
		unplug(r.t, heir, dying)
		if p.slots != nil {
			p.slots.keepSome()
		}
		time.Sleep(cutOff)
	}
	p.master.Kill()
	killed := time.Now()

	var offset int64
	redistest.Await(r.t, "a replica is promoted", func() bool { offset = takenOver(heir); return offset > 0 })
	must(r.t, heir.ConfigSet(context.Background(), "masterauth", "").Err())
	redistest.Await(r.t, r.settles, p.settled)
	settled := time.Since(killed)
	r.awaitService(p.of, time.Now())

	after := watch.replicated(offset)
	r.injected(what, 1)
	r.losses = append(r.losses, loss{
		why: what + ": grants not replicated, of the last",
		of:  p.of, after: after, until: killed,
	})
	r.recovered(p.of, killed, settled)
}

// awaitService waits until most of some subjects have been answered since.
func (r *run) awaitService(of func(*subject) bool, since time.Time) {
	r.t.Helper()
	redistest.Await(r.t, "those subjects are served again", func() bool {
		served, all := 0, 0
		for _, s := range r.subjects {
			if of(s) {
				all++
				s.mu.Lock()
				if n := len(s.answers); n > 0 && s.answers[n-1].err == nil && s.answers[n-1].asked.After(since) {
					served++
				}
				s.mu.Unlock()
			}
		}
		return 4*served > all || all == 0
	})
}
