// Package loader is a distributed rate limiter for Redis. It runs the Lua scripts of Sluice.
//
//	limits := loader.New(rdb)
//	codes := limits.ListLog("send-code", loader.PerMinute(3))
//
//	d, err := codes.Allow(ctx, "ada@example.com") // one permit now, or a denial
//	err = codes.Wait(ctx, "ada@example.com")      // sleeps until a permit may be used
//
// A limiter has a name, a limit and an algorithm. A subject is what the limit applies to: a user, an address, a route.
// Use Allow to refuse what is over the limit, and Wait in workers that would rather be late than refused. Limiters are
// small values: copy them, keep them in variables or make them when needed, and use them from any number of goroutines.
// Limiters of the same name and algorithm share their state in all processes.
//
// # Which limiter
//
//   - [Loader.ListLog], if you are not sure. It is exact: no interval of one window ever holds more than the limit.
//   - [Loader.ZSetLog], if a retry must not be charged twice. It is as exact as ListLog.
//   - [Loader.GCRA], for a smooth rate with a burst. It takes a few bytes, whatever the limit.
//   - [Loader.SliceRing], for several windows at once ("1000 a minute and 10000 an hour"), or limits in the millions.
//   - [Loader.TokenBucket], if operators change the rate in Redis, for all processes at once.
//   - [Loader.Budget], if a cost is known only afterwards, such as the tokens of a language model.
//   - [Loader.Concurrency], to limit how many run at once, however often they start. It has TryAcquire and Acquire in
//     place of Allow and Wait, and a [Slot] that renews itself until its Release.
//
// ListLog, ZSetLog and SliceRing take permits back that were not used (GiveBack, and Cancel of a reservation).
//
// # Errors
//
// A denial is not an error: Decision.Granted is false. An error means that there is no decision.
//
// Constructors of a Loader return no error. If a name, a limit or an option is wrong, every call returns an
// [*ArgumentError]. Call Check once, when the program starts, to find it. (Ahead returns its own.)
//
// If a call was sent and no reply came, the error is an [*OutcomeUnknownError]: the call was charged once or not at
// all. The loader sends a decision again only if the first one cannot have run, or if it has a request id, as with
// ZSetLog and Budget.
//
// # Contexts
//
// A call returns as soon as its context ends, and after one second at the latest ([Timeout] changes that), whatever the
// timeouts of the client are. To do so, it runs the round trip in a goroutine. If a hook of the client panics there,
// the panic is raised again in the caller's goroutine.
//
// No goroutine is needed if the client keeps deadlines itself (ContextTimeoutEnabled). A call then returns at its
// context's deadline, and after the timeout at the latest. It notices a cancellation only when the reply is there, and
// returns the reply.
//
// # Waiting
//
// Wait books permits with one round trip and sleeps until they are due, in the order of asking across all processes. A
// SliceRing, which cannot book, and waits of more than 60 s sleep and ask again, in no order.
//
// If the context ends first, ListLog, ZSetLog and SliceRing give back in the background what was booked or granted,
// also if the reply comes later: see [Loader.Flush]. If no reply ever comes, only ZSetLog can, because its calls have
// ids; an id of the caller's own (WithID) stays booked. With GCRA and TokenBucket the booking is lost.
//
// With a deadline or [MaxWait] it asks again during an outage: while Redis is down, loading or read-only, or a Breaker
// is open. It pauses 10 to 250 ms between attempts, and returns the last error when the time is up. Otherwise it
// returns the first error. After a lost reply only ZSetLog can ask again. The others return an [*OutcomeUnknownError],
// and their booking may be lost: use ZSetLog for workers that must not lose capacity in an outage.
//
// If Redis loses its state (eviction, failover, a restart without persistence), callers who have booked ahead still use
// their permits, and new callers are granted permits as well: up to twice the limit for as long as the longest booking,
// at most 60 s. MaxWait bounds that.
//
// # Giving back
//
// GiveBack is for permits that were certainly not used. Give it context.WithoutCancel of a request's context: if the
// customer has left, the permits would stay charged. The limiter's Timeout bounds it all the same. It returns 0 for
// what Redis did not grant (a denial, a policy) or has removed already. A decision of another limiter or subject, and
// more permits than it granted, are an [*ArgumentError].
//
// Do not give back the same permits twice: ListLog and SliceRing would give back another caller's. For the same reason
// it is sent once; after an [*OutcomeUnknownError] do not repeat it. ZSetLog finds the permits by their id: it repeats
// the return of all of them after a lost reply, and so may you.
//
// # Many at once
//
// A [Batch] sends decisions about many subjects and limiters in one round trip. With [ShareRoundTrips], goroutines that
// know nothing of each other share round trips; if many of them ask for the same subject, they even share runs of the
// script. All guarantees of single calls hold in both cases.
//
// On a single server both decide several subjects of one GCRA, ListLog or SliceRing, under the same limit and for as
// many permits, with one run of a script for many keys. That takes about half the server's time. In a cluster and a
// Ring, subjects lie on different nodes, and every decision is a run of its own. If the server has no such script and
// the loader may not load it ([PreloadedOnly]), single runs are sent.
//
// An [All] asks several limiters in one round trip too, and charges all of them or none: an address, an account and the
// whole service.
//
// # A limit for each customer
//
// Every limiter has the method With. It returns a copy with another limit:
//
//	d, err := codes.With(limitOf(user)).Allow(ctx, user)
//
// In a SliceRing, windows that both limits have go on with what they have counted. A window that is new to a subject
// begins empty.
//
// To change one subject's limit in all processes, use [TokenBucket] and its SetRate.
//
// # Without asking Redis
//
// [SliceRing.Ahead] grants in the process and tells Redis later. [RememberDenials] answers callers who were denied and
// ask again too early.
//
// # When Redis fails
//
// Without further options a limiter fails closed: the call returns an error. With [FailOpen] or [FailLocal] the limiter
// answers in place of Redis, and marks the Decision Degraded. Every call has a time limit: 1 s, or 100 ms with one
// of these policies; [Timeout] sets another. [Breaker] stops sending calls to a server that does not answer.
//
// If no server listens on the address, a call takes its whole time to fail: the loader makes four attempts, and
// go-redis dials five times in each. With DialerRetries: 1 in the client's options it takes 0.15 s. After PoolSize
// failed dials go-redis dials an address only once a second. So with Sentinel, decisions may begin again up to a second
// after a failover; in a cluster the new master has its own pool, and there is no such delay.
//
// # What operators see
//
// [Observe] passes every decision to an [Observer], for metrics and traces; module otel has one for OpenTelemetry.
// [Logger] logs rare events. Without these options nothing is measured or logged.
package loader

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Loader makes limiters and runs scripts on one Redis. New makes it. It is safe for concurrent use.
type Loader struct {
	rdb           redis.UniversalClient
	nodes         any // rdb without its wrappers: see unwrapped
	prefix        string
	clientID      string
	timeout       time.Duration // 0: the default
	preloadedOnly bool
	functions     bool      // call functions, not scripts
	sharing       *sharing  // nil unless ShareRoundTrips
	breakers      *breakers // nil unless Breaker
	observer      Observer  // nil: no Observe
	eventLog      *eventLog // nil: no Logger
	err           error     // what is wrong with the options: the error of every call

	tasks           tasks
	returns         background
	deadlines       deadlines // of limiters without a policy
	policyDeadlines deadlines // of limiters with one
	keepsDeadlines  bool      // the client ends calls at their context's deadline
	nodesKnown      atomic.Bool
	loads           loads
	slotQueues      slotQueues
	manyPaused      atomic.Int64 // until when no commands for many keys are sent, in Unix nanoseconds
}

