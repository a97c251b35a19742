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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/redistest"
)

const (
	foreignProcesses = 8 // that audit a limiter
	foreignAhead     = 2 * time.Second
	lostWaits        = 30 * time.Second // a call whose reply is lost may be repeated for so long
)

// foreignCosts measures every limiter once a round.
func (b *bench) foreignCosts(ctx context.Context, runs []*foreignRun) error {
	for _, run := range runs {
		if err := run.observe(ctx, b.server); err != nil {
			return fmt.Errorf("%s, %s: %w", run.language, run.name, err)
		}
	}
	for round := range b.rounds {
		b.progress("languages: round %d of %d", round+1, b.rounds)
		for i := range runs {
			run := runs[(i+round)%len(runs)]
			if err := run.round(ctx, b, round); err != nil {
				return fmt.Errorf("%s, %s: %w", run.language, run.name, err)
			}
		}
	}
	for _, run := range runs {
		granted, denied := costOf(run.granted), costOf(run.denied)
		run.row.Granted.Commands, run.row.Granted.CPU = granted.Commands, granted.CPU
		run.row.Denied.Commands, run.row.Denied.CPU = denied.Commands, denied.CPU
	}
	return nil
}

// subject is one that no other limiter has: some use it as their key.
func (r *foreignRun) subject(parts ...any) string {
	return strings.TrimSpace(fmt.Sprintln(append([]any{r.language, r.name}, parts...)...))
}

// takes asks so often; every answer must be the one that is wanted.
func takes(d *driver, subject string, times int, want bool) error {
	for i := range times {
		granted, err := d.take(subject)
		if err != nil {
			return err
		}
		if granted != want {
			return fmt.Errorf("call %d: granted %t, want %t", i+1, granted, want)
		}
	}
	return nil
}

// observe learns which commands the client sends for a grant and for a denial.
func (r *foreignRun) observe(ctx context.Context, on *server) error {
	seen := map[string]observed{}
	watch := func(d *driver, subject string, want bool, to *Decision) error {
		lines, err := on.monitor(ctx, func() error { return takes(d, subject, 10, want) })
		for name, n := range tally(lines) {
			seen[name] = observed{seen[name].sent + n.sent, seen[name].nested + n.nested}
		}
		for _, line := range lines {
			if _, script := monitored(line); !script {
				to.Sent += 0.1
			}
		}
		return err
	}
	if err := takes(r.granting, r.subject("seen granted"), 5, true); err != nil { // which loads scripts
		return err
	}
	if err := watch(r.granting, r.subject("seen granted"), true, &r.row.Granted); err != nil {
		return err
	}
	if err := takes(r.denying, r.subject("seen denied"), fullLimit, true); err != nil {
		return err
	}
	err := watch(r.denying, r.subject("seen denied"), false, &r.row.Denied)
	for name, n := range seen {
		r.shares[name] = float64(n.sent) / float64(n.sent+n.nested)
	}
	return err
}

func (r *foreignRun) round(ctx context.Context, b *bench, round int) error {
	full := r.subject("denied", round)
	if err := takes(r.denying, full, fullLimit, true); err != nil {
		return err
	}
	grant, err := r.cost(ctx, b, r.granting, r.subject("granted", round), true)
	if err != nil {
		return err
	}
	denial, err := r.cost(ctx, b, r.denying, full, false)
	r.granted, r.denied = append(r.granted, grant), append(r.denied, denial)
	return err
}

// cost is that of one decision, in microseconds.
func (r *foreignRun) cost(ctx context.Context, b *bench, d *driver, subject string, want bool) (sample, error) {
	calls := 2 * b.calls
	if err := b.server.ConfigResetStat(ctx).Err(); err != nil {
		return sample{}, err
	}
	before, err := b.server.cpu(ctx)
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	if err := takes(d, subject, calls, want); err != nil {
		return sample{}, err
	}
	took := time.Since(begin)
	after, err := b.server.cpu(ctx)
	if err != nil {
		return sample{}, err
	}
	stats, err := b.server.commandStats(ctx)
	var usec float64
	for name, share := range r.shares {
		usec += stats[name].usec * share
	}
	n := float64(calls)
	return sample{usec / n, (after - before) / n, took.Seconds() * 1e6 / n}, err
}

