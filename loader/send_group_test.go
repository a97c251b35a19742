package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// heldServer is a server that holds every round trip until it is told what to answer.
type heldServer struct {
	trips     chan *trip
	permitsAt int // in a command
}

// trip is the commands of one round trip: the keys that they are about, and how many permits each asks for.
type trip struct {
	ctx     context.Context
	keys    []string
	permits []int64
	piped   bool
	answer  chan []any // to each its reply, or an error; nil: all are granted
}

func newHeldServer() (*heldServer, *redis.Client) {
	s := &heldServer{trips: make(chan *trip, 100), permitsAt: 7}
	rdb := redis.NewClient(options("nowhere:0"))
	rdb.AddHook(around(s.serve))
	return s, rdb
}

func (s *heldServer) serve(ctx context.Context, cmds []redis.Cmder, _ func() error) (err error) {
	on := &trip{ctx: ctx, piped: len(cmds) > 1, answer: make(chan []any)}
	for _, cmd := range cmds {
		words := write(cmd)
		keys, err := strconv.Atoi(words[2])
		if err != nil || keys == 0 {
			panic(fmt.Sprint(words))
		}
		permits, err := strconv.ParseInt(words[s.permitsAt+keys-1], 10, 64)
		if err != nil {
			panic(err)
		}
		for _, key := range words[3 : 3+keys] {
			on.keys, on.permits = append(on.keys, key), append(on.permits, permits)
		}
	}
	s.trips <- on
	replies := <-on.answer
	for i, cmd := range cmds {
		reply := any(yes(2))
		if replies != nil {
			reply = replies[i]
		}
		if keys := cmd.Args()[2].(fmt.Stringer).String(); keys != "1" { // those of several subjects, all granted
			n, _ := strconv.Atoi(keys)
			reply = append([]int64{5}, slices.Repeat(yes(2)[:4], n)...)
		}
		if failed, ok := reply.(error); ok {
			cmd.SetErr(failed)
			err = failed
			continue
		}
		cmd.(interface{ SetVal([]int64) }).SetVal(reply.([]int64))
		cmd.SetErr(nil)
	}
	return err
}

// next is the next round trip that is on its way, nil if there is none.
func (s *heldServer) next() *trip {
	synctest.Wait()
	select {
	case on := <-s.trips:
		return on
	default:
		return nil
	}
}

// occupy has a call that goes by itself be on its way, so that later ones are collected, until it is released.
func (s *heldServer) occupy(limiter loader.Limiter) (release func()) {
	go func() { _, _ = limiter.Allow(background, "occupied") }()
	synctest.Wait()
	on := <-s.trips
	return func() { on.answer <- nil }
}

// yes and no are replies.
func yes(remaining int64) []int64      { return []int64{1, remaining, 0, 9, 5} }
func no(remaining, wait int64) []int64 { return []int64{0, remaining, wait, 9, 5} }

// asks is the next round trip, which has to ask for these.
func (s *heldServer) asks(t *testing.T, permits ...int64) *trip {
	t.Helper()
	on := s.next()
	if on == nil {
		t.Fatalf("nothing is asked for, want %d", permits)
	}
	if !slices.Equal(on.permits, permits) {
		t.Fatalf("asked for %d, want %d", on.permits, permits)
	}
	return on
}

// groupCallers are callers in the order in which they came, and what they got: "+4" is granted with 4 remaining, "-4"
// denied with a wait of 4 us, "!" an error of unknown outcome, "x" another error, "" nothing yet.
type groupCallers struct {
	limiter loader.Limiter
	got     []string
	mu      sync.Mutex
}

func (c *groupCallers) come(ctx context.Context, n int, permits int64) {
	for range n {
		c.mu.Lock()
		i := len(c.got)
		c.got = append(c.got, "")
		c.mu.Unlock()
		limiter := c.limiter
		go func() {
			got := outcome(ctx, limiter, permits)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.got[i] = got
		}()
		synctest.Wait()
	}
}

func outcome(ctx context.Context, limiter loader.Limiter, permits int64) string {
	switch d, err := limiter.AllowN(ctx, "s", permits); {
	case errors.Is(err, loader.ErrOutcomeUnknown):
		return "!"
	case err != nil:
		return "x"
	case d.Granted:
		return fmt.Sprint("+", d.Remaining)
	default:
		return fmt.Sprint("-", d.Wait.Microseconds())
	}
}

func (c *groupCallers) has(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.got, want) {
		t.Fatalf("got %q, want %q", c.got, want)
	}
}

// withCallers runs a timeline test in a bubble, in which another's call is on its way: all are collected.
func withCallers(t *testing.T, line func(t *testing.T, s *heldServer, c *groupCallers)) {
	t.Helper()
	withFirstCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		defer s.occupy(c.limiter)()
		line(t, s, c)
	})
}

