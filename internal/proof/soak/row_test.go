//go:build unix

package soak

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// row is the limiters of one script that are used in one mode, on one site.
type row struct {
	site   *site
	script *script
	mode   *mode
	shared bool
	client clientKind

	limits *limits
	tight  loader.Limiter
	ledger loader.Limiter
	spare  loader.Limiter

	honest loader.Limiter // the ledger, past the proxies
	books  []book         // of each place
	drop   chan struct{}  // closed: all slots are released; guarded by the gate
	held   sync.WaitGroup // slots
	late   bool           // returns in the background may not have ended

	met    []atomic.Int64 // calls under way while a fault happened to their server, by fault
	judged []atomic.Int64 // how often service was judged by time, by fault
}

// place is one of the subjects of a server that a row asks about.
type place struct{ server, key int }

// places are those on a server.
func (r *row) places(server int) (places []place) {
	for key := range r.mode.keysAServer() {
		places = append(places, place{server, key})
	}
	return places
}

// everywhere are the places on all servers.
func (r *row) everywhere() (places []place) {
	for server := range r.site.servers {
		places = append(places, r.places(server)...)
	}
	return places
}

func (r *row) book(p place) *book { return &r.books[p.server*r.mode.keysAServer()+p.key] }

// book is what was answered about the subjects of a row that are on one server.
type book struct {
	mu      sync.Mutex
	first   loader.Decision // of the ledger
	granted int64           // by the ledger, since then
	unknown int64           // permits that may or may not have been charged
	spent   Record          // of the tight limiter, since its last audit
	uses    Record          // of its slots
	returns *atomic.Int64   // permits whose return in the background has begun, and may fail
	refused int64           // permits that an All or a Wait did not grant
}

// String is what the row is called in reports.
func (r *row) String() string {
	return fmt.Sprintf("%s on %s (client: %s)", r.kind(), r.site.name, r.client.name)
}

// kind is the row without its site.
func (r *row) kind() string { return r.script.name + ", " + r.usage() }

// usage is the mode of the row, and whether round trips are shared.
func (r *row) usage() string {
	if r.shared {
		return r.mode.name + ", shared"
	}
	return r.mode.name
}

// newRows makes all rows of a site, with a client for each mode, shared and not. The kinds of the clients take turns,
// beginning with one that the seed decides.
func newRows(t *testing.T, a *attack, s *site, turn int) (rows []*row) {
	t.Helper()
	for _, m := range modes {
		for _, shared := range []bool{false, true} {
			kind := clientKinds[turn%len(clientKinds)]
			if m.kind != anyKind {
				kind = clientKinds[m.kind]
			}
			turn++
			var made []*row
			for _, of := range m.scripts {
				made = append(made, &row{site: s, script: of, mode: m, shared: shared, client: kind})
			}
			equip(t, a, s.client(kind), made)
			rows = append(rows, made...)
		}
		turn++
	}
	return rows
}

// equip makes the limiters of rows that share a client.
func equip(t *testing.T, a *attack, rdb redis.UniversalClient, rows []*row) {
	t.Helper()
	a.closing(func() error { return rdb.Close() })
	rdb.AddHook(panickingHook{a})
	options := append([]loader.Option{}, rows[0].mode.options...)
	if !rows[0].shared {
		options = append(options, loader.WithoutSharing())
	}
	if rows[0].mode.observed {
		options = append(options, loader.Observe(panickingObserver{a}), loader.Logger(slog.New(panickingHandler{a})))
	}
	limits := loader.New(rdb, options...)
	for _, r := range rows {
		r.limits = limits
		r.tight = r.limiter(limits, "tight", r.script.tightLimit())
		r.ledger = r.limiter(limits, "ledger", r.script.ledger)
		r.spare = r.limiter(limits, "spare", spareLimit)
		r.honest = r.script.make(r.site.honest, r.limiterName("ledger"), r.script.ledger)
		r.books = make([]book, len(r.everywhere()))
		r.met, r.judged = make([]atomic.Int64, len(faults)), make([]atomic.Int64, len(faults))
	}
}

// limiter makes one limiter of a row.
func (r *row) limiter(l *limits, what string, limit loader.Limit) loader.Limiter {
	options := append([]loader.LimiterOption{}, r.mode.limiter...)
	if what == "tight" {
		options = append(options, loader.MaxWait(maxWait))
	}
	return r.script.make(l, r.limiterName(what), limit, options...)
}

// maxWait is how far ahead a tight limiter is booked.
const maxWait = 300 * time.Millisecond

// limiterName is a name that no other row uses.
func (r *row) limiterName(what string) string {
	words := strings.FieldsFunc(what+" "+r.kind(), func(c rune) bool { return c == ' ' || c == ',' })
	return strings.Join(words, ".")
}

