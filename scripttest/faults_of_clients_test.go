package scripttest_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/scripttest"
)

// The faults of the systems S0 to S4, which the last section of the package doc describes, that lie in the client. Each
// test shows the fault with the order of commands that causes it, and then that our script does not have it.

// S0, S1, S3: the check and the add are separate commands, so concurrent callers all pass.
func TestFaultCheckThenAdd(t *testing.T) {
	const callers, limit = 10, 3
	m := startMiniredis(t)
	passed := 0
	for range callers {
		if m.do("ZCARD", "faulty") < strconv.Itoa(limit) {
			passed++
		}
	}
	for caller := range passed {
		m.do("ZADD", "faulty", "1", strconv.Itoa(caller))
	}
	if passed <= limit {
		t.Errorf("the faulty way let %d through, want more than %d", passed, limit)
	}
	if granted := m.concurrently(callers, listLogV1, "3 1m 1 0"); granted != limit {
		t.Errorf("ours granted %d, want %d", granted, limit)
	}
}

// concurrently makes one call from each of so many goroutines, and returns the sum of what they were granted.
func (r *remote) concurrently(callers int, tab table, args string) int64 {
	var sum atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			reply, failed := r.call(tab.script, false, tab.keys, tab.arguments(args))
			if failed != "" {
				r.t.Error(failed)
				return
			}
			sum.Add(reply[0])
		})
	}
	all.Wait()
	return sum.Load()
}

// S4: check whether there is a limiter, set it, acquire: where two callers find none, the second one's set replaces the
// state.
func TestFaultCheckSetAcquire(t *testing.T) {
	const callers, rate = 2, 5
	m := startMiniredis(t)
	var absent [callers]bool
	for caller := range callers {
		absent[caller] = m.do("EXISTS", "faulty") == "0"
	}
	granted := int64(0)
	for caller := range callers {
		if absent[caller] {
			m.do("SET", "faulty", strconv.Itoa(rate))
		}
		for range rate {
			if left, _ := strconv.Atoi(m.do("DECR", "faulty")); left >= 0 {
				granted++
			}
		}
	}
	if granted <= rate {
		t.Errorf("the faulty way granted %d, want more than %d", granted, rate)
	}
	if granted := m.concurrently(callers*rate, tokenBucketV1, "5 1m 0 1 0"); granted != rate {
		t.Errorf("ours granted %d, want %d", granted, rate)
	}
}

// S0: a caller that finds no ring makes one. If two callers find none, the ring is twice as long.
func TestFaultInitialisationRaces(t *testing.T) {
	const slices = 3
	m := startMiniredis(t)
	var absent [2]bool
	for caller := range absent {
		absent[caller] = m.do("LLEN", "faulty") == "0"
	}
	for caller := range absent {
		if absent[caller] {
			m.do("RPUSH", "faulty", "0", "0", "0")
		}
	}
	if length := m.do("LLEN", "faulty"); length == strconv.Itoa(slices) {
		t.Errorf("the faulty ring has %s slices, want more than %d", length, slices)
	}
	m.concurrently(2, sliceRingV1, "1s 1 3 9")
	if length := m.do("STRLEN", sliceRingV1.keys[0]); length != strconv.Itoa(24+7*slices) {
		t.Errorf("our ring has %s bytes, want %d", length, 24+7*slices)
	}
}

// S0: a process that was quiet passes its stale index and clears what others have filled.
func TestFaultProcessKeepsTheIndex(t *testing.T) {
	r := scripttest.Start(t)
	faulty := compile(t, "s0_process_index.lua", readFaulty(t, "s0_process_index"))
	call := func(current, last int) any {
		return faulty.Run(r, []string{"faulty"}, []string{"10", strconv.Itoa(current), strconv.Itoa(last)}).Reply
	}
	call(0, 0)          // process A
	call(1, 0)          // process B
	call(2, 1)          // process B
	count := call(3, 0) // process A, whose last index is still 0
	if count == int64(1+3) {
		t.Errorf("the faulty way counts %v, want the calls of B lost", count)
	}
	h := startHarness(t, false)
	var reply []int64
	for s := range 4 {
		h.setTime(epoch + int64(s)*1_000_000)
		reply, _ = h.call(&sluice.SliceRingV1, false, []string{ringKey}, []string{"1000000", "1", "10", "9"})
	}
	if reply[5] != 4 {
		t.Errorf("ours counts %d, want 4", reply[5])
	}
}