// withFirstCallers runs a timeline test in a bubble. The first caller is alone.
func withFirstCallers(t *testing.T, line func(t *testing.T, s *heldServer, c *groupCallers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limits := loader.New(rdb, loader.Timeout(never))
		line(t, s, &groupCallers{limiter: limits.GCRA("x", loader.PerMinute(1000))})
	})
}

// TestGroupGranted has one command for those who come while another is on its way.
func TestGroupGranted(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		c.come(background, 1, 2)
		first := s.asks(t, 2)
		c.come(background, 3, 2)
		first.answer <- []any{yes(20)}
		second := s.asks(t, 6)
		c.has(t, "+20", "", "", "")
		c.come(background, 1, 2)
		second.answer <- []any{yes(13)}
		c.has(t, "+20", "+17", "+15", "+13", "")
		s.asks(t, 2).answer <- []any{yes(0)}
		c.come(background, 1, 2)
		s.asks(t, 2).answer <- []any{no(0, 3)}
		c.has(t, "+20", "+17", "+15", "+13", "+0", "-3")
	})
}

// TestGroupDenied has the denial of one be that of all who were there when it was asked for, and of no others.
func TestGroupDenied(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(background, 5, 1)
		first.answer <- []any{yes(2)}
		second := s.asks(t, 2, 1)
		c.come(background, 2, 1)
		second.answer <- []any{yes(0), no(0, 70)}
		c.has(t, "+2", "+1", "+0", "-70", "-70", "-70", "", "")
		s.asks(t, 1).answer <- []any{no(0, 60)}
		c.has(t, "+2", "+1", "+0", "-70", "-70", "-70", "-60", "-60")
	})
}

// TestGroupReaches has more come free between commands than there was room for: it is found by halves.
func TestGroupReaches(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(background, 20, 1)
		first.answer <- []any{no(0, 9)}
		s.asks(t, 1).answer <- []any{yes(0)}
		s.asks(t, 1, 1).answer <- []any{yes(1), yes(0)}
		s.asks(t, 2, 1, 1).answer <- []any{yes(1), yes(0), yes(3)}
		last := s.asks(t, 3, 4, 2, 1, 1)
		c.come(background, 9, 1)
		last.answer <- []any{yes(0), no(2, 3), yes(0), no(0, 2), no(0, 1)}
		last = s.asks(t, 4, 2, 1, 1) // 5 were granted: 3 more would not do
		c.come(background, 9, 1)
		last.answer <- []any{no(2, 9), yes(0), no(0, 7), no(0, 6)}
		last = s.asks(t, 2, 1, 1) // 2 were
		c.come(background, 2, 1)
		last.answer <- []any{yes(0), no(0, 9), no(0, 5)}
		s.asks(t, 1, 1).answer <- []any{no(0, 9), no(0, 4)}
		c.come(background, 1, 1)
		next := s.asks(t, 1)
		c.come(background, 2, 1)
		next.answer <- []any{no(0, 4)}
		s.asks(t, 1).answer <- []any{no(0, 3)}
		c.has(t, "-9", "+0", "+1", "+0", "+2", "+1", "+0", "+3", "+2", "+1", "+0", "+1", "+0",
			"-1", "-1", "-1", "-1", "-1", "-1", "-1", "-1",
			"+1", "+0", "-6", "-6", "-6", "-6", "-6", "-6", "-6",
			"+1", "+0", "-5", "-5", "-5", "-5", "-5", "-5", "-5", "-4", "-4",
			"-4", "-3", "-3")
	})
}

// TestGroupHasLessRoom has others take what there was room for. Those who came first are still the first.
func TestGroupHasLessRoom(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		ctx, cancel := context.WithCancel(background)
		c.come(background, 1, 3)
		first := s.asks(t, 3)
		c.come(background, 3, 3)
		c.come(ctx, 1, 3)
		first.answer <- []any{yes(100)}
		second := s.asks(t, 12)
		c.come(background, 1, 3)
		second.answer <- []any{no(8, 50)}
		third := s.asks(t, 6, 3)
		cancel() // its permits are not asked for again
		c.has(t, "+100", "", "", "", "x", "")
		third.answer <- []any{yes(2), no(2, 40)}
		c.has(t, "+100", "+5", "+2", "-40", "x", "-40")
	})
}

// TestGroupWithinTheScript has no command ask for more permits than list_log takes at once, 1000.
func TestGroupWithinTheScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		s.permitsAt = 6
		c := &groupCallers{limiter: loader.New(rdb).ListLog("x", loader.PerMinute(100_000))}
		defer s.occupy(c.limiter)()
		c.come(background, 1, 400)
		first := s.asks(t, 400)
		c.come(background, 5, 400)
		first.answer <- []any{yes(99_600)}
		s.asks(t, 800, 800, 400).answer <- []any{yes(98_800), yes(98_000), yes(97_600)}
		c.has(t, "+99600", "+99200", "+98800", "+98400", "+98000", "+97600")
	})
}

