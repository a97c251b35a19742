package scripttest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

// What giving back promises, at random, with bookings, clock steps and limits that change from call to call: permits
// granted and not given back never break the limit; and after everything was given back, the newest first, the limiter
// answers as if it had not been asked.

const (
	returnWindow = int64(10_000_000)
	returnSlice  = int64(1_000_000)
	// returnBack is how far a clock may step back without making state void.
	returnBack = returnWindow + 60_000_000
)

// A lender is a limiter that takes permits back.
type lender struct {
	script, back *sluice.Script
	keys         []string
	window       int64 // any interval of this length holds no more than the limit
	ask          func(limit, permits, maxWait int64, id string) []string
	giveBack     func(l loan, permits int64) []string
}

// A loan is permits that were granted, less those that were given back.
type loan struct {
	id      string
	now, at int64 // the server's clock at the grant, and when the permits are used by it
	used    int64 // when they are used by the clock of the audit
	permits int64
}

var lenders = []lender{
	{
		&listLogV1Script, &listLogReturnV1Script, listLogV1.keys, returnWindow,
		func(limit, permits, maxWait int64, _ string) []string {
			return decimals(limit, returnWindow, permits, maxWait)
		},
		func(l loan, permits int64) []string { return decimals(l.at, permits) },
	},
	{
		&zsetLogV1Script, &zsetLogReturnV1Script, zsetLogV1.keys, returnWindow,
		func(limit, permits, maxWait int64, id string) []string {
			return append(decimals(limit, returnWindow, permits, maxWait), id)
		},
		func(l loan, permits int64) []string { return append([]string{l.id}, decimals(permits)...) },
	},
	{
		&sliceRingV1Script, &sliceRingReturnV1Script, sliceRingV1.keys, returnWindow,
		func(limit, permits, _ int64, _ string) []string {
			return decimals(permits, 0, returnSlice, returnWindow/returnSlice+1, limit)
		},
		func(l loan, permits int64) []string {
			return decimals(l.now, permits, returnSlice, returnWindow/returnSlice+1)
		},
	},
}

func (of lender) books() bool { return of.script.Name != "slice_ring" }

// A borrower takes permits of a lender and gives some back, on a clock that steps. The clock of the audit passes with
// it, except that it stands where the server's steps back.
type borrower struct {
	lender
	on      *harness
	random  *rand.Rand
	now     int64
	highest int64
	passed  int64 // the clock of the audit is so much further
	ids     int
	loans   []loan
	kept    []loan // of the loans, what was not given back
	failed  string
}

func (of lender) borrower(t testing.TB, seed uint64) *borrower {
	b := &borrower{
		lender: of, on: startHarness(t, false), random: rand.New(rand.NewPCG(seed, 12)), now: epoch, highest: epoch,
	}
	b.on.setTime(epoch)
	return b
}

// move moves the clock: by some milliseconds, by a window, or back.
func (b *borrower) move() {
	const ms = 1000
	switch b.random.IntN(12) {
	case 0:
		b.set(b.now + ms*b.random.Int64N(3*returnWindow/ms))
	case 1:
		b.set(max(b.now-ms*b.random.Int64N(returnBack/ms), b.highest-returnBack))
	case 2, 3, 4:
	default:
		b.set(b.now + ms*b.random.Int64N(returnWindow/8/ms))
	}
}

func (b *borrower) set(now int64) {
	b.passed += max(b.now-now, 0)
	b.now, b.highest = now, max(b.highest, now)
	b.on.setTime(now)
}

// limit is that of a call: it changes.
func (b *borrower) limit() int64 { return []int64{10, 10, 10, 4, 17}[b.random.IntN(5)] }

// take asks for permits, and audits what it is granted: with what others keep, no more than the limit is used within
// the window that ends with it.
func (b *borrower) take() {
	limit := b.limit()
	permits, maxWait := 1+b.random.Int64N(min(limit, 5)), int64(0)
	if b.books() && b.random.IntN(3) == 0 {
		maxWait = 60_000_000
	}
	b.ids++
	l := loan{id: "id" + strconv.Itoa(b.ids), now: b.now, permits: permits}
	reply := b.call(b.script, b.ask(limit, permits, maxWait, l.id))
	if reply[0] == 0 {
		return
	}
	l.at = b.now + reply[2]
	l.used = l.at + b.passed
	b.loans, b.kept = append(b.loans, l), append(b.kept, l)
	held := int64(0)
	for _, other := range b.kept {
		if other.used > l.used-b.window && other.used <= l.used {
			held += other.permits
		}
	}
	if held > limit {
		b.fail("%d permits within a window, the limit is %d", held, limit)
	}
}

// giveBackSome gives back some permits of one of the last loans.
func (b *borrower) giveBackSome() {
	if len(b.kept) == 0 {
		return
	}
	at := len(b.kept) - 1 - b.random.IntN(min(len(b.kept), 6))
	l := &b.kept[at]
	permits := 1 + b.random.Int64N(l.permits)
	b.call(b.back, b.giveBack(*l, permits))
	if l.permits -= permits; l.permits == 0 {
		b.kept = slices.Delete(b.kept, at, at+1)
	}
}

func (b *borrower) call(script *sluice.Script, args []string) []int64 {
	reply, failed := b.on.call(script, false, table{script: script, keys: b.keys}.keysOf(args), args)
	if failed != "" {
		b.fail("%s %q: %s", script.Name, args, failed)
		return make([]int64, 5)
	}
	return reply
}

