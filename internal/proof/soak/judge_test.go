//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// What follows tests the judges themselves: each rule sees what it is for, and nothing else.

// court is an attack without servers or callers: one row on one site, and no fault yet.
func court(m *mode) (*attack, *row) {
	s := &site{name: "single", servers: make([]*redistest.Server, 2)}
	r := &row{site: s, script: scripts[0], mode: m, books: make([]book, 2)}
	a := &attack{setting: attackSetting(), sites: []*site{s}, rows: []*row{r}, failures: map[string]*failure{},
		pulse: &pulse{}}
	a.full = true
	return a, r
}

// modeOf is the mode of that name.
func modeOf(name string) *mode {
	return modes[slices.IndexFunc(modes, func(m *mode) bool { return m.name == name })]
}

// broken are the rules by which something has failed.
func (a *attack) broken() string {
	var rules []string
	for way := range a.failures {
		rule, _, _ := strings.Cut(way, ":")
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	return strings.Join(rules, " ")
}

func TestJudge(t *testing.T) {
	const long = 10 * time.Second
	lost := &loader.OutcomeUnknownError{Err: errors.New("EOF")}
	canceled := fmt.Errorf("loader: %w", context.Canceled)
	refused := fmt.Errorf("loader: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	plain, hasty := question{cancel: never}, question{cancel: never, deadline: 1}
	patient := question{cancel: never, deadline: 3 * time.Second, ledger: true}
	for name, test := range map[string]struct {
		mode     string
		question question
		took     time.Duration
		err      error
		panicked any
		calm     bool
		during   bool // a fault of server 0 is under way
		server   int
		want     string
	}{
		"answered":                  {mode: "plain", question: plain},
		"at its bound":              {mode: "plain", question: plain, took: time.Second, err: lost},
		"beyond its bound":          {mode: "plain", question: plain, took: defaultBound + slack + 1, want: "bound"},
		"beyond that of a policy":   {mode: "FailOpen", question: plain, took: policyBound + slack + 1, want: "bound"},
		"beyond its Timeout":        {mode: "Timeout 200ms", question: plain, took: time.Second, want: "bound"},
		"beyond its deadline":       {mode: "plain", question: hasty, took: slack + 2, want: "bound"},
		"cancelled":                 {mode: "plain", question: question{cancel: 1}, err: canceled},
		"after it was cancelled":    {mode: "plain", question: question{cancel: 1}, took: slack + 2, want: "bound"},
		"cancelled by no caller":    {mode: "plain", question: plain, err: canceled, want: "error"},
		"an error of no kind":       {mode: "plain", question: plain, err: errors.New("what?"), want: "error"},
		"the breaker":               {mode: breakerMode, question: plain, err: loader.ErrBreakerOpen},
		"it is open in calm":        {mode: "plain", question: plain, err: loader.ErrBreakerOpen, calm: true, want: "calm"},
		"lost":                      {mode: "plain", question: plain, err: lost},
		"lost while all was well":   {mode: "plain", question: plain, err: lost, calm: true, want: "calm"},
		"late while all was well":   {mode: "plain", question: hasty, err: lost, calm: true},
		"a Wait that is lost":       {mode: "Wait", question: patient, err: lost},
		"a Wait that gives up":      {mode: "Wait", question: patient, err: refused, want: "Wait"},
		"a Wait at its deadline":    {mode: "Wait", question: patient, took: 3 * time.Second, err: refused},
		"a Wait that is denied":     {mode: "Wait", question: patient, err: &loader.WaitError{}, want: "Wait"},
		"a Wait that is used up":    {mode: "Wait", question: hasty, err: &loader.WaitError{}},
		"a panic of a hook":         {mode: "plain", question: plain, panicked: planted{"here"}},
		"a hook's panic, none due":  {mode: "plain", question: plain, panicked: planted{"here"}, calm: true, want: "panic"},
		"a panic of the loader":     {mode: "plain", question: plain, panicked: "nil map", want: "panic"},
		"a panic, and far too late": {mode: "plain", question: plain, took: long, panicked: planted{"here"}, want: "bound"},
		"a slot that came late":     {mode: "Acquire", question: patient, took: slotTTL, err: &loader.SlotLostError{}},
		"a slot lost at once":       {mode: "Acquire", question: patient, err: &loader.SlotLostError{}, want: "Wait error"},
		"a WaitError of an Allow":   {mode: "plain", question: plain, err: &loader.WaitError{}, want: "error"},
		"lost with a server":        {mode: "plain", question: plain, err: lost, during: true},
		"lost, and it is well":      {mode: "plain", question: plain, err: lost, during: true, server: 1, want: "neighbour"},
	} {
		a, r := court(modeOf(test.mode))
		begun := time.Now()
		c := &called{
			worker: &worker{row: r, attack: a}, question: test.question, calm: test.calm,
			begun: begun, ended: begun.Add(test.took),
			answers: []answer{{place: place{server: test.server}, permits: 1, err: test.err}}, panicked: test.panicked,
		}
		if test.during || test.panicked != nil && !test.calm {
			c.event = &event{fault: faults[0], victims: map[*site]uint{r.site: 1}, begun: begun.Add(-1)}
		}
		if c.judge(); a.broken() != test.want {
			t.Errorf("%s: fails by %q, want %q", name, a.broken(), test.want)
		}
		if met := r.met.of(faults[0].name); c.event != nil && met != int64(1-test.server) {
			t.Errorf("%s: the fault met %d calls", name, met)
		}
	}
}

// Too little charged is wrong, and too much beyond what is unknown.
func TestWrongCharge(t *testing.T) {
	for _, test := range []struct {
		charged, granted, unknown int64
		wrong                     bool
	}{{5, 5, 0, false}, {4, 5, 0, true}, {4, 5, 3, true}, {8, 5, 3, false}, {9, 5, 3, true}} {
		if wrong := wrongCharge(test.charged, test.granted, test.unknown); (wrong != "") != test.wrong {
			t.Errorf("%+v: %q", test, wrong)
		}
	}
}

// Grants within a window of the limit pass, one more fails, and so it is with slots that are held at once. What is long
// ago is forgotten.
func TestAuditTight(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		grants int64
		slots  int
		want   string
	}{
		"the limits": {4, 1, ""},
		"a grant":    {5, 1, "limit"},
		"a slot":     {4, 2, "slots"},
	} {
		a, r := court(modeOf("TryAcquire"))
		b := &r.books[0]
		for range test.grants {
			b.spent.Add(Spent{now, now, 1})
		}
		b.spent.Add(Spent{From: now.Add(-2 * longestCall), To: now.Add(-longestCall - time.Second), Permits: 1})
		for range test.slots {
			b.released(Spent{From: now.Add(-time.Second), To: now}, false, true)
		}
		b.released(Spent{From: now.Add(-time.Second), To: now}, true, false) // of the ledger
		if r.auditTight(a); a.broken() != test.want {
			t.Errorf("%s more: fails by %q, want %q", name, a.broken(), test.want)
		}
		if len(b.spent.Spent()) != int(test.grants) || len(b.uses.Spent()) != 0 || b.unknown != 1 {
			t.Errorf("%d grants and %d uses are kept, %d leases may be left", len(b.spent.Spent()),
				len(b.uses.Spent()), b.unknown)
		}
	}
}

// What an answer adds to the permits that were granted, and to those of which the outcome is unknown.
func TestWrite(t *testing.T) {
	refused := fmt.Errorf("loader: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	lost := &loader.OutcomeUnknownError{Err: errors.New("EOF")}
	granted := loader.Decision{Granted: true}
	for _, test := range []struct {
		mode             string
		answer           answer
		granted, unknown int64
	}{
		{"GiveBack", answer{permits: 2, decided: granted}, 2, 0},
		{"GiveBack", answer{permits: 0, decided: granted}, 0, 0}, // given back
		{"GiveBack", answer{permits: 2, decided: granted, err: lost}, 0, 2},
		{"GiveBack", answer{permits: 2, decided: granted, err: refused}, 2, 0},
		{"GiveBack", answer{permits: 2, decided: granted, unsure: true}, 0, 2},
		{"GiveBack", answer{permits: 2, err: lost}, 0, 2},
		{"All", answer{permits: 2}, 0, 0}, // denied by another
		{"All", answer{permits: 2, err: refused}, 0, 0},
		{"All", answer{permits: 2, decided: granted}, 2, 0},
		{"Acquire", answer{permits: 1, err: refused}, 0, 1},
		{"Acquire", answer{permits: 1, slot: &loader.Slot{}}, 0, 0},
	} {
		a, r := court(modeOf(test.mode))
		r.script = r.mode.scripts[0]
		c := &called{worker: &worker{row: r, attack: a}}
		test.answer.ledger = true
		c.write(&test.answer)
		b := &r.books[0]
		if granted := b.granted.Drop(always); granted != test.granted || b.unknown != test.unknown {
			t.Errorf("%s, %+v: %d and %d, want %d and %d", test.mode, test.answer, granted, b.unknown, test.granted,
				test.unknown)
		}
	}
}

// A fault that met no call of a row is missed, and so is one that was never judged.
func TestMissed(t *testing.T) {
	a, r := court(modeOf("plain"))
	a.faults = []string{"1", "2", "3"}
	for n := len(a.faults); n >= 0; n-- {
		if missed, unjudged := a.untold(); len(missed) != n || unjudged != n {
			t.Errorf("missed %q, %d not judged; want %d", missed, unjudged, n)
		}
		if n > 0 {
			r.met.add(a.faults[n-1], 1)
			r.judged.add(a.faults[n-1], 1)
		}
	}
}

// The same seed makes up the same faults, another one others.
func TestSeed(t *testing.T) {
	eventsOf := func(seed uint64) string {
		a, _ := court(modeOf("plain"))
		a.random = rand.New(rand.NewPCG(seed, 0))
		var text []string
		for e := range a.eventsOf(faults) {
			text = append(text, fmt.Sprintln(e.name, e.lasts, e.victims[a.sites[0]], e.random.Int()))
			if len(text) == 20 {
				break
			}
		}
		return strings.Join(text, "")
	}
	seven, again, eight := eventsOf(7), eventsOf(7), eventsOf(8)
	if seven != again || seven == eight {
		t.Errorf("seed 7: %s\nand then: %s\nseed 8: %s", seven, again, eight)
	}
}

// A heap that comes and goes is not one that grows.
func TestHeapGrew(t *testing.T) {
	first := sample{heap: 20 << 20}
	if (sample{heap: 30 << 20}).heapGrew(first) || !(sample{heap: 40 << 20}).heapGrew(first) {
		t.Error("20 MiB may become 30, and not 40")
	}
}
