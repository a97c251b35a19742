package loader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

var update = flag.Bool("update", false, "write scripts/calls.json")

const callsFile = "../scripts/calls.json"

const callsNote = "What this project's clients send: a limiter with its options, a call, and the script, KEYS and " +
	"ARGV that they make of it. All times are in microseconds. Options that are not there have their default. size, of " +
	"a ring, are the slices of each window, in the order of limits. <id> in args is an id that the client makes itself. " +
	"A limiter with refused, the name of an argument, must be refused and sends nothing."

// callVector is one line of calls.json.
type callVector struct {
	Limiter      string      `json:"limiter"` // the script's name
	Name         string      `json:"name"`
	Limits       []callLimit `json:"limits,omitempty"`
	Slots        int64       `json:"slots,omitempty"`
	TTL          int64       `json:"ttl,omitempty"`
	Slice        int64       `json:"slice,omitempty"`
	SettleWithin int64       `json:"settle_within,omitempty"`
	MaxWait      int64       `json:"max_wait,omitempty"`
	ClientID     string      `json:"client_id,omitempty"`
	PerClient    bool        `json:"per_client,omitempty"`
	Begin        int64       `json:"begin,omitempty"` // of a quota's own period, which lasts until End
	End          int64       `json:"end,omitempty"`
	Call         string      `json:"call"`
	Subject      string      `json:"subject"`
	Permits      int64       `json:"permits,omitempty"`
	ID           string      `json:"id,omitempty"`

	Script  string   `json:"script,omitempty"`
	Keys    []string `json:"keys,omitempty"`
	Args    []string `json:"args,omitempty"`
	Ring    *ring    `json:"ring,omitempty"`
	Refused string   `json:"refused,omitempty"`
}

type callLimit struct {
	Permits int64 `json:"permits"`
	Window  int64 `json:"window"`
	Burst   int64 `json:"burst,omitempty"`
}

type ring struct {
	Slice []int64 `json:"slice"`
	Size  []int64 `json:"size"`
}

// TestCallVectors holds scripts/calls.json against what the loader sends.
func TestCallVectors(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("{\n  \"note\": " + asJSON(t, callsNote) + ",\n  \"vectors\": [\n")
	for i, v := range callVectors() {
		if i > 0 {
			text.WriteString(",\n")
		}
		v.send(t)
		text.WriteString("    " + asJSON(t, v))
	}
	text.WriteString("\n  ]\n}\n")
	if *update {
		must(t, os.WriteFile(callsFile, text.Bytes(), 0o644))
	}
	if got, err := os.ReadFile(callsFile); err != nil || !bytes.Equal(got, text.Bytes()) {
		t.Errorf("%s is not what the loader sends (%v)\n"+
			"cure: go test ./loader -run TestCallVectors -update && go generate ./...", callsFile, err)
	}
}

// asJSON is one line of JSON, with < and > as they are.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	must(t, encoder.Encode(value))
	return strings.TrimSpace(line.String())
}

func callVectors() (vectors []callVector) {
	minute, hour := callLimit{Permits: 1000, Window: toUS(time.Minute)}, callLimit{Permits: 10000, Window: toUS(time.Hour)}
	three := []callLimit{{Permits: 3, Window: toUS(time.Minute)}}
	for _, limiter := range []string{"list_log", "zset_log", "gcra", "token_bucket", "slice_ring"} {
		v := callVector{Limiter: limiter, Name: "api", Limits: three, Call: "allow", Subject: "ada@example.com", Permits: 1}
		if limiter == "zset_log" {
			v.ID = "req-81"
		}
		if limiter == "token_bucket" {
			v.ClientID = "web-1"
		}
		look := v
		look.Call, look.Permits, look.ID = "peek", 0, ""
		if limiter != "zset_log" { // its id is the client's own, and of no account
			vectors = append(vectors, look)
		}
		vectors = append(vectors, v)
		if limiter == "slice_ring" {
			continue
		}
		booked := v
		booked.Call, booked.Permits = "reserve", 2
		vectors = append(vectors, booked)
		booked.MaxWait = toUS(1500 * time.Millisecond)
		vectors = append(vectors, booked)
	}
	allow := func(v callVector) {
		v.Name, v.Call, v.Subject, v.Permits = "api", "allow", "acme", 1
		vectors = append(vectors, v)
	}
	allow(callVector{Limiter: "gcra", Limits: []callLimit{{Permits: 5, Window: toUS(time.Second), Burst: 10}}})
	allow(callVector{Limiter: "gcra", Limits: []callLimit{{Permits: 5, Window: toUS(time.Second), Burst: 1}}})
	allow(callVector{Limiter: "token_bucket", Limits: []callLimit{minute}, ClientID: "{w}%", PerClient: true})
	vectors = append(vectors, callVector{
		Limiter: "token_bucket", Name: "api", Limits: []callLimit{minute}, ClientID: "web-1", PerClient: true,
		Call: "set_limit", Subject: "acme", Permits: 1,
	})
	for _, windows := range ringWindows() {
		var limits []callLimit
		for i, window := range windows {
			limits = append(limits, callLimit{Permits: int64(10 + i), Window: toUS(window)})
		}
		allow(callVector{Limiter: "slice_ring", Limits: limits})
	}
	sliced := callVector{Limiter: "slice_ring", Limits: []callLimit{minute, hour}}
	for _, slice := range []time.Duration{
		time.Millisecond - time.Microsecond, 3603603 * time.Microsecond, 3603604 * time.Microsecond, 7 * time.Second,
		10 * time.Second, time.Minute, time.Minute + time.Microsecond,
	} {
		sliced.Slice = toUS(slice)
		allow(sliced)
	}
	return append(vectors, otherVectors(minute, hour)...)
}

