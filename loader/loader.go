// Package loader decides rate limits by the scripts of Sluice, on Redis and what speaks like it.
//
//	limits := loader.New(rdb)
//	codes := limits.ListLog("send-code", loader.Limit{Permits: 3, Window: time.Minute})
//
//	d, err := codes.Allow(ctx, "ada@example.com") // may she have one now?
//	err = codes.Wait(ctx, "ada@example.com")      // books a permit, sleeps once, returns
//
// A limiter is a name, a limit and a script; a subject is whom the limit is for: a user, an address, a
// route. Most callers want Allow; those that would rather be late than refused want Wait. Limiters are
// small values: copy them, keep them in variables or make them on the spot, and use them from any
// number of goroutines. The same name, script and subject mean the same state in every process.
//
// # Which limiter
//
// [Loader.ListLog] is exact: no interval of one window ever holds more than the limit.
// [Loader.ZSetLog] is as exact and takes request ids: a lost reply costs nothing, and permits can be
// given back. [Loader.GCRA] gives a smooth rate with a burst, in a few bytes whatever the limit.
// [Loader.SliceRing] holds several windows at once, and limits in the millions.
// [Loader.TokenBucket] keeps its rate in Redis, where an operator changes it for everyone.
//
// # Errors
//
// An error means that there was no decision; a denial is not an error. Constructors never fail: what is
// wrong with a name, a limit or an option is an [*ArgumentError] of every call, and of Check, which is for the start of
// a program. A call that was sent and got no
// reply is an [*OutcomeUnknownError]: it may have been charged, once. The loader never sends a decision
// twice unless the first one cannot have run or carries an id.
//
// # Contexts
//
// A call returns as soon as its context ends, whatever the client's timeouts and ContextTimeoutEnabled
// are, and after a second at the latest, or what [Timeout] says. For that the round trip runs in a goroutine of the
// loader's; a panic of a hook is raised again in the caller's. Where the client keeps deadlines itself
// (ContextTimeoutEnabled) and the context cannot be cancelled, it needs none.
//
// # Many at once
//
// A [Batch] asks about many subjects of many limiters in one round trip. [ShareRoundTrips] does that for
// goroutines that know nothing of each other; where many ask the same of one hot subject they share even the
// script's run. Neither gives up a promise of the single call.
//
// # A limit for each customer
//
// Every limiter has With, which returns it with another limit and everything else shared:
//
//	d, err := codes.With(limitOf(user)).Allow(ctx, user)
//
// The new limit applies at once to what has been granted before. For one subject in all
// processes, [TokenBucket] has SetLimit.
//
// # Without asking Redis
//
// For few subjects with very many decisions, [SliceRing.Leased] takes permits in blocks and spends them in the process.
// [RememberDenials] answers those who were refused and ask again too early.
//
// # When Redis fails
//
// A limiter fails closed, with an error, unless it is made with [FailOpen] or [FailLocal], whose answers are marked
// Degraded. Every call has a time limit: 1 s, 100 ms where a policy stands ready, or what [Timeout] says. [Breaker]
// keeps calls from a server that does not answer.
//
// Where nobody listens any more, a call takes its whole time to fail: the loader tries four times, and at each go-redis
// dials five times. With one dial each it takes 0.15 s:
//
//	redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1}) // ClusterOptions and RingOptions have it too
//
// After as many failed dials as its pool has places (PoolSize) go-redis dials an address once a second only, so behind
// Sentinels decisions may begin again up to a second after the failover; in a cluster the new master has a pool of its
// own.
//
// # What operators see
//
// [Observe] has every decision told to an [Observer], for metrics and traces; module otel is one for
// OpenTelemetry. [Logger] logs what happens rarely. Without them nothing is measured, kept or logged.
package loader

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Loader makes limiters and runs scripts on one Redis. It is safe for concurrent use. New makes it.
type Loader struct {
	rdb           redis.UniversalClient
	nodes         any // what shows the nodes of rdb: see shown
	prefix        string
	clientID      string
	timeout       time.Duration // 0: the default
	preloadedOnly bool
	readReplicas  bool
	sharing       *sharing  // nil unless ShareRoundTrips
	breakers      *breakers // nil unless Breaker
	observer      Observer  // nil: nobody watches
	journal       *journal  // nil: nothing is logged
	err           error     // what is wrong with the options: the error of every call

	tasks           tasks
	deadlines       deadlines // of calls
	policyDeadlines deadlines // where a policy stands ready
	keepsDeadlines  bool      // of contexts, does the client
	nodesKnown      atomic.Bool
	loads           loads
}

