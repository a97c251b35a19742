//go:build unix

package soak

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// pulse tells how slow the machine is: how late a few callers are answered by a server to which nothing happens, behind
// a proxy that passes everything on. They are several because a processor that is taken from this process holds up only
// those goroutines that are on it.
type pulse struct {
	well *redis.Client // of the server to which nothing happens

	mu      sync.Mutex
	beats   [beatsKept]beat // the last ones
	ended   int             // how many there were
	pending [hearts]time.Time
	worst   time.Duration
}

// beat is one call, and how much later than due it was answered.
type beat struct {
	due time.Time
	lag time.Duration
}

const (
	hearts     = 8
	beatEvery  = 50 * time.Millisecond
	beatsKept  = 4000
	lagsALate  = 5 // by how many lags a call may be late
	lagsACall  = 4 // how many fit into the bound of a call that has to be answered
	beatIsLost = 30 * time.Second
)

// newPulse starts a server for it.
func newPulse(t *testing.T) *pulse {
	t.Helper()
	return &pulse{well: redistest.Client(t, redistest.StartProxy(t, redistest.Start(t).Addr).Addr)}
}

// beat beats once with one of the hearts.
func (p *pulse) beat(ctx context.Context, heart int) {
	due := time.Now().Add(beatEvery)
	p.begin(heart, due)
	time.Sleep(beatEvery)
	bounded, cancel := context.WithTimeout(ctx, beatIsLost)
	defer cancel()
	_ = p.well.Ping(bounded).Err()
	p.end(beat{due, time.Since(due)})
}

func (p *pulse) begin(heart int, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[heart] = due
}

func (p *pulse) end(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst = max(p.worst, b.lag)
	p.beats[p.ended%beatsKept] = b
	p.ended++
}

// lag returns the worst delay since a time.
func (p *pulse) lag(since time.Time) (worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, due := range p.pending {
		if !due.IsZero() {
			worst = max(worst, time.Since(due))
		}
	}
	for i := p.ended - 1; i >= max(0, p.ended-beatsKept); i-- {
		b := p.beats[i%beatsKept]
		if b.due.Add(b.lag).Before(since) {
			break
		}
		worst = max(worst, b.lag)
	}
	return worst
}

// allowance is by how much more a call may be late that began then.
func (p *pulse) allowance(since time.Time) time.Duration { return lagsALate * p.lag(since) }

// judges reports whether a call since a time could be answered within its bound at all.
func (p *pulse) judges(bound time.Duration, since time.Time) bool {
	return lagsACall*p.lag(since) < bound
}

// A beat that is late is seen by those who were there meanwhile, and so is one that has not come yet.
func TestPulse(t *testing.T) {
	now := time.Now()
	p := &pulse{}
	p.end(beat{now.Add(-4 * time.Second), time.Second})
	p.end(beat{now.Add(-2 * time.Second), time.Millisecond})
	for since, want := range map[time.Duration]time.Duration{
		-5 * time.Second: time.Second, -3500 * time.Millisecond: time.Second,
		-2500 * time.Millisecond: time.Millisecond, 0: 0,
	} {
		if got := p.lag(now.Add(since)); got != want {
			t.Errorf("since %v: %v, want %v", since, got, want)
		}
	}
	if p.begin(hearts-1, now.Add(-time.Minute)); p.lag(now) < time.Minute {
		t.Errorf("one that does not come: %v", p.lag(now))
	}
	for range beatsKept + 1 {
		p.end(beat{now, 2 * time.Minute})
	}
	if got := p.lag(now.Add(-5 * time.Second)); got != 2*time.Minute {
		t.Errorf("after more than are kept: %v", got)
	}
}
