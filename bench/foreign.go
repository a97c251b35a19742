package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/internal/faultproxy"
	"github.com/sluice-redis/sluice/internal/proof/soak"
)

const (
	foreignProcesses = 8 // that audit a limiter
	foreignAhead     = 2 * time.Second
	lostWaits        = 30 * time.Second // a call whose reply is lost may be repeated for so long
)

// each does the same to every limiter.
func (b *bench) each(runs []*foreignRun, doing string, do func(*foreignRun) error) error {
	for _, run := range runs {
		b.progress("languages: %s: %s, %s", doing, run.language, run.name)
		if err := do(run); err != nil {
			return fmt.Errorf("%s: %s, %s: %w", doing, run.language, run.name, err)
		}
	}
	return nil
}

// foreignCosts measures every limiter once a round.
func (b *bench) foreignCosts(ctx context.Context, runs []*foreignRun) error {
	var err error
	for round := 0; round < b.rounds && err == nil; round++ {
		at := round % len(runs)
		err = b.each(slices.Concat(runs[at:], runs[:at]), fmt.Sprint("round ", round+1), func(r *foreignRun) error {
			grant, err := r.decide(ctx, b, peerLimit, fmt.Sprint("granted ", round), 0, 2*b.calls, true)
			if err != nil {
				return err
			}
			denial, err := r.decide(ctx, b, fullLimit, fmt.Sprint("denied ", round), fullLimit, 2*b.calls, false)
			r.granted, r.denied = append(r.granted, grant), append(r.denied, denial)
			return err
		})
	}
	if err != nil {
		return err
	}
	for _, r := range runs {
		r.row.Granted, r.row.Denied = Decision{costOf(r.granted).CPU}, Decision{costOf(r.denied).CPU}
	}
	return nil
}

// foreignStates weighs every limiter, and loses a reply of each.
func (b *bench) foreignStates(ctx context.Context, runs []*foreignRun) error {
	return b.each(runs, "memory, a lost reply", func(r *foreignRun) (err error) {
		if r.row.Bytes, err = r.memory(ctx, b.server); err == nil && !r.standIn {
			r.row.Lost, err = r.loseReply(ctx, b.server)
		}
		return err
	})
}

// loseReply loses the reply that says that one permit is charged, and only that. What the limiter grants afterwards
// shows how many permits were charged.
func (r *foreignRun) loseReply(ctx context.Context, on *server) (Lost, error) {
	proxy, err := faultproxy.Start(on.process.Addr, func(error) {}) // this one never refuses connections
	if err != nil {
		return Lost{}, err
	}
	defer proxy.Close()
	d, err := r.start(proxy.Addr, fullLimit, peerWindow)
	if err != nil {
		return Lost{}, err
	}
	defer d.stop()
	subject, cut := r.subject("lost"), 0
	if err := d.fill(subject, 2); err != nil {
		return Lost{}, err
	}
	if r.readsFirst { // the reply of GET passes, and a byte of the next one
		length := int(on.StrLen(ctx, subject).Val())
		cut = len(fmt.Sprintf("$%d\r\n\r\n", length)) + length + 1
	}
	ended := func() int64 { counts := proxy.Counts(); return counts.Accepted - counts.Open }
	before, answers := ended(), make(chan Lost, 1)
	proxy.CutReplies(cut)
	go func() {
		lost := Lost{Answer: "denied"}
		if granted, err := d.take(subject); err != nil {
			lost.Answer = "error"
		} else if granted {
			lost.Answer = "granted"
		}
		answers <- lost
	}()
	for deadline := time.Now().Add(lostWaits); ended() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return Lost{}, errors.New("no connection was cut")
		}
	}
	proxy.Pass()
	select {
	case lost := <-answers:
		decide, err := r.ask(on, fullLimit, peerWindow)
		lost.Charged = fullLimit - 2
		for granted := true; granted && err == nil && lost.Charged >= 0; {
			if granted, err = decide(ctx, "lost"); granted {
				lost.Charged--
			}
		}
		return lost, err
	case <-time.After(lostWaits):
		return Lost{}, errors.New("no answer")
	}
}

// foreignAudits saturates every limiter from processes of its own, while their clocks agree and when half are ahead.
func (b *bench) foreignAudits(_ context.Context, runs []*foreignRun) error {
	dir, err := os.MkdirTemp("", "sluice-clocks-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shim, source := filepath.Join(dir, "clock.so"), filepath.Join("..", "internal", "proof", "redistest", "shim", "clock.c")
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", shim, source).CombinedOutput(); err != nil {
		return fmt.Errorf("clocks that are ahead need Linux and a C compiler, cc: %w\n%s", err, out)
	}
	return b.each(runs, "audit", func(r *foreignRun) error {
		for _, ahead := range []time.Duration{0, foreignAhead} {
			audit, err := r.audit(b, shim, ahead)
			if err != nil {
				return err
			}
			r.row.Audits = append(r.row.Audits, audit)
		}
		return nil
	})
}

// audit runs the processes. The page of a clock is that of internal/proof/redistest/shim/clock.c: first, by how many
// microseconds it is ahead.
func (r *foreignRun) audit(b *bench, shim string, ahead time.Duration) (Audit, error) {
	page := filepath.Join(filepath.Dir(shim), "page")
	text := binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds()))
	if err := os.WriteFile(page, append(text, make([]byte, 16)...), 0o600); err != nil {
		return Audit{}, err
	}
	var drivers []*driver
	defer func() {
		for _, d := range drivers {
			d.stop()
		}
	}()
	for i := range foreignProcesses {
		var clock []string
		if i%2 == 1 {
			clock = []string{"LD_PRELOAD=" + shim, "SLUICE_CLOCK=" + page}
		}
		d, err := r.start(b.server.process.Addr, fullLimit, b.audited, clock...)
		if err != nil {
			return Audit{}, err
		}
		drivers = append(drivers, d)
		got, err := d.ahead()
		if off := got - ahead*time.Duration(i%2); err != nil || off.Abs() > foreignAhead/4 {
			return Audit{}, fmt.Errorf("the clock of process %d is %s ahead: %w", i+1, got, err)
		}
	}
	r.saturate(drivers, b.audited, b.audited, "warm")
	return r.saturate(drivers, b.audited, 3*b.audited, fmt.Sprint("audit ", ahead)), nil
}

// saturate has all programs ask for a subject a phase, so long: once at the beginning, and from the phase on as fast as
// they can; for every other subject, those whose clocks may be ahead come a tenth of a window later. A grant happened,
// by the clock of this program, between the line that asked and its answer.
func (r *foreignRun) saturate(drivers []*driver, window, span time.Duration, name string) Audit {
	grants, failed := make([][]soak.Spent, len(phases)), int64(0)
	var mu sync.Mutex
	var work sync.WaitGroup
	begin := time.Now()
	ask := func(d *driver, i int) {
		sent := time.Now()
		granted, err := d.take(r.subject(fmt.Sprint(name, " ", i)))
		mu.Lock()
		defer mu.Unlock()
		if granted {
			grants[i] = append(grants[i], soak.Spent{From: sent, To: time.Now(), Permits: 1})
		}
		if err != nil {
			failed++
		}
	}
	for n, d := range drivers {
		work.Go(func() {
			for calls := 0; time.Since(begin) < span; calls++ {
				for i, phase := range phases {
					from := phase + 0.1*float64((i%2)*(n%2))
					if calls == 0 || time.Since(begin) >= time.Duration(from*float64(window)) {
						ask(d, i)
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
