package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/soak"
)

// An Audit is the highest number of permits that a contender granted in any window.
type Audit struct {
	Window time.Duration `json:"window_ns"`
	Limit  int64         `json:"limit"`
	Most   int64         `json:"most"`
	Failed int64         `json:"failed,omitempty"` // calls that were neither granted nor denied
}

// phases are the parts of a window after which an attack begins. A few calls open the window; the others come late and
// go on after its end.
var phases = []float64{0, 0.5, 0.7, 0.9}

// auditors ask at the same time.
const auditors = 4

// audit saturates a contender for one and a half of each window.
func (c contender) audit(ctx context.Context, on *server, windows []time.Duration) ([]Audit, error) {
	var audits []Audit
	for _, window := range windows {
		decide, err := c.make(on, fullLimit, window)
		if err != nil || c.promise == none {
			return nil, err
		}
		callers := slices.Repeat([]decider{decide}, auditors)
		audits = append(audits, saturate(ctx, callers, window, window*3/2, fmt.Sprint(c.name, " ", window)))
	}
	return audits, nil
}

// saturate has all callers ask for a subject a phase, so long: once at the beginning, and from the phase on as fast as
// they can; for every other subject, every other caller, whose clock may be ahead, comes a tenth of a window later. A
// grant happened, by the clock of this program, between the call and its answer.
func saturate(ctx context.Context, callers []decider, window, span time.Duration, name string) Audit {
	grants, failed := make([][]soak.Spent, len(phases)), int64(0)
	var mu sync.Mutex
	var work sync.WaitGroup
	begin := time.Now()
	ask := func(decide decider, i int) {
		sent := time.Now()
		granted, err := decide(ctx, fmt.Sprint(name, " ", i))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failed++
		case granted:
			grants[i] = append(grants[i], soak.Spent{From: sent, To: time.Now(), Permits: 1})
		}
	}
	for n, decide := range callers {
		work.Go(func() {
			for calls := 0; time.Since(begin) < span; calls++ {
				for i, phase := range phases {
					from := phase + 0.1*float64((i%2)*(n%2))
					if calls == 0 || time.Since(begin) >= time.Duration(from*float64(window)) {
						ask(decide, i)
					}
				}
			}
		})
	}
	work.Wait()
	audit := Audit{Window: window, Limit: fullLimit, Failed: failed}
	for _, phase := range grants {
		audit.Most = max(audit.Most, soak.MostWithin(phase, window))
	}
	return audit
}
