package loader

import (
	"testing"
	"testing/synctest"
	"time"
)

// asks takes the turn of a caller who has to ask now.
func asks(t *testing.T, p *place, want reason) {
	t.Helper()
	if why, pause := p.turn(); why != want {
		t.Fatalf("asks for reason %d, or in %v; want reason %d", why, pause, want)
	}
}

// TestReleasedWhileAsking has a slot come free while a question is on its way that took the last one: the next caller
// asks at once, because the answer says nothing about it.
func TestReleasedWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all slotQueues
		first, second := all.join("k", 1), all.join("k", 1)
		asks(t, first, poll)
		all.released("k")
		first.granted(poll, false, time.Minute)
		first.leave(false)
		asks(t, second, poll)
		second.denied(poll, time.Minute)
		asks(t, second, noReason)
	})
}

// TestFailedRound has questions fail: all others ask once more, not once for each that failed.
func TestFailedRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all slotQueues
		first, second, third, last := all.join("k", 1), all.join("k", 1), all.join("k", 1), all.join("k", 1)
		asks(t, first, poll)
		first.leave(true)
		for _, p := range []*place{second, third, last} {
			asks(t, p, poll)
		}
		last.denied(poll, time.Minute)
		second.leave(true)
		asks(t, last, poll)
		third.leave(true) // it had asked before the second failed
		last.denied(poll, time.Minute)
		asks(t, last, noReason)
	})
}

// TestQueuesDoNotDelayOthers has the queue of one subject be in use: callers for another one join, leave and release.
func TestQueuesDoNotDelayOthers(t *testing.T) {
	var all slotQueues
	busy := all.join("busy", 1)
	busy.queue.subject.mu.Lock()
	defer busy.queue.subject.mu.Unlock()
	p := all.join("k", 1)
	all.released("k")
	asks(t, p, release)
	p.leave(false)
	if _, there := all.byKey.Load("k"); there {
		t.Error("a queue without callers is kept")
	}
}

// TestLeftWhileAsking has a slot left to other processes while a question is on its way: after its answer, the caller
// asks when they have had their time, and then when it is time.
func TestLeftWhileAsking(t *testing.T) {
	for name, answer := range map[string]func(p *place){
		"denied":  func(p *place) { p.denied(poll, time.Minute) },
		"granted": func(p *place) { p.granted(poll, false, time.Minute) },
		"failed":  func(p *place) { p.pollIn(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all slotQueues
				caller := all.join("k", 1)
				asks(t, caller, poll)
				caller.queue.yieldEvery = 1
				all.released("k")
				answer(caller)
				asks(t, caller, noReason)
				time.Sleep(yieldFor / 2)
				all.released("k") // not left too: that would be longer
				asks(t, caller, release)
				time.Sleep(yieldFor - yieldFor/2)
				asks(t, caller, yielded)
				asks(t, caller, noReason)
				time.Sleep(time.Minute)
				asks(t, caller, poll)
			})
		})
	}
}

// TestYieldsWhereWanted has others take the slots that are left to them, and then none: they are left more and more
// rarely, and in the end never.
func TestYieldsWhereWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all slotQueues
		caller := all.join("k", 1)
		q := caller.queue
		caller.denied(poll, time.Minute)
		if q.yieldEvery != 0 {
			t.Errorf("leaves slots to others though none took one")
		}
		for _, why := range []reason{release, yielded} {
			q.yieldEvery = maxYieldEvery
			caller.denied(why, time.Minute)
			if q.yieldEvery != minYieldEvery {
				t.Errorf("reason %d: leaves each %dth slot after others took one", why, q.yieldEvery)
			}
		}
		caller.granted(poll, false, time.Minute)
		caller.granted(release, false, time.Minute)
		for _, want := range []int{4, 8, 16, 32, 64, 0} {
			if q.yieldEvery != want {
				t.Errorf("leaves each %dth slot, want %d", q.yieldEvery, want)
			}
			caller.granted(yielded, false, time.Minute)
		}
	})
}