// Option is an option of New. Nil does nothing.
type Option func(options)

// options is a Loader that New makes: no Option applies to one in use.
type options struct{ *Loader }

// New returns a Loader on rdb: a *redis.Client, a *redis.ClusterClient, a *redis.Ring, or a wrapper of one of them. It
// sends nothing: scripts are loaded when they are first needed. It does not close rdb. If rdb is nil, every call
// returns an *ArgumentError.
//
// Give a wrapper such as struct{ redis.UniversalClient } the method Unwrap() redis.UniversalClient. The loader then
// finds the nodes behind it, also through several wrappers. It loads scripts directly on the nodes of a Ring and of a
// ClusterClient; everything else goes through the wrapper. Without Unwrap decisions still work, but Preload
// returns an error, a Breaker is one for all nodes, and a missing script may take one more round trip, with its source.
func New(rdb redis.UniversalClient, opts ...Option) *Loader {
	l := &Loader{prefix: "sluice", clientID: newID(), loads: loads{calls: map[loadTarget]*sharedCall{}}}
	if isNil(rdb) {
		const want = "a redis.Client, ClusterClient, Ring or what wraps one"
		l.setErr(&ArgumentError{Argument: "client", Value: "nil", Want: want})
	} else {
		l.rdb, l.nodes = rdb, unwrapped(rdb)
	}
	for _, opt := range opts {
		if opt != nil {
			opt(options{l})
		}
	}
	l.tasks.eventLog = l.eventLog
	l.keepsDeadlines = keepsDeadlines(l.nodes)
	l.deadlines.timeout = cmp.Or(l.timeout, defaultTimeout)
	l.policyDeadlines.timeout = cmp.Or(l.timeout, policyTimeout)
	return l
}

