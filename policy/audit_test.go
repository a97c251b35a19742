package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/audit"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

const auditFile = `
limits:
  address: {by: request.ip, rates: 8/500ms}
  account: {by: user.key, rates: [5/500ms, 30/10s], when: 'request.path != "/free"'}
  service: {by: '"all"', rates: 1000/1h}
  tried: {by: request.ip, rates: 1/1h, mode: shadow}
`

// ledger is what was granted, by policy and subject, with what is still charged.
type ledger struct {
	mu      sync.Mutex
	grants  map[string][]audit.Grant
	granted int
	refused int
}

func (l *ledger) add(d policy.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !d.Granted {
		l.refused++
		return
	}
	l.granted++
	for _, one := range d.Policies {
		if !one.Shadow {
			at := one.Policy + " " + one.Subject
			l.grants[at] = append(l.grants[at], audit.Grant{At: one.Now, Decided: one.Now, Permits: 1})
		}
	}
}

// On a real server, callers of two Loaders ask three policies at once. No policy lets more through than its rates, and
// what is charged in the end is what was granted: refusals are given back.
func TestServerAllOrNone(t *testing.T) {
	server := redistest.Start(t)
	book := &ledger{grants: map[string][]audit.Grant{}}
	var loaders []*loader.Loader
	var callers sync.WaitGroup
	for range 2 {
		limits := loader.New(client(t, server.Addr), loader.Timeout(30*time.Second))
		policies := load(t, limits, auditFile)
		loaders = append(loaders, limits)
		for range 4 {
			callers.Go(func() { callAtRandom(t, policies, book) })
		}
	}
	callers.Wait()
	for _, limits := range loaders {
		if err := limits.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d granted, %d refused", book.granted, book.refused)
	if !book.enough() {
		t.Errorf("%d granted, %d refused: want 100 of both", book.granted, book.refused)
	}
	book.check(t)
	d, err := policy.Match{Policy: parse(t, auditFile).Policies[2], Rates: []loader.Limit{loader.PerHour(1000)}}.
		Limiter(loaders[0]).Peek(context.Background(), "all")
	if err != nil || d.Remaining != int64(1000-book.granted) {
		t.Errorf("%d of 1000 are left after %d grants: %v", d.Remaining, book.granted, err)
	}
}

// enough reports whether there are many of both.
func (l *ledger) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted >= 100 && l.refused >= 100
}

// callAtRandom calls from few addresses and accounts until there is enough in the book, for 30 s at most.
func callAtRandom(t *testing.T, policies *policy.Policies, book *ledger) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil && !book.enough() {
		a := by("192.0.2."+strconv.Itoa(rand.IntN(3)), fmt.Sprint("user", rand.IntN(5)))
		if rand.IntN(4) == 0 {
			a.Request.Path = "/free"
		}
		d, err := policies.Decide(context.Background(), a)
		if err != nil {
			t.Error(err)
			return
		}
		book.add(d)
	}
}

func (l *ledger) check(t *testing.T) {
	t.Helper()
	for _, p := range parse(t, auditFile).Policies[:2] {
		for at, grants := range l.grants {
			var subject string
			if n, _ := fmt.Sscanf(at, p.Name+" %s", &subject); n == 0 {
				continue
			}
			for _, rate := range p.Rates {
				if extra := audit.ExtraInLog(grants, rate); extra > 0 {
					t.Errorf("%s: %d more than %v", at, extra, rate)
				}
			}
		}
	}
}
