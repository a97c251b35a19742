package scripttest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-redis/sluice"
)

// A return never makes slice_ring grant more: whatever is given back, however the clock steps within a window
// and 60 s, what was granted and not given back never exceeds the limit of a window.
func TestReturnsGrantNothingExtra(t *testing.T) {
	if found := mostKept(t, &sluice.SliceRingReturnV1); found != keepLimit {
		t.Errorf("at most %d in a window, want %d", found, keepLimit)
	}
}

// Given back to another slice than that in which they were taken, more is kept.
func TestReturnsToTheLastSliceGrantExtra(t *testing.T) {
	toLast := edited(t, &sluice.SliceRingReturnV1, "math.floor(taken / slice)", "last")
	if found := mostKept(t, toLast); found <= keepLimit {
		t.Errorf("at most %d in a window: the audit does not see what is wrong", found)
	}
}

const (
	keepSlice  = int64(time.Second / time.Microsecond)
	keepSlices = 8
	keepLimit  = 20
	// keepBack is how far the clock steps back.
	keepBack = keepSlices*keepSlice + 60_000_000
)

// keeper takes permits of a ring and gives some of them back.
type keeper struct {
	t            testing.TB
	on           *harness
	back         *sluice.Script
	random       *rand.Rand
	now, highest int64
	last         int64 // the last slice that a permit was counted in
	kept         []keeping
}

// keeping is what is left of one grant.
type keeping struct{ taken, counted, permits int64 }

// mostKept is the most permits in a window that were granted and not given back.
func mostKept(t testing.TB, back *sluice.Script) (most int64) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 60 {
		k := &keeper{t: t, on: startHarness(t, true), back: back, random: random, now: epoch, highest: epoch}
		for range 150 {
			k.move()
			if len(k.kept) > 0 && random.IntN(2) == 0 {
				k.giveBack()
			} else {
				k.take()
			}
			most = max(most, k.held())
		}
	}
	return most
}

func (k *keeper) move() {
	switch k.random.IntN(12) {
	case 0:
		k.now += k.random.Int64N(3 * keepSlices * keepSlice)
	case 1:
		k.now = max(k.now-k.random.Int64N(keepBack), k.highest-keepBack)
	default:
		k.now += k.random.Int64N(keepSlice)
	}
	k.highest = max(k.highest, k.now)
	k.on.setTime(k.now)
}

func (k *keeper) take() {
	reply := k.call(&sluice.SliceRingV1, keepSlice, 1+k.random.Int64N(5), keepSlices, keepLimit)
	if reply[0] > 0 {
		k.last = max(k.last, k.now/keepSlice)
		k.kept = append(k.kept, keeping{k.now, k.last, reply[0]})
	}
}

// giveBack returns some of one of the last grants.
func (k *keeper) giveBack() {
	of := &k.kept[len(k.kept)-1-k.random.IntN(min(len(k.kept), 4))]
	if of.permits > 0 {
		permits := 1 + k.random.Int64N(of.permits)
		k.call(k.back, keepSlice, of.taken, permits)
		of.permits -= permits
	}
}

func (k *keeper) call(script *sluice.Script, args ...int64) []int64 {
	reply, failed := k.on.call(script, false, sliceRingV1.keys, decimals(args...))
	if failed != "" {
		k.t.Fatal(failed)
	}
	return reply
}

// held is what the last window holds of what was kept.
func (k *keeper) held() (permits int64) {
	for _, of := range k.kept {
		if of.counted > k.last-keepSlices {
			permits += of.permits
		}
	}
	return permits
}