// otherVectors are those of Quota, Budget and Concurrency.
func otherVectors(minute, hour callLimit) (vectors []callVector) {
	for _, call := range []string{"peek", "allow", "report"} {
		v := callVector{Limiter: "quota", Name: "exports", Limits: []callLimit{{Permits: 1e12}}, Call: call, Subject: "a%b"}
		v.Begin, v.End = 1577836800000001, 4102444800000000 // the years 2020 to 2100, so that any clock is within
		if call != "peek" {
			v.Permits = 7
		}
		vectors = append(vectors, v)
	}
	hours := callLimit{Permits: 5000000, Window: toUS(2 * time.Hour)}
	budget := callVector{Limiter: "budget", Name: "tokens", Subject: "acme", ID: "req:{81}%"}
	for _, limits := range [][]callLimit{{minute}, {minute, hour}, {hours, minute}} {
		for _, slice := range []time.Duration{0, 10 * time.Second} {
			for _, within := range []time.Duration{0, time.Hour} {
				budget.Limits, budget.Slice, budget.SettleWithin = limits, toUS(slice), toUS(within)
				for _, c := range []struct {
					name    string
					permits int64
				}{{"reserve", 100}, {"settle", 75}, {"charge", 0}} {
					v := budget
					v.Call, v.Permits = c.name, c.permits
					vectors = append(vectors, v)
				}
			}
		}
	}
	for _, subject := range []string{"acme", "100% {a}"} {
		vectors = append(vectors, callVector{
			Limiter: "concurrency", Name: "render", Slots: 20, TTL: toUS(30 * time.Second), Call: "try_acquire",
			Subject: subject, Permits: 1,
		})
	}
	return vectors
}

// ringWindows are windows with which every rule of the slices shows.
func ringWindows() [][]time.Duration {
	const second, minute, hour = time.Second, time.Minute, time.Hour
	return [][]time.Duration{
		{minute}, {minute, hour}, {hour, minute}, {second}, {time.Millisecond},
		{2 * time.Millisecond}, {60 * time.Millisecond}, {61 * time.Millisecond}, {minute + time.Microsecond},
		{10 * second, 10000 * second}, {10 * second, 1666 * second}, {10 * second, 1667 * second},
		{minute, day}, {hour, day}, {hour, 366 * day}, {59 * day}, {60 * day}, {61 * day},
		{999 * day}, {999*day + time.Microsecond}, {999 * minute, minute},
		{minute, hour, minute}, {minute, minute - time.Microsecond},
		{minute, 10 * minute, hour, 2 * hour, 6 * hour, 12 * hour, 18 * hour, day},
	}
}

func toUS(d time.Duration) int64 { return d.Microseconds() }

// notSent is the answer to commands that are only read: an error reply, so that the loader does not ask again.
type notSent struct{}

func (notSent) Error() string { return "BADSTATE not sent" }
func (notSent) RedisError()   {}

// send makes the call of a vector, and notes what would be sent.
func (v *callVector) send(t *testing.T) {
	t.Helper()
	rdb := unreachable(t)
	rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, _ func() error) error {
		v.note(t, write(cmds[0]))
		return notSent{}
	}))
	err := v.call(loader.New(rdb))
	if bad, ok := errors.AsType[*loader.ArgumentError](err); ok {
		v.Refused = bad.Argument
	} else if v.Script == "" {
		t.Errorf("%+v: error %v, and nothing was sent", *v, err)
	}
}

