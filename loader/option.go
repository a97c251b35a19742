package loader

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Prefix sets the beginning of every key: letters, digits, dot, underscore and dash. Use it if several applications
// share a Redis, each with an ACL of ~prefix:*. The default is "sluice".
func Prefix(prefix string) Option {
	return func(l options) {
		l.once("Prefix")
		l.prefix = prefix
		if err := checkName("", "prefix", prefix); err != nil {
			l.setErr(err)
		}
	}
}

// PreloadedOnly keeps the loader from loading scripts: a missing script is an error that is [ErrNotLoaded]. Use it if
// the Redis user has no right to SCRIPT and EVAL, and load the scripts with `sluice load` or Preload.
func PreloadedOnly() Option {
	return func(l options) { l.wire.PreloadedOnly = true }
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
	return func(l options) { l.wire.Functions, l.wire.PreloadedOnly = true, true }
}

// Timeout bounds the time of one call, with its retries: 1 ms or more. The caller's context may end a call earlier. The
// default is 1 s, and 100 ms for limiters with a fallback (FailOpen, FailLocal), which answers when the time is up. The
// sleep of Wait is not bounded, but each call that Wait makes is.
func Timeout(d time.Duration) Option {
	return func(l options) {
		l.once("Timeout")
		l.timeout = d
		if d < time.Millisecond {
			l.setErr(&ArgumentError{Argument: "Timeout", Value: d.String(), Want: "1ms or more"})
		}
	}
}

// Breaker changes when a server is not asked any more, so that an outage costs callers no time: if it has answered
// nobody for as long as a call may take, and so many calls have failed in that time (1 or more). Then calls fail at
// once with ErrBreakerOpen, or the limiter's fallback answers them, except for one at a time, which is sent a pause
// (above 0) after the one before was. As soon as one is answered, all are sent again. Without this option it is
// Breaker(5, 250*time.Millisecond).
//
// Every reply is an answer, unless the server gives it to everybody: LOADING, BUSY, CLUSTERDOWN, MASTERDOWN,
// MAXCLIENTS. A call counts once, with all its attempts, and so do all calls of a Batch about one node together. A
// cancelled call does not count. In case the server is well and only the connections to it are stale, the idle ones
// are closed when a breaker opens; if a PING over a new one is answered, the next call is sent at once.
//
// Every node of a cluster and of a Ring has its own breaker, which all limiters of a Loader share. While a
// ClusterClient does not know its nodes yet, only the timeout bounds the calls. Cost: two short locks a call.
func Breaker(failures int, pause time.Duration) Option {
	return func(l options) {
		l.once("Breaker")
		if failures < 1 || pause <= 0 {
			l.setErr(&ArgumentError{
				Argument: "Breaker", Value: fmt.Sprintf("%d, %v", failures, pause), Want: "1 failure or more, and a pause above 0",
			})
			return
		}
		l.wire.Breaker = &wire.BreakerOptions{Failures: failures, Pause: pause}
	}
}

// WithoutBreaker asks a server whatever it has answered before.
func WithoutBreaker() Option {
	return func(l options) {
		l.once("Breaker")
		l.wire.Breaker = nil
	}
}

// WithoutSharing sends each decision in a round trip of its own. Without it, concurrent callers share round trips: see
// Many at once in the package documentation. Use it where the client's hooks need the context of each caller, or where
// Redis has more processor time to give than this process.
func WithoutSharing() Option {
	return func(l options) { *l.unshared = true }
}

// Logger logs the rare events that operators want to know about. Without it, or with nil, nothing is logged.
//
//	level  message               attributes
//	INFO   script loaded         script, sha1, node: the server did not have the script
//	WARN   outcome unknown       script, limiter, error: a decision or a return was sent and no reply came
//	WARN   decision given up     script, limiter, error: there is no decision, and retries did not help
//	WARN   return failed         script, limiter, error: a slot, permits or a cost; what can be repeated is tried again
//	WARN   return given up       script, limiter, error: that did not help
//	WARN   breaker open          node, silent, error: it has not answered for so long, so it is not asked
//	WARN   slot lost             limiter, error: the context of a Slot has ended before its Release
//	INFO   breaker closed        node, silent: it answers again, after so long
//	ERROR  panic given up        panic, stack: a hook, an observer or a handler panicked, and its caller had left already
//
// The same message about the same script, limiter or node is logged once a minute at most; the next one has the number
// of messages left out, as "suppressed". Keys and subjects are not logged. Errors that the caller caused (wrong
// arguments, cancelled contexts) and errors about a single key are not logged either: the caller gets them.
func Logger(logger *slog.Logger) Option {
	return func(l options) {
		l.once("Logger")
		if logger != nil {
			l.log = rarelog.New(logger)
		}
	}
}

// Observe passes every decision to an observer. Use it for metrics and traces; module otel has an Observer for
// OpenTelemetry. There is one Event for each call of Allow, AllowN, Peek, Wait, WaitN, Reserve, ReserveN, Report,
// Settle, Charge, TryAcquire and Acquire, for each limiter in a Batch or an All (if denials that are known here refuse
// an All, for these). Everything that gives permits back is a GiveBack: the method, Cancel of a reservation, a Wait
// that ended early. Reset, SetRate, Release and the renewals of a Slot have none. It may be given several times: all
// observers are told, in their order. Nil does nothing.
//
// Cost: nothing without an observer. With one, an allocation and two clock readings for each decision, and the time of
// the observer.
func Observe(observer Observer) Option {
	return func(l options) {
		switch {
		case l.observer == nil:
			l.observer = observer
		case observer != nil:
			l.observer = observers{l.observer, observer}
		}
	}
}