// S0: two windows cannot be checked together: the one that is checked first is charged for what the other one refuses.
func TestFaultWindowsOneByOne(t *testing.T) {
	h := startHarness(t, false)
	h.setTime(epoch)
	one := func(key, slices, limit string) []int64 {
		reply, failed := h.call(&sluice.SliceRingV1, false, []string{key}, []string{"1000000", "1", slices, limit})
		if failed != "" {
			t.Fatal(failed)
		}
		return reply
	}
	one("hour:{u}", "60", "1")
	if minute, hour := one("minute:{u}", "1", "5"), one("hour:{u}", "60", "1"); hour[0] != 0 || minute[5] != 1 {
		t.Errorf("one by one: minute %v, hour %v; want a refusal that was charged", minute, hour)
	}
	both := []string{"1000000", "1", "1", "5", "60", "1"}
	_, _ = h.call(&sluice.SliceRingV1, false, []string{ringKey}, both)
	reply, _ := h.call(&sluice.SliceRingV1, false, []string{ringKey}, both)
	if want := []int64{0, 1, 1}; !slices.Equal([]int64{reply[0], reply[5], reply[6]}, want) {
		t.Errorf("together: granted and counts %v, want %v", reply, want)
	}
}

// S0, S1, S2, S4: the clock is the client's. At 2 in 10 s a client that is 10 s fast lets a third one through after a
// second, and one that is 10 s slow is told to wait 20 s. Ours takes no clock.
func TestFaultClientsClock(t *testing.T) {
	r := scripttest.Start(t)
	faulty := compile(t, "clients_clock.lua", readFaulty(t, "clients_clock"))
	call := func(clock int64) []int64 {
		now := strconv.FormatInt(epoch+clock*1_000_000, 10)
		return integers(t, faulty.Run(r, []string{"faulty"}, []string{"2", "10000000", "1", now}).Reply)
	}
	call(0)
	call(1)
	if slow := call(2 - 10); slow[0] != 0 || slow[1] != 18_000_000 {
		t.Errorf("a slow client: %v, want a wait of 18 s for what comes free in 8", slow)
	}
	if fast := call(2 + 10); fast[0] != 1 {
		t.Errorf("a fast client: %v, want a third permit in the window", fast)
	}
	h := startHarness(t, false)
	var last []int64
	for second := range 3 {
		h.setTime(epoch + int64(second)*1_000_000)
		last, _ = h.call(&sluice.ListLogV1, false, listLogV1.keys, []string{"2", "10000000", "1", "0"})
	}
	if last[0] != 0 || last[2] != 8_000_000 {
		t.Errorf("ours: %v, want a denial and 8 s", last)
	}
}

// S2: callers poll every 100 ms. In the time of the simulation, where a sleep takes up to 10 ms longer than asked and
// nothing else takes any, polling leaves capacity unused, calls often and serves callers out of order; booking ahead
// uses all of it with one call a permit, in order.
func TestFaultPolling(t *testing.T) {
	polled := simulate(t, 0)
	booked := simulate(t, 60*time.Second)
	t.Logf("polled: %+v", polled)
	t.Logf("booked: %+v", booked)
	if polled.acts >= booked.acts || polled.calls < 2*polled.acts || polled.overtaken == 0 {
		t.Errorf("polling: %+v, want fewer acts than %d, several calls an act, and some overtaken", polled, booked.acts)
	}
	if booked.acts != 5*simulated || booked.calls != booked.acts || booked.overtaken != 0 {
		t.Errorf("booking: %+v, want %d acts, a call each, and none overtaken", booked, 5*simulated)
	}
}

const simulated = 60 // seconds

type outcome struct {
	acts, calls int
	overtaken   int // acts of callers that had asked after another one who was still waiting
}

// simulate shares "5 a second" among 8 workers, who ask again as soon as they have acted.
func simulate(t *testing.T, maxWait time.Duration) (o outcome) {
	const workers = 8
	r := scripttest.Start(t)
	script := compile(t, sluice.ListLogV1.File, sluice.ListLogV1.Source)
	args := []string{"5", "1000000", "1", strconv.FormatInt(maxWait.Microseconds(), 10)}
	random := rand.New(rand.NewPCG(1, 2))
	type worker struct{ next, asked int64 }
	all := make([]worker, workers)
	for i := range all {
		all[i] = worker{next: int64(i), asked: int64(i)}
	}
	for {
		w := slices.MinFunc(all, func(a, b worker) int { return cmp.Compare(a.next, b.next) })
		if w.next >= simulated*1_000_000 {
			return o
		}
		i := slices.Index(all, w)
		r.SetTime(epoch + w.next)
		reply := integers(t, script.Run(r, listLogV1.keys, args).Reply)
		o.calls++
		if reply[0] == 0 {
			all[i].next += 100_000 + random.Int64N(10_000)
			continue
		}
		act := w.next + reply[2]
		if act >= simulated*1_000_000 {
			o.calls--
			all[i].next = act
			continue
		}
		o.acts++
		if maxWait == 0 && slices.ContainsFunc(all, func(other worker) bool { return other.asked < w.asked }) {
			o.overtaken++
		}
		all[i] = worker{next: act, asked: act}
	}
}

// S0, S1: when Redis fails, letting everybody through is the only policy. Ours says so.
func TestFaultOpenOnFailure(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialTimeout: 100 * time.Millisecond})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	d, err := loader.New(client).ListLog("x", loader.PerSecond(5)).Allow(ctx, "u")
	if err == nil || d.Granted {
		t.Errorf("%+v, %v; want an error and no permit", d, err)
	}
}
