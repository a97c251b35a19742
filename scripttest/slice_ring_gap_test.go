package scripttest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/scripttest"
)

// ringInstructions is what any call of slice_ring with one window ends within: about twice what the
// dearest of those below takes. The script has no loop over slices: the gap is cleared by string.rep.
const ringInstructions = 2500

const ringKey = "t:x:{u}:sr1:1000" // slices of a millisecond, the shortest

func ring(t testing.TB, slices int) (*scripttest.Redis, func(slice int64) scripttest.Result) {
	r := scripttest.Start(t)
	r.NeverExpire(true)
	script := compile(t, sluice.SliceRingV1.File, sluice.SliceRingV1.Source)
	script.Budget = ringInstructions
	return r, func(slice int64) scripttest.Result {
		r.SetTime(epoch + slice*1000)
		return script.Run(r, []string{ringKey}, []string{"1000", "1", strconv.Itoa(slices), "1000000"})
	}
}

// For every gap the call ends within the stated instructions, counts what is still in the window, and
// nothing that is older.
func TestRingGapEnds(t *testing.T) { checkRingGapEnds(t) }

func checkRingGapEnds(t testing.TB) {
	for _, size := range []int{1, 2, 3, 60, 3600, 10000} {
		for _, gap := range []int64{
			0, 1, 2, int64(size) - 1, int64(size), int64(size) + 1, 2 * int64(size), 2*int64(size) + 1, 1_000_000_000_000,
			-1, -2, -int64(size), -int64(size) - 59_999, -int64(size) - 60_000, -int64(size) - 60_001, -1_000_000_000_000,
		} {
			sub(t, fmt.Sprintf("size %d gap %d", size, gap), func(t testing.TB) {
				_, at := ring(t, size)
				// Every slice of the ring holds one permit, slice 0 the newest.
				for s := -int64(min(size, 5)) + 1; s <= 0; s++ {
					if result := at(s); result.Err != nil {
						t.Fatal(result.Err)
					}
				}
				filled := int64(min(size, 5))
				result := at(gap)
				if result.Err != nil {
					t.Fatalf("%d instructions: %v", result.Instructions, result.Err)
				}
				if got, want := result.Reply.([]any)[5], liveAfter(gap, int64(size), filled)+1; got != want {
					t.Errorf("count %v, want %d", got, want)
				}
				// And the slices that were skipped stay clear for a lap to come.
				for s := max(gap, 0) + 1; s <= max(gap, 0)+min(int64(size), 5); s++ {
					if result = at(s); result.Err != nil {
						t.Fatal(result.Err)
					}
				}
				if gap >= int64(size) {
					if got, want := result.Reply.([]any)[5], min(int64(size), 5+1); got != want {
						t.Errorf("count %v a few slices later, want %d", got, want)
					}
				}
			})
		}
	}
}

// liveAfter is how many of the filled slices, the newest of which is slice 0, a window of size slices still
// holds after the gap. A clock that stepped back by up to a window and 60 s finds all of them; further
// back the ring is void.
func liveAfter(gap, size, filled int64) int64 {
	if gap < -size-60_000 {
		return 0
	}
	return max(0, min(filled, size-max(gap, 0)))
}

// Whatever bytes stand in the ring, a call ends: with BADSTATE and the bytes as they were, or an answer.
func TestRingDamagedStateEnds(t *testing.T) { checkRingDamagedStateEnds(t) }

func checkRingDamagedStateEnds(t testing.TB) {
	for position := range 24 + 7*4 {
		for _, value := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			r, at := ring(t, 4)
			for s := range int64(6) {
				at(s)
			}
			stored, _ := r.Do("GET", ringKey)
			damaged := []byte(stored.(string))
			damaged[position] = value
			_, _ = r.Do("SET", ringKey, damaged)
			for _, s := range []int64{5, 6, 7, 11, -3} {
				before := r.Snapshot()
				result := at(s)
				if _, refused := result.Err.(scripttest.ErrorReply); result.Err != nil && !refused {
					t.Fatalf("byte %d = %#x, slice %d: %v", position, value, s, result.Err)
				}
				if result.Err != nil && r.Snapshot() != before {
					t.Errorf("byte %d = %#x, slice %d: %v and the store changed", position, value, s, result.Err)
				}
			}
		}
	}
}