// Which of a server's subjects are for what. Ledgers and spare limiters get others for every fault.
func (r *row) tightSubject(p place) string { return r.site.subjects[p.server][p.key] }

func (r *row) ledgerSubject(p place, generation int) string {
	return r.site.subjects[p.server][manyKeys+(generation*manyKeys+p.key)%(subjectsAServer-manyKeys)]
}

// openLedgers begins a generation of ledgers: each is charged for one permit, past the proxies.
func openLedgers(t *testing.T, rows []*row, generation int) {
	t.Helper()
	onLedgers(t, rows, generation, func(b *loader.Batch, r *row, subject string) *loader.Result {
		must(t, r.honest.Reset(context.Background(), subject))
		return b.Allow(unwrapped(r.honest), subject)
	}, func(r *row, p place, d loader.Decision) {
		if !d.Granted && !r.script.slots {
			t.Fatalf("%v: a new ledger denies: %+v", r, d)
		}
		b := r.book(p)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.first, b.granted, b.unknown, b.refused, b.returns = d, 0, 0, 0, &atomic.Int64{}
	})
	for _, r := range rows {
		r.drop = make(chan struct{})
	}
}

// closeLedgers ends a generation while no caller asks: each ledger has charged what was granted and, at most, what is
// unknown.
func closeLedgers(t *testing.T, a *attack, rows []*row, generation int) {
	t.Helper()
	onLedgers(t, rows, generation, func(b *loader.Batch, r *row, subject string) *loader.Result {
		return b.Peek(unwrapped(r.honest), subject)
	}, func(r *row, p place, now loader.Decision) {
		b := r.book(p)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unknown += b.returns.Load()
		if r.late {
			b.unknown += b.refused
		}
		charged := r.script.charged(b.first, now)
		if wrong := r.wrongCharge(charged, b.granted, b.unknown); wrong != "" {
			a.failed("charges", r, wrong)
		}
		a.audited.Add(b.granted)
		a.unknown.Add(b.unknown)
	})
}

// wrongCharge says what is wrong with what a ledger was charged.
func (r *row) wrongCharge(charged, granted, unknown int64) string {
	if charged < granted {
		return fmt.Sprintf("%d permits were granted and %d charged", granted, charged)
	}
	if charged > granted+unknown {
		return fmt.Sprintf("%d permits were charged, %d granted, and %d may have been", charged, granted, unknown)
	}
	return ""
}

// onLedgers asks something about the ledgers of all servers in one batch, past the proxies. The rows are of one site.
// Slots are not asked about in a batch: they are looked at.
func onLedgers(
	t *testing.T, rows []*row, generation int,
	ask func(*loader.Batch, *row, string) *loader.Result, told func(*row, place, loader.Decision),
) {
	t.Helper()
	batch := rows[0].site.honest.Batch()
	onEach := func(do func(*row, place)) {
		for _, r := range rows {
			for _, p := range r.everywhere() {
				do(r, p)
			}
		}
	}
	onEach(func(r *row, p place) {
		if !r.script.slots {
			ask(batch, r, r.ledgerSubject(p, generation))
		}
	})
	results, err := batch.Do(context.Background())
	must(t, err)
	onEach(func(r *row, p place) {
		if r.script.slots {
			told(r, p, lookAt(t, r.honest, r.ledgerSubject(p, generation)))
			return
		}
		told(r, p, results[0].Decision)
		results = results[1:]
	})
}

func lookAt(t *testing.T, limiter loader.Limiter, subject string) loader.Decision {
	t.Helper()
	d, err := limiter.Peek(context.Background(), subject)
	must(t, err)
	return d
}

// auditTight judges the grants of a row's tight limiters, and keeps those that the next audit needs.
func (r *row) auditTight(a *attack) {
	for i := range r.books {
		b := &r.books[i]
		uses, spent := b.uses.Spent(), b.spent.Spent()
		if _, held := MostAtOnce(uses); held > slotLimit {
			a.failed("slots", r, fmt.Sprintf("%d of %d slots were held at once", held, slotLimit))
		}
		if extra := r.script.extra(spent, tightLimit); extra > 0 {
			a.failed("limit", r, fmt.Sprintf("%d permits beyond %d in %v", extra, tightLimit.Permits, tightLimit.Window))
		}
		a.used.Add(int64(len(uses)))
		a.timed.Add(int64(len(spent)))
		b.uses.Forget(time.Now()) // all are released
		b.spent.Forget(time.Now().Add(-auditOverlap))
	}
}

// auditOverlap is how long grants are kept for the next audit: longer than a call and its window together.
const auditOverlap = 5 * time.Second
