//go:build unix

package soak

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// row is the limiters of one script that are used in one mode, on one site.
type row struct {
	site   *site
	script *script
	mode   *mode
	usage  string // the mode's name, and whether round trips are shared
	client clientKind

	limits *limits
	tight  loader.Limiter // soon used up, and audited by the times of its grants
	ledger loader.Limiter // never used up, and audited by its charges
	honest loader.Limiter // the ledger, past the proxies
	books  []book         // of each place
	drop   chan struct{}  // closed: all slots are released; guarded by the gate
	held   sync.WaitGroup // slots
	late   bool           // returns in the background may not have ended

	met    tally // calls under way while a fault happened to their server, by fault
	judged tally // how often service was judged by time, by fault
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

// everywhere are the places on all servers, in the order of the books.
func (r *row) everywhere() (places []place) {
	for server := range r.site.servers {
		places = append(places, r.places(server)...)
	}
	return places
}

func (r *row) book(p place) *book { return &r.books[p.server*r.mode.keysAServer()+p.key] }

// book is what was answered about the subjects of a row that are on one server.
type book struct {
	mu       sync.Mutex
	subject  string // of the ledger
	opened   time.Time
	granted  Record // by the ledger, since then
	returned Record // to it in the background
	unknown  int64  // permits that may or may not have been charged
	refused  int64  // permits that an All or a Wait did not grant
	spent    Record // of the tight limiter, since its last audit
	uses     Record // of its slots
}

// String is what the row is called in reports.
func (r *row) String() string {
	return fmt.Sprintf("%s on %s (client: %s)", r.kind(), r.site.name, r.client.name)
}

// kind is the row without its site.
func (r *row) kind() string { return r.script.name + ", " + r.usage }

// newRows makes all rows of a site, with a client for each mode, shared and not. The kinds of the clients take turns,
// beginning with one that the seed decides.
func newRows(a *attack, s *site, turn int) (rows []*row) {
	for _, m := range a.modes {
		for _, sharing := range []string{"", ", shared"} {
			kind := clientKinds[turn%len(clientKinds)]
			if m.kind > 0 {
				kind = clientKinds[m.kind-1]
			}
			turn++
			var made []*row
			for _, limiter := range m.scripts {
				made = append(made, &row{site: s, script: limiter, mode: m, usage: m.name + sharing, client: kind})
			}
			equip(a, s.client(a.t, kind), sharing != "", made)
			rows = append(rows, made...)
		}
		turn++
	}
	return rows
}

// equip makes the limiters of rows that share a client.
func equip(a *attack, rdb redis.UniversalClient, shared bool, rows []*row) {
	all, m := hooks{a, rows}, rows[0].mode
	rdb.AddHook(all)
	options := slices.Clone(m.options)
	if !shared {
		options = append(options, loader.WithoutSharing())
	}
	if m.observed {
		options = append(options, loader.Observe(all), loader.Logger(slog.New(all)))
	}
	limits := loader.New(rdb, options...)
	for _, r := range rows {
		r.limits = limits
		ahead, tight := append(slices.Clone(m.limiter), loader.MaxWait(maxWait)), a.tight
		if r.script.slots {
			tight = a.leases
		}
		r.tight = r.script.make(limits, r.limiterName("tight"), tight, ahead...)
		r.ledger = r.script.make(limits, r.limiterName("ledger"), r.script.ledger, m.limiter...)
		r.honest = r.script.make(r.site.honest, r.limiterName("ledger"), r.script.ledger)
		r.books = make([]book, len(r.everywhere()))
	}
}

// maxWait is how far ahead a tight limiter is booked.
const maxWait = 300 * time.Millisecond

// limiterName is a name that no other row uses.
func (r *row) limiterName(what string) string {
	words := strings.FieldsFunc(what+" "+r.kind(), func(c rune) bool { return c == ' ' || c == ',' })
	return strings.Join(words, ".")
}

// Which of a server's subjects are for what. Ledgers get others for every fault.
func (r *row) tightSubject(p place) string { return r.site.subjects[p.server][p.key] }

// farAhead is how many generations of ledgers later the subjects are audited about which a check asks.
const farAhead = 20

func (r *row) ledgerSubject(p place, generation int) string {
	return r.site.subjects[p.server][manyKeys+(generation*manyKeys+p.key)%(subjectsAServer-manyKeys)]
}

// settle has all slots released, and what an All or a Wait gives back in the background given back. It does not wait
// for long: a reply that never comes would take half a minute.
func (r *row) settle() {
	close(r.drop)
	r.held.Wait()
	if r.mode.returns() {
		ctx, cancel := context.WithTimeout(context.Background(), flushFor)
		defer cancel()
		r.late = r.limits.Flush(ctx) != nil
	}
}

// noteReturn changes the permits of unknown outcome of the ledger that has this subject.
func (r *row) noteReturn(subject string, permits int64) {
	for i := range r.books {
		b := &r.books[i]
		b.mu.Lock()
		if b.subject == subject {
			b.unknown += permits
			b.returned.Add(Spent{time.Now(), time.Now(), max(0, -permits)})
		}
		b.mu.Unlock()
	}
}

// openLedgers begins a generation of ledgers: each but those of slots is charged for one permit, past the proxies.
func (r *row) openLedgers(a *attack, generation int) {
	r.drop = make(chan struct{})
	ctx := context.Background()
	for i, p := range r.everywhere() {
		b := &r.books[i]
		b.mu.Lock()
		b.subject, b.unknown, b.refused = r.ledgerSubject(p, generation), 0, 0
		b.granted.Drop(always)
		b.returned.Drop(always)
		b.mu.Unlock()
		err, first := r.honest.Reset(ctx, b.subject), loader.Decision{Granted: true}
		if err == nil && !r.script.slots {
			first, err = r.honest.AllowN(ctx, b.subject, 1)
			b.opened = first.Now
			b.granted.Add(Spent{first.Now, first.Now, 1})
		}
		if err != nil || !first.Granted {
			a.failed("charges", r, fmt.Sprintf("a new ledger: %+v, %v", first, err))
		}
	}
}

// closeLedgers ends a generation while no caller asks: each ledger has charged what was granted and, at most, what is
// unknown.
func (r *row) closeLedgers(a *attack) {
	for i := range r.books {
		b := &r.books[i]
		now, err := r.honest.Peek(context.Background(), b.subject)
		b.mu.Lock()
		if r.late {
			b.unknown += b.refused
		}
		granted := b.granted.Drop(always)
		wrong := wrongCharge(r.script.charged(b.opened, now), granted, b.unknown)
		if err != nil {
			wrong = err.Error()
		}
		if wrong != "" {
			a.failed("charges", r, wrong)
		}
		a.counts.add("permits audited by charges", granted)
		a.counts.add("permits of unknown outcome", b.unknown)
		b.mu.Unlock()
	}
}

// wrongCharge says what is wrong with what a ledger was charged.
func wrongCharge(charged, granted, unknown int64) string {
	if charged < granted {
		return fmt.Sprintf("%d permits were granted and %d charged", granted, charged)
	}
	if charged > granted+unknown {
		return fmt.Sprintf("%d permits were charged, %d granted, and %d may have been", charged, granted, unknown)
	}
	return ""
}

// auditTight judges the grants of a row's tight limiters, and keeps those that the next audit needs.
func (r *row) auditTight(a *attack) {
	for i := range r.books {
		b := &r.books[i]
		uses, spent := b.uses.Spent(), b.spent.Spent()
		if held := MostAtOnce(uses); held > int(a.leases.Permits) {
			a.failed("slots", r, fmt.Sprintf("%d of %d slots were held at once", held, a.leases.Permits))
		}
		if extra := r.script.extra(spent, a.tight); extra > 0 {
			a.failed("limit", r, fmt.Sprintf("%d permits beyond %d in %v", extra, a.tight.Permits, a.tight.Window))
		}
		a.counts.add("slots used", int64(len(uses)))
		a.counts.add("grants audited by their times", int64(len(spent)))
		b.uses.Drop(always) // all are released
		before := time.Now().Add(-a.tight.Window - longestCall)
		b.spent.Drop(func(s Spent) bool { return s.To.Before(before) })
	}
}

// longestCall is for how much longer than a window grants are kept for the next audit.
const longestCall = 4 * time.Second

func always(Spent) bool { return true }