// A search for room ends as soon whatever the totals and the links are, be they in no order at all: after the oldest
// slice and three more it halves.
func TestRingSearchEnds(t *testing.T) { checkRingSearchEnds(t) }

func checkRingSearchEnds(t testing.TB) {
	const size, mostReads = 3600, 4 + 12
	random := rand.New(rand.NewPCG(5, 8))
	for round := range 300 {
		r, at := ring(t, size)
		last := epoch/1000 + random.Int64N(size)
		at(last - epoch/1000)
		furthest := []int64{1, 2, 60, 4096}[round%4]
		cells := make([]byte, 7*size)
		for s := last - size + 1; s <= last; s++ {
			// The last slice alone is sound, or it would be the answer.
			total, link := int64(0), s+random.Int64N(min(furthest, last-s+1))
			if s < last {
				total = random.Int64N(1 << 44)
			}
			copy(cells[7*(s%size):], layout.SliceRingCell(uint64(total), uint64(link)))
		}
		_, _ = r.Do("SETRANGE", ringKey, "24", cells)
		result := at(last - epoch/1000 + random.Int64N(size-2))
		if refused, isReply := result.Err.(scripttest.ErrorReply); result.Err != nil && !(isReply && refused == badCells) {
			t.Fatalf("%d instructions: %v", result.Instructions, result.Err)
		}
		if result.Err == nil && result.Reply.([]any)[0] != int64(0) {
			t.Fatalf("granted %v, so nothing was searched", result.Reply)
		}
		if reads := len(result.Commands) - 2; reads > mostReads {
			t.Errorf("%d reads, want up to %d", reads, mostReads)
		}
	}
}

const badCells = "BADSTATE ring: want a total and a link for each slice"

// Damaged links change the wait of a denial at most: what is granted and counted comes from the totals.
func TestRingDamagedLinks(t *testing.T) { checkRingDamagedLinks(t) }

func checkRingDamagedLinks(t testing.TB) {
	random := rand.New(rand.NewPCG(8, 5))
	for range 500 {
		r, at := ring(t, 30)
		var last int64
		for range random.IntN(20) + 1 {
			at(last)
			last += random.Int64N(8)
		}
		stored, _ := r.Do("GET", ringKey)
		damaged := []byte(stored.(string))
		for cell := 24; cell < len(damaged); cell += 7 {
			damaged[cell+5] ^= byte(random.IntN(16))
			damaged[cell+6] ^= byte(random.IntN(256))
		}
		script := compile(t, sluice.SliceRingV1.File, sluice.SliceRingV1.Source)
		args := []string{"1000", strconv.Itoa(random.IntN(3)), "30", strconv.Itoa(2 + random.IntN(20)), "7", "9"}
		want := script.Run(r, []string{ringKey}, args)
		_, _ = r.Do("SET", ringKey, damaged)
		got := script.Run(r, []string{ringKey}, args)
		if got.Err == scripttest.ErrorReply(badCells) {
			continue
		}
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		reply, right := got.Reply.([]any), want.Reply.([]any)
		reply[2], right[2] = nil, nil
		if !slices.Equal(reply, right) {
			t.Errorf("%q: %v with damaged links, want %v", args, reply, right)
		}
	}
}

func TestRingTruncatedStateEnds(t *testing.T) { checkRingTruncatedStateEnds(t) }

func checkRingTruncatedStateEnds(t testing.TB) {
	for length := range 24 + 7*4 {
		r, at := ring(t, 4)
		for s := range int64(6) {
			at(s)
		}
		stored, _ := r.Do("GET", ringKey)
		_, _ = r.Do("SET", ringKey, stored.(string)[:length])
		for _, s := range []int64{5, 6, 7} {
			if result := at(s); result.Err != nil {
				if _, refused := result.Err.(scripttest.ErrorReply); !refused {
					t.Fatalf("%d bytes, slice %d: %v", length, s, result.Err)
				}
			} else if length < 24 {
				t.Errorf("%d bytes, slice %d: %v, want BADSTATE", length, s, result.Reply)
			}
		}
	}
}