// isNil reports whether there is no client, or a wrapper around none.
func isNil(rdb redis.UniversalClient) bool {
	v := reflect.ValueOf(rdb)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	w, ok := rdb.(wrapper)
	return ok && isNil(w.Unwrap())
}

// Prefix sets the beginning of every key: letters, digits, dot, underscore and dash. Use it if several applications
// share a Redis, each with an ACL of ~prefix:*. The default is "sluice".
func Prefix(prefix string) Option {
	return func(l options) { l.prefix = prefix }
}

// PreloadedOnly keeps the loader from loading scripts: a missing script is an error that is [ErrNotLoaded]. Use it if
// the Redis user has no right to SCRIPT and EVAL, and load the scripts with `sluice load` or Preload.
func PreloadedOnly() Option {
	return func(l options) { l.preloadedOnly = true }
}

// Functions calls the scripts as Redis Functions: FCALL in place of EVALSHA. Use it where functions are loaded as a
// part of the deployment: they are saved with the data and replicated, so a restart or a failover does not lose them,
// and no call is answered by NOSCRIPT. It needs Redis 7.0 or Valkey; on older servers every call is an error that is
// errors.ErrUnsupported.
//
// The loader does not load the functions by itself: `sluice load --functions` or Preload does. Without them a call is
// an error that is [ErrNotLoaded]. While Redis refuses writes (OOM, MISCONF, NOREPLICAS) every decision is an error,
// where a script would still deny; Peek works.
func Functions() Option {
	return func(l options) { l.functions, l.preloadedOnly = true, true }
}

// Timeout bounds the time of one call, with its retries: 1 ms or more. The caller's context may end a call earlier. The
// default is 1 s, and 100 ms for limiters with a policy (FailOpen, FailLocal), which answers when the time is up. The
// sleep of Wait is not bounded, but each call that Wait makes is.
func Timeout(d time.Duration) Option {
	return func(l options) {
		if l.timeout = d; d < time.Millisecond {
			l.setErr(&ArgumentError{Argument: "Timeout", Value: d.String(), Want: "1ms or more"})
		}
	}
}

// setErr keeps the first error of the options.
func (l *Loader) setErr(err error) {
	if l.err == nil {
		l.err = err
	}
}

// LimiterOption is an option of a limiter. If it does not apply to the limiter, every call returns an *ArgumentError.
// Nil does nothing.
type LimiterOption func(*settings)

// MaxWait bounds how far ahead Wait and Reserve book, and how long Wait sleeps in all, in whole microseconds. With 0,
// the default, Wait takes as long as its context allows, and Reserve books up to 60 s ahead.
func MaxWait(d time.Duration) LimiterOption {
	return func(s *settings) { s.maxWait = d }
}