// foreignStates weighs every limiter, and loses a reply of each.
func (b *bench) foreignStates(ctx context.Context, runs []*foreignRun) error {
	for _, run := range runs {
		b.progress("languages: memory, a lost reply: %s, %s", run.language, run.name)
		err := run.weigh(ctx, b.server)
		if err == nil && !run.standIn {
			run.row.Lost, err = run.loseReply(ctx, b.server)
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", run.language, run.name, err)
		}
		run.row.Lost.Unshown = run.standIn
	}
	return nil
}

// weigh adds up the keys that a thousand permits make.
func (r *foreignRun) weigh(ctx context.Context, on *server) error {
	before, err := on.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	if err := takes(r.granting, r.subject("weighed"), peerLimit, true); err != nil {
		return err
	}
	after, err := on.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	made := slices.DeleteFunc(after, func(key string) bool { return slices.Contains(before, key) })
	r.row.Bytes, err = on.memory(ctx, made)
	return err
}

// A stand is what redistest's proxy asks of a test.
type stand struct {
	testing.TB
	ends []func()
}

func (s *stand) Helper()          {}
func (s *stand) Cleanup(f func()) { s.ends = append(s.ends, f) }
func (s *stand) Fatal(args ...any) {
	panic(fmt.Sprintln(args...))
}

// loseReply loses the reply that says that one permit is charged, and only that. What the limiter grants afterwards
// shows how many permits were charged.
func (r *foreignRun) loseReply(ctx context.Context, on *server) (Lost, error) {
	s := new(stand)
	defer func() {
		for _, end := range s.ends {
			end()
		}
	}()
	proxy := redistest.StartProxy(s, on.process.Addr)
	d, err := r.start(proxy.Addr, fullLimit, peerWindow)
	if err != nil {
		return Lost{}, err
	}
	defer d.stop()
	subject, cut := r.subject("lost"), 0
	if err := takes(d, subject, 2, true); err != nil {
		return Lost{}, err
	}
	if r.readsFirst { // the reply of GET passes, and a byte of the next one
		length := int(on.StrLen(ctx, subject).Val())
		cut = len(fmt.Sprintf("$%d\r\n\r\n", length)) + length + 1
	}
	ended := func() int64 { counts := proxy.Counts(); return counts.Accepted - counts.Open }
	before := ended()
	proxy.CutReplies(cut)
	answers := make(chan string, 1)
	go func() { answers <- answerOf(d.take(subject)) }()
	for deadline := time.Now().Add(lostWaits); ended() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return Lost{}, errors.New("no connection was cut")
		}
	}
	proxy.Pass()
	select {
	case answer := <-answers:
		left, err := r.left(subject)
		return Lost{Answer: answer, Charged: fullLimit - 2 - left}, err
	case <-time.After(lostWaits):
		return Lost{}, errors.New("no answer")
	}
}

func answerOf(granted bool, err error) string {
	switch {
	case err != nil:
		return "error"
	case granted:
		return "granted"
	}
	return "denied"
}

// left takes all permits that are left of a full limit, by another process.
func (r *foreignRun) left(subject string) (int, error) {
	for n := range fullLimit + 1 {
		if granted, err := r.denying.take(subject); err != nil || !granted {
			return n, err
		}
	}
	return 0, fmt.Errorf("more than %d permits left", fullLimit)
}

// foreignAudits saturates every limiter from processes of its own, while their clocks agree and when half are ahead.
func (b *bench) foreignAudits(runs []*foreignRun) error {
	dir, err := os.MkdirTemp("", "sluice-clocks-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shim := filepath.Join(dir, "clock.so")
	source := filepath.Join("..", "internal", "redistest", "shim", "clock.c")
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", shim, source).CombinedOutput(); err != nil {
		return fmt.Errorf("the clients' clocks need Linux and a C compiler, cc: %w\n%s", err, out)
	}
	for _, run := range runs {
		b.progress("languages: audit: %s, %s", run.language, run.name)
		if err := run.audit(b, shim); err != nil {
			return fmt.Errorf("%s, %s: %w", run.language, run.name, err)
		}
	}
	return nil
}