// TestGroupFails has commands of unknown outcome: those they asked for have to know. Those who waited for their denial
// were not asked for: they get the error alone.
func TestGroupFails(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		lost := errors.New("the reply is lost")
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(background, 5, 1)
		first.answer <- []any{yes(2)}
		second := s.asks(t, 2, 1)
		c.come(background, 2, 1)
		second.answer <- []any{lost, no(0, 7)}
		c.has(t, "+2", "!", "!", "-7", "-7", "-7", "", "")
		third := s.asks(t, 1)
		c.come(background, 1, 1)
		third.answer <- []any{lost}
		c.has(t, "+2", "!", "!", "-7", "-7", "-7", "!", "x", "")
		s.asks(t, 1).answer <- []any{lost}
		c.has(t, "+2", "!", "!", "-7", "-7", "-7", "!", "x", "!")
	})
}

// TestGroupContextEnds has callers leave before they are asked for, while they are, and while others are.
func TestGroupContextEnds(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		early, cancelEarly := context.WithCancel(background)
		late, cancelLate := context.WithCancel(background)
		defer cancelLate()
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(early, 1, 1)
		c.come(background, 1, 1)
		c.come(late, 2, 1)
		cancelEarly()
		c.has(t, "", "x", "", "", "")
		first.answer <- []any{yes(2)}
		second := s.asks(t, 2, 1)
		cancelLate() // one of them is asked for in the first command, one in the second
		c.has(t, "+2", "x", "", "!", "!")
		c.come(early, 1, 1)
		c.has(t, "+2", "x", "", "!", "!", "x")
		second.answer <- []any{yes(0), no(0, 7)}
		c.has(t, "+2", "x", "+1", "!", "!", "x")
		c.come(background, 1, 1) // alone: no other caller is left
		s.asks(t, 1).answer <- []any{no(0, 6)}
	})
}

// TestGroupDeadlines has the command given up with the last of those who wait for it.
func TestGroupDeadlines(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		soon := within(t, time.Second)
		later := within(t, 3*time.Second)
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(later, 1, 1)
		c.come(soon, 1, 1)
		first.answer <- []any{yes(9)}
		silent := s.asks(t, 2)
		time.Sleep(2 * time.Second)
		c.come(background, 1, 1)
		c.has(t, "+9", "", "!", "")
		time.Sleep(2 * time.Second)
		s.asks(t, 1).answer <- []any{yes(5)}
		c.has(t, "+9", "!", "!", "+5")
		silent.answer <- []any{yes(7)}
	})
}

// TestGroupTimeout bounds how long one waits for the call of another and its own together.
func TestGroupTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		limits := loader.New(rdb, loader.Timeout(2*time.Second))
		c := &groupCallers{limiter: limits.GCRA("x", loader.PerMinute(1000))}
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		time.Sleep(time.Second)
		c.come(background, 1, 1)
		time.Sleep(time.Second)
		c.has(t, "!", "")
		second := s.asks(t, 1)
		time.Sleep(time.Second)
		c.has(t, "!", "!")
		first.answer <- []any{yes(1)}
		second.answer <- []any{yes(0)}
	})
}

// TestGroupsAreApart has others ask for other permits, under another limit, or to book: they share no command.
func TestGroupsAreApart(t *testing.T) {
	withFirstCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		limiter := c.limiter.(loader.GCRA)
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(background, 1, 2)
		s.asks(t, 2).answer <- []any{yes(5)}
		c.limiter = limiter.With(loader.PerMinute(7))
		c.come(background, 2, 1)
		s.asks(t, 1).answer <- []any{yes(4)}
		s.asks(t, 1).answer <- []any{yes(3)}
		c.has(t, "", "+5", "+4", "+3")
		first.answer <- []any{yes(6)}
		c.has(t, "+6", "+5", "+4", "+3")
		var booking [2]*trip
		for i := range booking {
			go func() { _, _ = limiter.Reserve(background, "s") }()
			booking[i] = s.asks(t, 1)
		}
		booking[0].answer <- []any{yes(0)}
		booking[1].answer <- []any{yes(0)}
	})
}