// Slice sets the length of the slices of a SliceRing or a Budget, for all windows: 1 ms to 24 h, in whole microseconds.
// It must not be longer than the shortest window, nor shorter than a 999th of the longest. See Loader.SliceRing for the
// default.
func Slice(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.requireAlgorithm("Slice", &sliceRing, &budget)
		if s.slice = d; d < minSlice || d > maxSlice || d%time.Microsecond != 0 {
			s.setErr(s.errArgument("Slice", d, "1ms to 24h, in whole microseconds"))
		}
	}
}

// ClientID names the client whose permits a TokenBucket counts, if each client has the rate for itself (PerClient). The
// default is a random id for each Loader.
func ClientID(id string) LimiterOption {
	return func(s *settings) {
		s.requireAlgorithm("ClientID", &tokenBucket)
		if s.clientID = id; id == "" {
			s.setErr(s.errArgument("ClientID", `""`, "at least one character"))
		}
	}
}

// PerClient gives each client of a TokenBucket the whole rate for itself. The default is that all clients share it. A
// scope that is stored in Redis takes precedence.
func PerClient() LimiterOption {
	return func(s *settings) { s.requireAlgorithm("PerClient", &tokenBucket); s.perClient = true }
}

// settings is what all copies of a limiter share. It does not change after configure.
type settings struct {
	limits    *Loader
	algorithm *algorithm
	name      string
	head      string // of the key, before the subject
	tail      string // of the key, after the subject
	maxWait   time.Duration
	slice     time.Duration
	idTTL     time.Duration // how long a Budget knows an id
	strict    *AheadOptions // taken off the limits; nil: nothing
	denials   *denials      // nil: no RememberDenials
	clientID  string
	perClient bool
	fallback  fallback // the policy; nil: none
	policy    string   // the option that set it
	err       error    // what is wrong with the name or the options: the error of every call
}

// requireAlgorithm sets an error if an option is not of this algorithm.
func (s *settings) requireAlgorithm(option string, algorithms ...*algorithm) {
	if !slices.Contains(algorithms, s.algorithm) {
		s.setErr(&ArgumentError{
			Limiter: s.name, Argument: option, Want: "a " + algorithms[0].name,
			text: fmt.Sprintf("%s is an option of %s, not of %s", option, algorithms[0].name, s.algorithm.name),
		})
	}
}

// refuseOption sets an error if an option is set that nothing would use.
func (s *settings) refuseOption(option string, isSet bool) {
	if isSet {
		s.setErr(&ArgumentError{
			Limiter: s.name, Argument: option, Want: "no " + option,
			text: fmt.Sprintf("%s is not an option of %s", option, s.algorithm.name),
		})
	}
}

// errArgument is the error of a wrong name, limit or option.
func (s *settings) errArgument(argument string, value any, want string) error {
	return &ArgumentError{Limiter: s.name, Argument: argument, Value: fmt.Sprint(value), Want: want}
}

// setFallback sets the policy. Two different policies are an error.
func (s *settings) setFallback(option string, answer fallback) {
	if s.policy != "" && s.policy != option {
		s.setErr(&ArgumentError{
			Limiter: s.name, Argument: "FailOpen", Value: "with FailLocal", Want: "one of the two",
		})
	}
	s.policy, s.fallback = option, answer
}

// setErr keeps the first error.
func (s *settings) setErr(err error) {
	if s.err == nil {
		s.err = err
	}
}

// configure makes the settings of a limiter. The caller may add parts to the tail of the key.
func (l *Loader) configure(k *algorithm, name string, opts []LimiterOption) *settings {
	s := &settings{limits: l, algorithm: k, name: name}
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
	if s.clientID == "" {
		s.clientID = l.clientID
	}
	if s.maxWait < 0 || s.maxWait%time.Microsecond != 0 {
		s.setErr(s.errArgument("MaxWait", s.maxWait, "whole microseconds, 0 or more"))
	}
	if l.err != nil {
		s.setErr(l.err)
	}
	if err := checkNames(l.prefix, name); err != nil {
		s.setErr(err)
	}
	s.head = strings.Join([]string{l.prefix, name, "{"}, ":")
	s.tail = "}:" + k.code
	return s
}
