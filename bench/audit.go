package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/soak"
)

// An Audit is the highest number of permits that a library granted in any window.
type Audit struct {
	Window time.Duration `json:"window_ns"`
	Limit  int64         `json:"limit"`
	Most   int64         `json:"most"`
	Failed int64         `json:"failed,omitempty"` // calls that were neither granted nor denied
}

// phases are the parts of a window after which an attack begins. A few calls open the window; the others come late and
// go on after its end.
var phases = []float64{0, 0.5, 0.7, 0.9}

// audit saturates one subject a phase, all at the same time, for one and a half windows.
func (r *peerRun) audit(ctx context.Context, on *server, windows []time.Duration) ([]Audit, error) {
	var audits []Audit
	for _, window := range windows {
		decide, err := r.make(on, fullLimit, window)
		if err != nil {
			return nil, err
		}
		audit := attacks(ctx, decide, r.name, fullLimit, window)
		audits = append(audits, audit)
	}
	return audits, nil
}

// attacks is the most of one attack for each phase.
func attacks(ctx context.Context, decide decider, name string, limit int64, window time.Duration) Audit {
	found := make([]Audit, len(phases))
	var wg sync.WaitGroup
	for i, phase := range phases {
		subject := fmt.Sprintf("%s %s %g", name, window, phase)
		wg.Go(func() { found[i] = attack(ctx, decide, subject, window, phase) })
	}
	wg.Wait()
	audit := Audit{Window: window, Limit: limit}
	for _, a := range found {
		audit.Most = max(audit.Most, a.Most)
		audit.Failed += a.Failed
	}
	return audit
}

// attack calls from four goroutines. Each calls once, sleeps until the phase, and then calls as fast as it can.
func attack(ctx context.Context, decide decider, subject string, window time.Duration, phase float64) Audit {
	var mu sync.Mutex
	var grants []soak.Spent
	var failed int64
	begin := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for calls := 0; time.Since(begin) < window*3/2; calls++ {
				sent := time.Now()
				ok, err := decide(ctx, subject)
				mu.Lock()
				switch {
				case err != nil:
					failed++
				case ok:
					grants = append(grants, soak.Spent{From: sent, To: time.Now(), Permits: 1})
				}
				mu.Unlock()
				if calls == 0 {
					time.Sleep(time.Until(begin.Add(time.Duration(phase * float64(window)))))
				}
			}
		})
	}
	wg.Wait()
	return Audit{Most: soak.MostWithin(grants, window), Failed: failed}
}