// TestGroupOfOneID has the same request asked for many times at once: it is one.
func TestGroupOfOneID(t *testing.T) {
	_, rdb := fake(t)
	limiter := loader.New(rdb).ZSetLog("x", loader.PerMinute(5)).WithID("a")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := outcome(background, limiter, 1); got != "+4" {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
}

// TestGroupStoredLimit has an operator lower the limit in Redis below what was left of it.
func TestGroupStoredLimit(t *testing.T) {
	withCallers(t, func(t *testing.T, s *heldServer, c *groupCallers) {
		exceeds := serverError("BADARG permits: want up to rate")
		c.come(background, 1, 2)
		first := s.asks(t, 2)
		c.come(background, 4, 2)
		first.answer <- []any{yes(10)}
		s.asks(t, 8).answer <- []any{exceeds}
		s.asks(t, 2).answer <- []any{yes(2)}
		s.asks(t, 2, 2, 2).answer <- []any{yes(0), exceeds, exceeds}
		c.has(t, "+10", "+2", "+0", "x", "x")
	})
}

// TestGroupAnswersAsSingles compares the answers of many at once with those that callers get one by one while the
// server's clock stands still: the same, in some order. Of a GCRA all that one command brought have the ResetAfter of
// the last.
func TestGroupAnswersAsSingles(t *testing.T) {
	for _, m := range groupable() {
		for _, c := range []struct{ permits, limit int64 }{{1, 1}, {1, 70}, {3, 100}, {3, 300}, {400, 2900}, {400, 40_000}} {
			t.Run(fmt.Sprint(m.name, c), func(t *testing.T) {
				_, rdb := fake(t)
				var commands atomic.Int64
				rdb.AddHook(hook{
					before: func(redis.Cmder) { commands.Add(1) },
					piped:  func(cmds []redis.Cmder) { commands.Add(int64(len(cmds))) },
				})
				patience := loader.Timeout(never) // a busy machine is slow
				singly := m.make(loader.New(rdb, patience), loader.PerMinute(c.limit))
				together := m.make(loader.New(rdb, patience), loader.PerMinute(c.limit))
				singles := make([]string, 100)
				for i := range singles {
					singles[i] = answerTo(t, singly, c.permits)
				}
				must(t, rdb.FlushDB(background).Err())
				commands.Store(0)
				group := make([]string, len(singles))
				var all sync.WaitGroup
				for i := range group {
					all.Go(func() { group[i] = answerTo(t, together, c.permits) })
				}
				all.Wait()
				slices.Sort(singles)
				slices.Sort(group)
				if diff := cmp.Diff(singles, group); diff != "" {
					t.Error(diff)
				}
				if n := commands.Load(); n > int64(len(group)*3/4) {
					t.Errorf("%d commands for %d callers", n, len(group))
				}
			})
		}
	}
}

// answerTo is the Decision about permits, of a GCRA without its ResetAfter.
func answerTo(t *testing.T, limiter loader.Limiter, permits int64) string {
	d, err := limiter.AllowN(background, "s", permits)
	if err != nil {
		t.Error(err)
	}
	if _, ok := limiter.(loader.GCRA); ok {
		d.ResetAfter = 0
	}
	return fmt.Sprintf("%+v", d)
}

// groupable are the makers of limiters whose calls carry no ids.
func groupable() []making {
	return slices.DeleteFunc(slices.Clone(makers), func(m making) bool { return m.name == "ZSetLog" })
}

// TestGroupIsSeen has a command fail for many under a fallback, and one leave: observer and log are told.
func TestGroupIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rdb := newHeldServer()
		w, log := &watcher{t: t}, &strings.Builder{}
		limits := loader.New(rdb, loader.Observe(w), loader.Timeout(2*time.Hour),
			loader.Logger(slog.New(slog.NewTextHandler(log, nil))))
		c := &groupCallers{limiter: limits.GCRA("x", loader.PerMinute(1000), loader.FailOpen())}
		defer s.occupy(c.limiter)()
		ctx, cancel := context.WithCancel(background)
		c.come(background, 1, 1)
		first := s.asks(t, 1)
		c.come(ctx, 1, 1)
		c.come(background, 3, 1)
		first.answer <- []any{yes(3)}
		second := s.asks(t, 3, 1)
		cancel()
		c.has(t, "+3", "!", "", "", "")
		time.Sleep(time.Hour) // the log keeps quiet about what it has just told
		second.answer <- []any{errors.New("the reply is lost"), no(0, 7)}
		c.has(t, "+3", "!", "+1000", "+1000", "-7")
		degraded := 0
		for _, e := range w.events {
			if e.Permits != 1 || e.Attempts != 1 {
				t.Errorf("%+v", e)
			}
			if e.Decision.Degraded {
				degraded++
			}
		}
		if len(w.events) != 5 || degraded != 2 {
			t.Errorf("%d events, %d of them degraded, want 5 and 2", len(w.events), degraded)
		}
		told, callerLeft := strings.Contains(log.String(), "the reply is lost"), "context canceled"
		if !told || strings.Contains(log.String(), callerLeft) {
			t.Errorf("want the lost reply in the log, not that a caller left:\n%s", log)
		}
	})
}
