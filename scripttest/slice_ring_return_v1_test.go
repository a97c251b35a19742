package scripttest_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/scripttest"
)

// moment permits -> returned
var sliceRingReturnV1 = table{
	script: &sliceRingReturnV1Script,
	keys:   []string{"t:x:{u}:sr1"},
	timelines: []timeline{
		{"what is given back in the same slice can be granted again", []line{
			{"0s", "slice_ring 2 1s 3 2", "2 0 0 3s 2"},
			{"0.5s", "slice_ring 1 1s 3 2", "0 0 2.5s 2.5s 2"},
			{"0.5s", "@0s 1", "1"},
			{"0.5s", "slice_ring 1 1s 3 2", "1 0 0 2.5s 2"},
			{"0.5s", "slice_ring 1 1s 3 2", "0 0 2.5s 2.5s 2"},
		}},
		{"in later slices it leaves every window that held it, and no other", []line{
			{"0s", "slice_ring 3 1s 1 9 1s 2 9 1s 4 9", "3 6 0 4s 3 3 3"},
			{"1s", "slice_ring 2 1s 1 9 1s 2 9 1s 4 9", "2 4 0 4s 2 5 5"},
			{"2s", "slice_ring 1 1s 1 9 1s 2 9 1s 4 9", "1 3 0 4s 1 3 6"},
			{"2s", "@1.999999s 1", "1"},
			{"2s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 4 0 4s 1 2 5 5"},
			{"2s", "@0.5s 2", "2"},
			{"2s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 6 0 4s 1 2 3 3"},
			{"4s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 7 0 2s 0 0 1 2"},
			{"5s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9 1s 4 9", "0 8 0 1s 0 0 0 1"},
		}},
		{"no more than the slice holds", []line{
			{"0s", "slice_ring 3 1s 3 9", "3 6 0 3s 3"},
			{"1s", "slice_ring 4 1s 3 9", "4 2 0 3s 7"},
			{"1s", "@0s 4", "3"},
			{"1s", "@0s 4", "0"},
			{"1s", "@1s 1000000000", "4"},
			{"1s", "@1s 1", "0"},
			{"1s", "slice_ring 9 1s 3 9", "9 0 0 3s 9"},
		}},
		{"in windows with slices of their own, as long as each holds it", []line{
			{"0s", "slice_ring 2 1s 2 9 5s 3 9 20s 4 9", "2 7 0 80s 2 2 2"},
			{"4s", "slice_ring 3 1s 2 9 5s 3 9 20s 4 9", "3 4 0 76s 3 5 5"},
			{"4s", "@0s 1", "1"},
			{"4s", "slice_ring 0 1s 2 9 5s 3 9 20s 4 9", "0 5 0 76s 3 4 4"},
			{"15s", "slice_ring 1 1s 2 9 5s 3 9 20s 4 9", "1 4 0 65s 1 1 5"},
			{"15s", "@4s 3", "3"},
			{"15s", "slice_ring 0 1s 2 9 5s 3 9 20s 4 9", "0 7 0 65s 1 1 2"},
			{"15s", "@15s 9", "2"},
			{"15s", "slice_ring 0 1s 2 9 5s 3 9 20s 4 9", "0 9 0 65s 0 0 0"},
		}},
		{"at most 1000 slices in all windows together", []line{
			{"0s", "slice_ring 2 1s 1000 9 2s 1000 9 3s 1000 9", "2 7 0 3000s 2 2 2"},
			{"500s", "slice_ring 1 1s 1000 9 2s 1000 9 3s 1000 9", "1 6 0 2998s 3 3 3"},
			{"500s", "@0s 1", "1"},
			{"500s", "slice_ring 0 1s 1000 9 2s 1000 9 3s 1000 9", "0 7 0 2998s 2 2 2"},
			{"650s", "slice_ring 1 1s 1000 9 2s 1000 9 3s 1000 9", "1 6 0 2998s 3 3 3"},
			{"650s", "@0s 1", "1"},
			{"650s", "slice_ring 0 1s 1000 9 2s 1000 9 3s 1000 9", "0 6 0 2998s 2 2 3"},
		}},
		{"across the end of the ring", []line{
			{"-1s", "slice_ring 1 1s 3 9", "1 8 0 3s 1"},
			{"0s", "slice_ring 2 1s 3 9", "2 6 0 3s 3"},
			{"1s", "slice_ring 3 1s 3 9", "3 3 0 3s 6"},
			{"2s", "slice_ring 1 1s 3 9", "1 3 0 3s 6"},
			{"2s", "@0s 1", "1"},
			{"2s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 4 0 3s 1 4 5"},
			{"3s", "slice_ring 1 1s 3 9", "1 4 0 3s 5"},
			{"3s", "@1s 3", "3"},
			{"", "!STRLEN $1", "55"},
			{"3s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 7 0 3s 1 2 2"},
			{"4s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 7 0 2s 0 1 2"},
			{"4s", "@2s 1", "1"},
			{"4s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 8 0 2s 0 1 1"},
		}},
		{"the oldest slice of the ring, and the one before it", []line{
			{"0s", "slice_ring 1 1s 3 9", "1 8 0 3s 1"},
			{"1s", "slice_ring 1 1s 3 9", "1 7 0 3s 2"},
			{"3s", "slice_ring 1 1s 3 9", "1 7 0 3s 2"},
			{"3s", "@0.999999s 1", "0"},
			{"3s", "@1s 1", "1"},
			{"3s", "@4s 1", "0"},
			{"3s", "slice_ring 0 1s 3 9", "0 8 0 3s 1"},
		}},
		{"a skipped slice holds nothing", []line{
			{"0s", "slice_ring 1 1s 5 9", "1 8 0 5s 1"},
			{"3s", "slice_ring 1 1s 5 9", "1 7 0 5s 2"},
			{"3s", "@2s 1", "0"},
			{"3s", "slice_ring 0 1s 5 9", "0 7 0 5s 2"},
		}},
		{"a ring that is gone, or begun again", []line{
			{"0s", "@0s 1", "0"},
			{"", "!EXISTS $1", "0"},
			{"0s", "slice_ring 3 1s 3 9", "3 6 0 3s 3"},
			{"", "!DEL $1", "1"},
			{"1s", "slice_ring 1 1s 3 9", "1 8 0 3s 1"},
			{"1s", "@0s 3", "0"},
			{"1s", "slice_ring 0 1s 3 9", "0 8 0 3s 1"},
			{"10s", "slice_ring 1 1s 3 9", "1 8 0 3s 1"},
			{"10s", "@1s 1", "0"},
			{"10s", "@9s 1", "0"},
			{"10s", "slice_ring 0 1s 3 9", "0 8 0 3s 1"},
		}},
		{"after every slice has left it", []line{
			{"0s", "slice_ring 3 1s 3 9", "3 6 0 3s 3"},
			{"2.999s", "@0s 1", "1"},
			{"3s", "slice_ring 9 1s 3 9", "9 0 0 3s 9"},
		}},
		// The permits of a clock behind are counted in the ring's last slice: giving them back to their own time finds
		// nothing, or what others have taken in that slice. The windows hold too many then, and never too few.
		{"permits granted while the clock was behind", []line{
			{"5s", "slice_ring 1 1s 4 9", "1 8 0 4s 1"},
			{"3s", "slice_ring 2 1s 4 9", "2 6 0 6s 3"},
			{"3s", "@3s 2", "0"},
			{"3s", "slice_ring 0 1s 4 9", "0 6 0 6s 3"},
		}},
		{"and others in that slice", []line{
			{"3s", "slice_ring 2 1s 4 9", "2 7 0 4s 2"},
			{"5s", "slice_ring 1 1s 4 9", "1 6 0 4s 3"},
			{"3s", "slice_ring 2 1s 4 9", "2 4 0 6s 5"},
			{"5s", "@3s 2", "2"},
			{"5s", "slice_ring 0 1s 1 9 1s 4 9", "0 6 0 4s 3 3"},
			{"7s", "slice_ring 0 1s 1 9 1s 4 9", "0 6 0 2s 0 3"},
			{"8s", "slice_ring 0 1s 1 9 1s 4 9", "0 6 0 1s 0 3"},
			{"9s", "slice_ring 0 1s 1 9 1s 4 9", "0 9 0 0 0 0"},
		}},
		{"a longer ring, and several windows", []line{
			{"0s", "slice_ring 2 1s 2 5", "2 3 0 2s 2"},
			{"1s", "slice_ring 2 1s 2 5 1s 7 9", "2 1 0 7s 4 4"},
			{"4s", "@0s 2", "2"},
			{"4s", "slice_ring 0 1s 2 5 1s 7 9", "0 5 0 4s 0 2"},
		}},
		{"1000 slices back, and no further", []line{
			{"0s", "slice_ring 2 1s 1500 9", "2 7 0 1500s 2"},
			{"1000.5s", "slice_ring 1 1s 1500 9", "1 6 0 1499.5s 3"},
			{"1000.5s", "@0s 1", "1"},
			{"1001s", "slice_ring 1 1s 1500 9", "1 6 0 1500s 3"},
			{"1001s", "@0s 1", "0"},
			{"1001s", "slice_ring 0 1s 1500 9 1s 2 9 1s 1001 9", "0 6 0 1500s 3 2 2"},
		}},
		{"totals that wrap at 2^44", []line{
			{"0s", "slice_ring 3 1s 3 9", "3 6 0 3s 3"},
			{"1s", "slice_ring 2 1s 3 9", "2 4 0 3s 5"},
			// The total before slice 0 becomes 2^44 - 1, that before slice 1 becomes 2, that of all 4.
			{"", "!SET $1 " + ringOf(3, 1, 4, 1<<44-1, 2, 1<<44-1), "OK"},
			{"1s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 4 0 3s 2 5 5"},
			{"1s", "@0s 3", "3"},
			{"1s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 7 0 3s 2 2 2"},
			{"1s", "@1s 1", "1"},
			{"1s", "slice_ring 0 1s 1 9 1s 2 9 1s 3 9", "0 8 0 3s 1 1 1"},
		}},
		{"the largest counts", []line{
			{"0s", "slice_ring 1000000000 1s 1 1000000000", "1000000000 0 0 1s 1000000000"},
			{"0s", "@0s 1000000000", "1000000000"},
			{"0s", "slice_ring 1000000000 1s 1 1000000000", "1000000000 0 0 1s 1000000000"},
		}},
		{"large totals", []line{
			{"0s", "slice_ring 1000000000 1s 5 1000000000", "1000000000 0 0 5s 1000000000"},
			{"1s", "slice_ring 700000000 1s 1 1000000000", "700000000 300000000 0 1s 700000000"},
			{"2s", "slice_ring 255 1s 1 1000000000", "255 999999745 0 1s 255"},
			{"3s", "slice_ring 5 1s 1 1000000000", "5 999999995 0 1s 5"},
			{"3s", "@1s 1000000000", "700000000"},
			{"3s", "@3s 1000000000", "5"},
			{"3s", "slice_ring 0 1s 1 9 1s 2 1000 1s 3 1000 1s 4 1000000000", "0 0 1s 4s 0 255 255 1000000255"},
			{"3s", "@2s 255", "255"},
			{"3s", "@0s 999999999", "999999999"},
			{"3s", "slice_ring 1 1s 5 1", "0 0 2s 5s 1"},
		}},
		{"the expiry stays", []line{
			{"0s", "slice_ring 3 1s 3 9", "3 6 0 3s 3"},
			{"0s", "@0s 3", "3"},
			{"", "!EXISTS $1", "1"},
			{"6s", "slice_ring 0 1s 3 9", "0 9 0 0 0"},
		}},
		{"a key of another type is left alone", []line{
			{"0s", "!RPUSH $1 x", "1"},
			{"0s", "@0s 1", wrongType},
			{"", "!LRANGE $1 0 -1", "[x]"},
		}},
		{"an unreadable ring", []line{
			{"0s", `!SET $1 ""`, "OK"},
			{"0s", "@0s 1", "BADSTATE ring: want 1..8 sections"},
			{"", "!SET $1 x", "OK"},
			{"0s", "@0s 1", "BADSTATE ring: want 1..8 sections"},
			{"", "!DEL $1", "1"},
			{"0s", "slice_ring 1 1s 3 9", "1 8 0 3s 1"},
			{"", "!SETRANGE $1 0 \x08", "55"},
			{"0s", "@0s 1", "BADSTATE ring: want 1..8 sections"},
			{"", "!SETRANGE $1 0 \x01", "55"},
			{"", "!SETRANGE $1 19 " + layout.Integer(2, 0), "55"},
			{"0s", "@0s 1", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 19 " + layout.Integer(2, 10001), "55"},
			{"0s", "@0s 1", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
			{"", "!SETRANGE $1 19 " + layout.Integer(2, 10000), "55"},
			{"0s", "@0s 1", "BADSTATE ring: want a cell for each slice"},
			{"", "!SETRANGE $1 14 " + layout.Integer(5, 999) + layout.Integer(2, 3), "55"},
			{"0s", "@0s 1", "BADSTATE ring: want 1..10000 slices of 1 ms or more"},
		}},
		{"a ring that is longer by its header than by its bytes", []line{
			{"0s", "slice_ring 1 1s 3 9", "1 8 0 3s 1"},
			{"", "!SETRANGE $1 19 \x01", "55"},
			{"0s", "@0s 1", "BADSTATE ring: want a cell for each slice"},
		}},
	},
}

// Whatever byte of a ring is damaged, a return ends: with BADSTATE and the bytes as they were, or an answer.
func checkReturnToDamagedRingEnds(t testing.TB) {
	back := compile(t, sliceRingReturnV1Script.File, sliceRingReturnV1Script.Source)
	sliceRingV1.eachDamagedRing(t, func(name string, r *scripttest.Redis, _ func(slice int64) scripttest.Result) {
		for _, moment := range []int{5000, 3999, 2000, 9000} {
			before := r.Snapshot()
			result := back.Run(r, []string{ringKey}, []string{strconv.Itoa(epoch + moment), "2"})
			if granted(&sliceRingReturnV1Script, nil, result) == 0 && r.Snapshot() != before {
				t.Errorf("%s, of %d: %v and the store changed", name, moment, result.Err)
			}
		}
	})
}

// A return never makes slice_ring grant more: whatever is given back, however the clock steps within a window and 60 s,
// what was granted and not given back never exceeds the limit of a window.
func TestReturnsGrantNothingExtra(t *testing.T) {
	if found := maxKept(t, &sliceRingReturnV1Script); found != keepLimit {
		t.Errorf("at most %d in a window, want %d", found, keepLimit)
	}
}

// Given back to another slice than that in which they were granted, more is kept.
func TestReturnsToTheLastSliceGrantExtra(t *testing.T) {
	toLast := edited(t, &sliceRingReturnV1Script, "(moment - moment % slice) / slice", "(last - last % slice) / slice")
	if found := maxKept(t, toLast); found <= keepLimit {
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

// maxKept is the most permits in a window that were granted and not given back.
func maxKept(t testing.TB, back *sluice.Script) (most int64) {
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
	reply := k.call(&sliceRingV1Script, 1+k.random.Int64N(5), keepSlice, keepSlices, keepLimit)
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
		k.call(k.back, of.taken, permits)
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
