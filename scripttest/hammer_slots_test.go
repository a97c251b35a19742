package scripttest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
)

const (
	slotsEnv   = "SLUICE_TEST_HAMMER_SLOTS"
	slotsLimit = 10
	slotsHeld  = "t:held" // counts the holders by INCR and DECR, between their grant and their release
)

// TestServerHammerSlots has 8 processes take, renew and release slots as fast as they can. Never more than the limit
// hold one at once, and what holders that died had taken comes back.
func TestServerHammerSlots(t *testing.T) {
	if role := os.Getenv(slotsEnv); role != "" {
		hammerSlots(t, strings.Fields(role))
		return
	}
	server := redistest.Start(t)
	most, counts := gatherSlots(t, server.Addr, "script")
	if most > slotsLimit {
		t.Errorf("%d held a slot at once, want at most %d", most, slotsLimit)
	}
	for _, kind := range []string{"granted", "denied", "renewed", "released", "died"} {
		if counts[kind] == 0 {
			t.Errorf("nothing was %s: %v", kind, counts)
		}
	}
	client := connect(t, server.Addr)
	redistest.Await(t, "all slots are free", func() bool {
		reply, err := redis.NewScript(sluice.ConcurrencyV1.Source).Run(t.Context(), client, concurrencyV1.keys,
			slotsLimit, 1000, 0, "").Int64Slice()
		return err == nil && reply[1] == slotsLimit && reply[3] == 0
	})
	redistest.Await(t, "the key is gone", func() bool {
		return client.Exists(t.Context(), concurrencyV1.keys...).Val() == 0
	})
	t.Logf("at most %d at once, %v", most, counts)
}

// Callers that look first and take a slot then hold more than the limit: the same audit sees it.
func TestServerFaultLookThenTake(t *testing.T) {
	server := redistest.Start(t)
	if most, _ := gatherSlots(t, server.Addr, "look, then take"); most <= slotsLimit {
		t.Errorf("at most %d held a slot at once: the audit does not see what is wrong", most)
	}
}

// gatherSlots runs the processes. It returns the most that held a slot at once, and how often each thing happened.
func gatherSlots(t *testing.T, addr, way string) (most int64, counts map[string]int64) {
	counts = map[string]int64{}
	part := func(process int) string { return fmt.Sprintf("%s=%s %d %s", slotsEnv, addr, process, way) }
	runProcesses(t, "TestServerHammerSlots", part, func(kind string, numbers []int64) {
		if kind == "most" {
			most = max(most, numbers[0])
		} else {
			counts[kind] += numbers[0]
		}
	})
	return most, counts
}

// hammerSlots is one of the processes: four callers.
func hammerSlots(t *testing.T, role []string) {
	client := connect(t, role[0])
	until := time.Now().Add(*hammerFor)
	callers := make([]*slotCaller, 4)
	var all sync.WaitGroup
	for i := range callers {
		name := role[1] + "-" + strconv.Itoa(i)
		callers[i] = &slotCaller{t: t, client: client, name: name, looks: len(role) > 3,
			random: rand.New(rand.NewPCG(uint64(i), uint64(role[1][0]))), counts: map[string]int64{}}
		all.Go(func() {
			for k := 0; time.Now().Before(until); k++ {
				callers[i].hold(k)
			}
		})
	}
	all.Wait()
	for _, c := range callers {
		for kind, n := range c.counts {
			fmt.Println(kind, n)
		}
		fmt.Println("most", c.most)
	}
}

// slotCaller takes one slot after another.
type slotCaller struct {
	t      *testing.T
	client *redis.Client
	name   string
	looks  bool // it looks whether a slot is free, and takes one whatever the limit
	random *rand.Rand

	counts map[string]int64
	most   int64
}

// hold takes a slot, if one is free, and holds it for a moment. Those that die are not counted as holders: nobody knows
// when they stop to be one, and the others may still not be more than the limit.
func (c *slotCaller) hold(k int) {
	id := fmt.Sprintf("%s-%d", c.name, k)
	dies := c.random.IntN(20) == 0
	ttl := 30_000_000
	if dies {
		ttl = 20_000
	}
	if !c.taken(id, ttl) {
		c.counts["denied"]++
		return
	}
	c.counts["granted"]++
	if dies {
		c.counts["died"]++
		return
	}
	c.most = max(c.most, c.client.Incr(context.Background(), slotsHeld).Val())
	if c.random.IntN(3) == 0 {
		c.must("renewed", &sluice.ConcurrencyV1, slotsLimit, ttl, 1, id)
	}
	c.client.Decr(context.Background(), slotsHeld)
	c.must("released", &sluice.ConcurrencyReleaseV1, id)
}

// taken asks for a slot.
func (c *slotCaller) taken(id string, ttl int) bool {
	limit := slotsLimit
	if c.looks {
		if c.call(&sluice.ConcurrencyV1, limit, ttl, 0, "")[1] == 0 {
			return false
		}
		limit = 10_000
	}
	return c.call(&sluice.ConcurrencyV1, limit, ttl, 0, id)[0] == 1
}

// must makes a call that a holder makes, and counts it.
func (c *slotCaller) must(kind string, script *sluice.Script, args ...any) {
	c.counts[kind]++
	if c.call(script, args...)[0] != 1 {
		c.t.Errorf("%v: not %s while it was held", args, kind)
	}
}

func (c *slotCaller) call(script *sluice.Script, args ...any) []int64 {
	reply, err := redis.NewScript(script.Source).Run(context.Background(), c.client, concurrencyV1.keys, args...).Int64Slice()
	if err != nil {
		c.t.Error(err)
		return make([]int64, 5)
	}
	return reply
}