// Option changes what New makes.
type Option func(*Loader)

// New returns a loader on rdb, which is a *redis.Client, a *redis.ClusterClient, a *redis.Ring or
// anything that wraps one of them. It sends nothing: scripts load themselves when they are first
// needed. rdb stays the caller's to close. A nil one is an *ArgumentError of every call.
//
// Give a wrapper such as struct{ redis.UniversalClient } the method Unwrap() redis.UniversalClient, or it hides
// what it wraps. By Unwrap, through several wrappers too, the loader finds the nodes; scripts of a Ring and a
// ClusterClient are loaded on them directly, and everything else goes through the wrapper. Where nodes are
// hidden decisions still work, but Preload and Nodes are errors, a Breaker is one for all nodes, and a missing
// script may take one round trip more, with its source.
func New(rdb redis.UniversalClient, opts ...Option) *Loader {
	l := &Loader{prefix: "sluice", clientID: newID()}
	if nothing(rdb) {
		const want = "a redis.Client, ClusterClient, Ring or what wraps one"
		l.fail(&ArgumentError{Argument: "client", Value: "nil", Want: want})
	} else {
		l.rdb, l.nodes = rdb, shown(rdb)
	}
	for _, opt := range opts {
		opt(l)
	}
	l.tasks.journal = l.journal
	l.keepsDeadlines = keepsDeadlines(l.nodes)
	l.deadlines.timeout = cmp.Or(l.timeout, defaultTimeout)
	l.policyDeadlines.timeout = cmp.Or(l.timeout, policyTimeout)
	return l
}

// nothing reports whether there is no client, or a wrapper around none.
func nothing(rdb redis.UniversalClient) bool {
	v := reflect.ValueOf(rdb)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	w, ok := rdb.(wrapper)
	return ok && nothing(w.Unwrap())
}

// Prefix sets what every key begins with: letters, digits, dot, underscore and dash. The default is
// "sluice". Users with an ACL of ~prefix:* may share a Redis without meeting.
func Prefix(prefix string) Option {
	return func(l *Loader) { l.prefix = prefix }
}

// PreloadedOnly makes a missing script an error that is [ErrNotLoaded], where the loader would otherwise
// load it. It is for those who grant neither SCRIPT nor EVAL, and preload with `sluice load` or Preload.
func PreloadedOnly() Option {
	return func(l *Loader) { l.preloadedOnly = true }
}

// ReadReplicas lets Peek read from replicas: it is sent as EVALSHA_RO, which needs Redis 7 and which
// a ClusterClient with ReadOnly, RouteByLatency or RouteRandomly sends to one. What a replica answers
// may be behind. Decisions always go to the master.
func ReadReplicas() Option {
	return func(l *Loader) { l.readReplicas = true }
}

// Timeout bounds how long one call may take, including its retries, where the caller's context does not
// end it earlier: 1 ms or more. It does not bound the sleep in Wait, but each of the calls that Wait makes. The default
// is 1 s, and 100 ms for limiters with a policy (FailOpen, FailLocal), whose answer comes when the time is up.
func Timeout(d time.Duration) Option {
	return func(l *Loader) {
		if l.timeout = d; d < time.Millisecond {
			l.fail(&ArgumentError{Argument: "Timeout", Value: d.String(), Want: "1ms or more"})
		}
	}
}