func (r *foreignRun) audit(b *bench, shim string) error {
	page := filepath.Join(filepath.Dir(shim), "page")
	if err := setAhead(page, 0); err != nil {
		return err
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
			return err
		}
		drivers = append(drivers, d)
	}
	for _, ahead := range []time.Duration{0, foreignAhead} {
		if err := errors.Join(setAhead(page, ahead), checkAhead(drivers, ahead)); err != nil {
			return err
		}
		r.row.Audits = append(r.row.Audits, r.saturate(drivers, b.audited, ahead))
	}
	return nil
}

// setAhead writes the page that internal/redistest/shim/clock.c maps: how many microseconds the clock is ahead, first.
func setAhead(page string, ahead time.Duration) error {
	text := make([]byte, 24)
	binary.NativeEndian.PutUint64(text, uint64(ahead.Microseconds()))
	file, err := os.OpenFile(page, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// checkAhead asks the programs whether half of their clocks are ahead.
func checkAhead(drivers []*driver, want time.Duration) error {
	for i, d := range drivers {
		got, err := d.ahead()
		if err != nil {
			return err
		}
		if off := got - want*time.Duration(i%2); off.Abs() > foreignAhead/4 {
			return fmt.Errorf("the clock of process %d is %s ahead", i+1, got)
		}
	}
	return nil
}

// saturate has all programs ask for a subject a phase, for three windows: once at the beginning, and from the phase on
// as fast as they can. A grant happened, by the clock of this program, between the line that asked and its answer.
func (r *foreignRun) saturate(drivers []*driver, window, ahead time.Duration) Audit {
	grants := make([][]grant, len(phases))
	audit := Audit{Window: window, Limit: fullLimit}
	var mu sync.Mutex
	var work sync.WaitGroup
	begin := time.Now()
	for _, d := range drivers {
		work.Go(func() {
			for calls := 0; time.Since(begin) < 3*window; calls++ {
				for i, phase := range phases {
					sent := time.Now()
					if calls > 0 && sent.Sub(begin) < time.Duration(phase*float64(window)) {
						continue
					}
					granted, err := d.take(r.subject("audit", ahead, phase))
					mu.Lock()
					if granted {
						grants[i] = append(grants[i], grant{sent, time.Now()})
					}
					if err != nil {
						audit.Failed++
					}
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	for _, phase := range grants {
		audit.Most = max(audit.Most, maxWithin(phase, window))
	}
	return audit
}

// fillForeign fills every limiter but for a few permits, and takes one of these so late that it is live when the others
// have expired. It returns when that will be.
func (b *bench) fillForeign(runs []*foreignRun) (time.Time, error) {
	for _, run := range runs {
		begin := time.Now()
		if err := run.aging.fill(run.subject("aging"), b.expired); err != nil {
			return begin, fmt.Errorf("%s, %s: %w", run.language, run.name, err)
		}
		b.progress("languages: filled %s, %s", run.language, run.name)
	}
	expired := time.Now().Add(b.expiry)
	time.Sleep(b.expiry / 10)
	for _, run := range runs {
		if err := takes(run.aging, run.subject("aging"), 1, true); err != nil {
			return expired, fmt.Errorf("%s, %s: %w", run.language, run.name, err)
		}
	}
	return expired, nil
}

// foreignWorst takes permits when all but one have expired: the slowest command of these decisions.
func (b *bench) foreignWorst(ctx context.Context, runs []*foreignRun, expired time.Time) error {
	b.progress("languages: the permits expire in %s", time.Until(expired).Round(time.Second))
	time.Sleep(time.Until(expired) + time.Second)
	for _, run := range runs {
		for range 3 {
			if err := b.server.ConfigResetStat(ctx).Err(); err != nil {
				return err
			}
			if err := takes(run.aging, run.subject("aging"), 1, true); err != nil {
				return fmt.Errorf("%s, %s: %w", run.language, run.name, err)
			}
			stats, err := b.server.commandStats(ctx)
			if err != nil {
				return err
			}
			for _, command := range stats {
				run.row.Worst = max(run.row.Worst, command.usec)
			}
		}
	}
	if late := time.Since(expired); late > b.expiry/10 {
		return fmt.Errorf("the slowest calls came %s too late: the last permits had expired too", late)
	}
	return nil
}
