package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sluice-redis/sluice/internal/faultproxy"
)

const (
	foreignProcesses = 8 // that audit a limiter
	foreignAhead     = 2 * time.Second
	lostWaits        = 30 * time.Second // a call whose reply is lost may be repeated for so long
)

// loseReply loses the reply that says that one permit is charged, and only that. What the limiter grants afterwards
// shows how many permits were charged.
func (r *foreignRun) loseReply(ctx context.Context, on *server) (string, error) {
	proxy, err := faultproxy.Start(on.process.Addr, func(error) {}) // this one never refuses connections
	if err != nil {
		return "", err
	}
	defer proxy.Close()
	d, err := r.start(proxy.Addr, fullLimit, peerWindow)
	if err != nil {
		return "", err
	}
	defer d.stop()
	subject, cut := r.subject("lost"), 0
	for range 2 {
		if granted, err := d.take(subject); err != nil || !granted {
			return "", fmt.Errorf("granted %t: %w", granted, err)
		}
	}
	if r.readsFirst { // the reply of GET passes, and a byte of the next one
		length := int(on.StrLen(ctx, subject).Val())
		cut = len(fmt.Sprintf("$%d\r\n\r\n", length)) + length + 1
	}
	ended := func() int64 { counts := proxy.Counts(); return counts.Accepted - counts.Open }
	before, answers := ended(), make(chan string, 1)
	proxy.CutReplies(cut)
	go func() {
		answer := "denied"
		if granted, err := d.take(subject); err != nil {
			answer = "error"
		} else if granted {
			answer = "granted"
		}
		answers <- answer
	}()
	for deadline := time.Now().Add(lostWaits); ended() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return "", errors.New("no connection was cut")
		}
	}
	proxy.Pass()
	select {
	case answer := <-answers:
		charged, err := r.charged(ctx, on)
		return lostText(answer, charged), err
	case <-time.After(lostWaits):
		return "", errors.New("no answer")
	}
}

// charged is how many permits the call was charged whose reply was lost: the others are still there.
func (r *foreignRun) charged(ctx context.Context, on *server) (int, error) {
	decide, err := r.ask(on, fullLimit, peerWindow)
	charged := fullLimit - 2
	for granted := true; granted && err == nil && charged >= 0; {
		if granted, err = decide(ctx, "lost"); granted {
			charged--
		}
	}
	return charged, err
}

// lostText is what the caller got, and what it was charged.
func lostText(answer string, charged int) string {
	if charged > 1 {
		return fmt.Sprintf("%s, **%d charged**", answer, charged)
	}
	return fmt.Sprintf("%s, %d charged", answer, charged)
}

// clocks are a library that puts the clock of a process ahead, by as many microseconds as its page says first:
// internal/proof/redistest/shim/clock.c.
type clocks struct{ folder, shim, page string }

func newClocks() (clocks, error) {
	folder, err := os.MkdirTemp("", "sluice-clocks-")
	if err != nil {
		return clocks{}, err
	}
	c := clocks{folder, filepath.Join(folder, "clock.so"), filepath.Join(folder, "page")}
	source := filepath.Join("..", "internal", "proof", "redistest", "shim", "clock.c")
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", c.shim, source).CombinedOutput(); err != nil {
		c.remove()
		return c, fmt.Errorf("clocks that are ahead need Linux and a C compiler, cc: %w\n%s", err, out)
	}
	return c, nil
}

func (c clocks) remove() { _ = os.RemoveAll(c.folder) }

// auditApart saturates the limiter from processes of its own. The clocks of half of them are ahead.
func (r *foreignRun) auditApart(ctx context.Context, b *bench, c clocks, ahead time.Duration) error {
	text := binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds()))
	if err := os.WriteFile(c.page, append(text, make([]byte, 16)...), 0o600); err != nil {
		return err
	}
	var callers []decider
	for i := range foreignProcesses {
		var clock []string
		if i%2 == 1 {
			clock = []string{"LD_PRELOAD=" + c.shim, "SLUICE_CLOCK=" + c.page}
		}
		d, err := r.start(b.server.process.Addr, fullLimit, b.audited, clock...)
		if err != nil {
			return err
		}
		defer d.stop()
		callers = append(callers, r.asking(d))
		got, err := d.ahead()
		if off := got - ahead*time.Duration(i%2); err != nil || off.Abs() > foreignAhead/4 {
			return fmt.Errorf("the clock of process %d is %s ahead: %w", i+1, got, err)
		}
	}
	saturate(ctx, callers, b.audited, b.audited, "warm")
	audit := saturate(ctx, callers, b.audited, 3*b.audited, fmt.Sprint("audit ", ahead))
	r.row.Audits = append(r.row.Audits, audit)
	return nil
}