// fail notes the first thing that is wrong with the options.
func (l *Loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// LimiterOption changes what a limiter's constructor makes. One that does not concern the limiter is an
// *ArgumentError of every call.
type LimiterOption func(*settings)

// MaxWait bounds how far ahead Wait and Reserve book, and how long Wait sleeps altogether, in whole
// microseconds. 0, the default, does not: Wait then takes as long as the context allows, and Reserve books up to the 60
// seconds that the scripts allow.
func MaxWait(d time.Duration) LimiterOption {
	return func(s *settings) { s.maxWait = d }
}

// Slice sets the length of the slices of a SliceRing, from 1 ms to a day, in whole microseconds: no longer than
// the shortest window, and at least 1/9999 of the longest and LeaseAge. It is a part of the key: limiters with
// different slices do not share state. See Loader.SliceRing for the default.
func Slice(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.use("Slice", &sliceRing)
		if s.slice = d; d < shortestSlice || d > longestSlice || d%ringResolution != 0 {
			s.fail(s.refuse("Slice", d, "1ms to 24h, in whole microseconds"))
		}
	}
}

// ClientID names the client whose permits a TokenBucket counts where its scope is each client by
// itself. The default is a random one for every Loader.
func ClientID(id string) LimiterOption {
	return func(s *settings) {
		s.use("ClientID", &tokenBucket)
		if s.clientID = id; id == "" {
			s.fail(s.refuse("ClientID", `""`, "at least one character"))
		}
	}
}

// PerClient gives each client of a TokenBucket the whole rate to itself, where no config is stored yet.
// The default is that all clients share it.
func PerClient() LimiterOption {
	return func(s *settings) { s.use("PerClient", &tokenBucket); s.perClient = true }
}

// settings is what all copies of a limiter share. It does not change once it is made.
type settings struct {
	limits    *Loader
	kind      *kind
	name      string
	head      string // the key up to the subject
	tail      string // and behind it
	maxWait   time.Duration
	slice     time.Duration
	leaseAge  time.Duration // 0: no leases
	denials   *denials      // nil: none are remembered
	clientID  string
	perClient bool
	fallback  fallback // answers where Redis does not; nil: an error does
	policy    string   // the option that set it
	err       error    // what is wrong with it: the error of every limiter's calls
}

// use notes an option that belongs to one kind of limiters only.
func (s *settings) use(option string, k *kind) {
	if s.kind != k {
		s.fail(&ArgumentError{
			Limiter: s.name, Argument: option, Want: "a " + k.name,
			text: fmt.Sprintf("%s is an option of %s, not of %s", option, k.name, s.kind.name),
		})
	}
}

// refuse is the error of what was passed to make the limiter.
func (s *settings) refuse(argument string, value any, want string) error {
	return &ArgumentError{Limiter: s.name, Argument: argument, Value: fmt.Sprint(value), Want: want}
}

// setFallback sets the policy of an option. Two different ones are an error: nobody can tell which is wanted.
func (s *settings) setFallback(option string, answer fallback) {
	if s.policy != "" && s.policy != option {
		s.fail(&ArgumentError{
			Limiter: s.name, Argument: "FailOpen", Value: "with FailLocal", Want: "one of the two",
		})
	}
	s.policy, s.fallback = option, answer
}

func (s *settings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// configure makes the settings of a limiter. Its tail is without the parts that some add.
func (l *Loader) configure(k *kind, name string, opts []LimiterOption) *settings {
	s := &settings{limits: l, kind: k, name: name}
	for _, opt := range opts {
		opt(s)
	}
	if s.clientID == "" {
		s.clientID = l.clientID
	}
	if s.maxWait < 0 || s.maxWait%time.Microsecond != 0 {
		s.fail(s.refuse("MaxWait", s.maxWait, "whole microseconds, 0 or more"))
	}
	if l.err != nil {
		s.fail(l.err)
	}
	if err := checkNames(l.prefix, name); err != nil {
		s.fail(err)
	}
	s.head = strings.Join([]string{l.prefix, name, "{"}, ":")
	s.tail = "}:" + k.code
	return s
}
