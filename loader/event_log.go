package loader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// Logger sets where what happens rarely is logged, and what an operator wants to know of. The default, and nil, is
// nowhere.
//
//	level  message               attributes
//	INFO   script loaded         script, sha1, node: a server lacked it, as it does when it is new, has restarted
//	                             or failed over, or was flushed
//	WARN   outcome unknown       script, error: a decision was sent and no reply came
//	WARN   decision given up     script, error: there was no decision, and asking again did not help
//	WARN   breaker open          node: it has not answered, and is not asked for a while; INFO when it is
//	                             half-open, to try, and closed again
//	ERROR  panic given up         panic, stack: a hook, an observer or a handler panicked when nobody waited any more
//
// Of the same message about the same script or node one a second is logged; the next one has the number of
// those left out, as "suppressed". Neither keys nor subjects are logged. What a caller did wrong (arguments,
// contexts that it cancelled) and what lies under a key are for the caller's log alone.
func Logger(logger *slog.Logger) Option {
	return func(l *Loader) { l.eventLog = newEventLog(logger) }
}

// logInterval is how long a message about one thing is not repeated.
const logInterval = time.Second

// eventLog logs what happens rarely. A nil one logs nothing.
type eventLog struct {
	logger *slog.Logger

	mu        sync.Mutex
	throttles map[string]*throttle // by message and what it is about: as many as there are scripts and nodes
}

// throttle is one message about one thing.
type throttle struct {
	logged     time.Time
	suppressed int
}

func newEventLog(logger *slog.Logger) *eventLog {
	if logger == nil {
		return nil
	}
	return &eventLog{logger: logger, throttles: map[string]*throttle{}}
}

// log logs what happened, unless the same has just been said about the same thing: a script, a node.
func (j *eventLog) log(ctx context.Context, level slog.Level, message string, about string, attrs ...slog.Attr) {
	if j == nil || !j.logger.Enabled(ctx, level) {
		return
	}
	suppressed, ok := j.shouldLog(message + " " + about)
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	j.logger.LogAttrs(ctx, level, message, attrs...)
}

// shouldLog reports whether it is time to log this again, and how many have been left out since the last.
func (j *eventLog) shouldLog(what string) (suppressed int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.throttles[what]
	switch {
	case f == nil:
		f = &throttle{}
		j.throttles[what] = f
	case time.Since(f.logged) < logInterval:
		f.suppressed++
		return 0, false
	}
	suppressed, f.suppressed, f.logged = f.suppressed, 0, time.Now()
	return suppressed, true
}

// callFailed logs the error of a call if it is one for operators.
func (j *eventLog) callFailed(ctx context.Context, script *sluice.Script, err error) {
	if j == nil || err == nil {
		return
	}
	name := nameOf(script)
	if lost, ok := errors.AsType[*OutcomeUnknownError](err); ok {
		j.log(ctx, slog.LevelWarn, "outcome unknown", name, slog.String("script", name), slog.Any("error", lost.Err))
		return
	}
	if !isCallersError(err) {
		j.log(ctx, slog.LevelWarn, "decision given up", name, slog.String("script", name), slog.Any("error", err))
	}
}

// panicked logs what was raised when nobody waited any more in whose goroutine it could be raised. A handler that
// panics too is left alone.
func (j *eventLog) panicked(r *raised) {
	if r == nil || r.isGoexit() {
		return
	}
	defer func() { _ = recover() }()
	j.log(context.Background(), slog.LevelError, "panic given up", "", slog.Any("panic", r.value), slog.String("stack", string(r.stack)))
}

// isCallersError reports whether an error is about what the caller did, or about one key, or has been logged already.
func isCallersError(err error) bool {
	if _, ok := errors.AsType[*ArgumentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*StateError](err) // its text names the keys
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, ErrBreakerOpen)
}

// scriptLoaded logs that a script had to be loaded.
func (j *eventLog) scriptLoaded(ctx context.Context, c *call) {
	if j == nil {
		return
	}
	name, node := nameOf(c.script), c.loadedOn(ctx)
	j.log(ctx, slog.LevelInfo, "script loaded", name+" "+node, slog.String("script", name),
		slog.String("sha1", c.script.SHA1), slog.String("node", node))
}

// loadedOn is where the script has been loaded.
func (c *call) loadedOn(ctx context.Context) string {
	if _, ok := unwrapped(c.limits.rdb).(clusterClient); ok && c.loadsEverywhere() {
		return "every master"
	}
	if node, _ := c.limits.nodeOf(ctx, c.key()); node != nil {
		return node.Options().Addr
	}
	return addrOf(c.limits.rdb)
}