// note takes the words of an EVALSHA.
func (v *callVector) note(t *testing.T, words []string) {
	t.Helper()
	if words[0] != "evalsha" {
		t.Fatalf("sent %q", words)
	}
	n, err := strconv.Atoi(words[2])
	must(t, err)
	for _, script := range sluice.All() {
		if script.SHA1 == words[1] {
			v.Script = strings.TrimSuffix(script.File, ".lua")
		}
	}
	v.Keys, v.Args = words[3:3+n], words[3+n:]
	switch v.Script {
	case "slice_ring_v1":
		v.noteRing(t, v.Args[2:])
	case "budget_v1":
		v.noteRing(t, v.Args[2:])
	case "concurrency_v1":
		v.Args[len(v.Args)-1] = "<id>"
	}
}

// noteRing takes the slice and the size of each window.
func (v *callVector) noteRing(t *testing.T, windows []string) {
	v.Ring = &ring{}
	for window := range slices.Chunk(windows, 3) {
		v.Ring.Slice = append(v.Ring.Slice, number(t, window[0]))
		v.Ring.Size = append(v.Ring.Size, number(t, window[1]))
	}
}

func number(t *testing.T, digits string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(digits, 10, 64)
	must(t, err)
	return n
}

func (v *callVector) call(l *loader.Loader) error {
	limits, opts := v.limits(), v.options()
	switch v.Limiter {
	case "list_log":
		return v.ask(l.ListLog(v.Name, limits[0], opts...))
	case "zset_log":
		log := l.ZSetLog(v.Name, limits[0], opts...)
		return v.ask(log.WithID(v.ID))
	case "gcra":
		return v.ask(l.GCRA(v.Name, limits[0], opts...))
	case "token_bucket":
		bucket := l.TokenBucket(v.Name, limits[0], opts...)
		if v.Call == "set_limit" {
			return bucket.SetRate(background, v.Subject, limits[0])
		}
		return v.ask(bucket)
	case "slice_ring":
		return v.ask(l.SliceRing(v.Name, limits, opts...))
	case "budget":
		return v.askBudget(l.Budget(v.Name, limits, opts...))
	case "quota":
		quota := l.Quota(v.Name, limits[0].Permits, loader.Between(time.UnixMicro(v.Begin), time.UnixMicro(v.End)))
		if v.Call == "report" {
			return errOf(quota.Report(background, v.Subject, v.Permits))
		}
		return v.ask(quota)
	}
	_, _, err := l.Concurrency(v.Name, v.Slots, microseconds(v.TTL)).TryAcquire(background, v.Subject)
	return err
}

func (v *callVector) ask(limiter loader.Limiter) error {
	if reserver, ok := limiter.(loader.Reserver); ok && v.Call == "reserve" {
		return errOf(reserver.ReserveN(background, v.Subject, v.Permits))
	}
	if v.Call == "peek" {
		return errOf(limiter.Peek(background, v.Subject))
	}
	return errOf(limiter.AllowN(background, v.Subject, v.Permits))
}

func (v *callVector) askBudget(budget loader.Budget) error {
	switch v.Call {
	case "reserve":
		return errOf(budget.Reserve(background, v.Subject, v.ID, v.Permits))
	case "settle":
		return budget.Settle(background, v.Subject, v.ID, v.Permits)
	}
	return budget.Charge(background, v.Subject, v.ID, v.Permits)
}

func (v *callVector) limits() (limits []loader.Limit) {
	for _, l := range v.Limits {
		limits = append(limits, loader.Limit{Permits: l.Permits, Window: microseconds(l.Window), Burst: l.Burst})
	}
	return limits
}

func (v *callVector) options() (opts []loader.LimiterOption) {
	if v.Slice > 0 {
		opts = append(opts, loader.Slice(microseconds(v.Slice)))
	}
	if v.SettleWithin > 0 {
		opts = append(opts, loader.SettleWithin(microseconds(v.SettleWithin)))
	}
	if v.MaxWait > 0 {
		opts = append(opts, loader.MaxWait(microseconds(v.MaxWait)))
	}
	if v.ClientID != "" {
		opts = append(opts, loader.ClientID(v.ClientID))
	}
	if v.PerClient {
		opts = append(opts, loader.PerClient())
	}
	return opts
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