func (b *borrower) fail(format string, args ...any) {
	if b.failed == "" {
		b.failed = fmt.Sprintf("after %d grants: ", len(b.loans)) + fmt.Sprintf(format, args...)
	}
}

// keepTaking borrows for a time and returns what was wrong.
func (of lender) keepTaking(t testing.TB, seed uint64) string {
	b := of.borrower(t, seed)
	for range 120 {
		b.move()
		if b.random.IntN(5) < 2 {
			b.giveBackSome()
		} else {
			b.take()
		}
	}
	return b.failed
}

// asIfNotAsked has two limiters see the same calls; one of them is then asked more, and all that is given back, the
// newest first. Later calls get the same answers from both. It returns what was different.
func (of lender) asIfNotAsked(t testing.TB, seed uint64) string {
	asked, twin := of.borrower(t, seed), of.borrower(t, seed)
	for _, b := range []*borrower{asked, twin} {
		for range b.random.IntN(12) {
			b.move()
			b.take()
			b.giveBackSome()
		}
	}
	before := len(asked.loans)
	for range 1 + asked.random.IntN(8) {
		asked.move()
		if !of.books() && asked.now < asked.highest {
			asked.set(asked.highest) // see slice_ring_return: not the permits of a clock that was behind
		}
		twin.set(asked.now)
		asked.take()
	}
	for i := len(asked.loans) - 1; i >= before; i-- {
		l := asked.loans[i]
		expired := l.at <= asked.highest-returnWindow
		if reply := asked.call(of.back, of.giveBack(l, l.permits)); reply[0] != l.permits && !expired {
			asked.fail("%d of %d given back", reply[0], l.permits)
		}
	}
	if asked.failed == "" {
		asked.failed = of.differ(asked, twin)
	}
	return asked.failed
}

// differ asks both the same and compares the answers.
func (of lender) differ(asked, twin *borrower) string {
	// An asked log has removed what had left the window. If the clock then steps back, that counts for its twin again.
	trimmed := asked.entries() != twin.entries()
	highest := asked.highest
	random := rand.New(rand.NewPCG(uint64(asked.ids), 5))
	for range 12 {
		now := asked.now + 1000*random.Int64N(returnWindow/4000)
		if random.IntN(4) == 0 {
			now = asked.now - 1000*random.Int64N(4*returnBack/1000) // state may be void then
		}
		if trimmed || !of.books() {
			now = max(now, highest)
		}
		asked.set(now)
		twin.set(now)
		limit, id := asked.limit(), "later"+strconv.Itoa(random.Int())
		permits, maxWait := random.Int64N(min(limit, 5)), 60_000_000*random.Int64N(2)
		got := asked.call(of.script, of.ask(limit, permits, maxWait, id))
		want := twin.call(of.script, of.ask(limit, permits, maxWait, id))
		if !of.books() {
			got[3], want[3] = 0, 0 // the ring does not know that its last slice was emptied
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("at %d us, %d permits of %d: %v, want %v", now-epoch, permits, limit, got, want)
		}
		highest = max(highest, now)
	}
	return ""
}

// entries are those of a log.
func (b *borrower) entries() string {
	stored, _, _ := strings.Cut(b.on.redis.Snapshot(), " expires ")
	return stored
}

// Some runs are enough to find the faults below.
const returnRuns = 160

func TestReturnsKeepTheLimit(t *testing.T) {
	for _, of := range lenders {
		t.Run(of.script.Name, func(t *testing.T) {
			if failed := firstFailure(t, of.keepTaking); failed != "" {
				t.Error(failed)
			}
		})
	}
}

func TestReturnedAsIfNotAsked(t *testing.T) {
	for _, of := range lenders {
		t.Run(of.script.Name, func(t *testing.T) {
			if failed := firstFailure(t, of.asIfNotAsked); failed != "" {
				t.Error(failed)
			}
		})
	}
}

// firstFailure runs a test with random numbers of every seed until one fails.
func firstFailure(t testing.TB, run func(t testing.TB, seed uint64) string) string {
	for seed := range uint64(returnRuns) {
		if failed := run(t, seed); failed != "" {
			return fmt.Sprintf("seed %d: %s", seed, failed)
		}
	}
	return ""
}

// Both tests find what is wrong with a return: it gives back too much, or leaves something behind.
func TestReturnsFindBrokenScripts(t *testing.T) {
	for _, c := range []struct {
		fault       fault
		keeps, asks bool // which of the tests finds it
	}{
		{fault{"list_log_return", "more than it was asked to", "math.min(later + permits, length)", "length"}, true, true},
		{fault{"zset_log_return", "the expiry stays", "if fall > 0 then expires_in", "if false then expires_in"},
			false, true},
		{fault{"slice_ring_return", "out of the last slice",
			"(moment - moment % slice) / slice", "(last - last % slice) / slice"}, true, true},
	} {
		t.Run(c.fault.script+"/"+strings.ReplaceAll(c.fault.fault, " ", "_"), func(t *testing.T) {
			of := lenderWith(t, c.fault)
			if c.keeps && firstFailure(t, of.keepTaking) == "" {
				t.Error("the limit is kept")
			}
			if c.asks && firstFailure(t, of.asIfNotAsked) == "" {
				t.Error("it answers as if it had not been asked")
			}
		})
	}
}

// lenderWith is a lender whose return has a fault.
func lenderWith(t *testing.T, f fault) lender {
	at := slices.IndexFunc(lenders, func(of lender) bool { return of.back.Name == f.script })
	of := lenders[at]
	of.back = edited(t, of.back, f.right, f.wrong)
	return of
}
