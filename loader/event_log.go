package loader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// Logger logs the rare events that operators want to know about. Without it, or with nil, nothing is logged.
//
//	level  message               attributes
//	INFO   script loaded         script, sha1, node: the server did not have the script
//	WARN   outcome unknown       script, limiter, error: a decision or a return was sent and no reply came
//	WARN   decision given up     script, limiter, error: there is no decision, and retries did not help
//	WARN   return given up       script, limiter, error: permits or a slot were not given back, and retries did not help
//	WARN   breaker open          node, error: it does not answer, so no calls are sent for a while
//	WARN   slot lost             limiter, error: the context of a Slot has ended before its Release
//	INFO   breaker half-open     node: one call is sent to find out; INFO "breaker closed" if it is answered
//	ERROR  panic given up        panic, stack: a hook, an observer or a handler panicked, and its caller had left already
//
// The same message about the same script, limiter or node is logged once a second at most; the next one has the number
// of messages left out, as "suppressed". Keys and subjects are not logged. Errors that the caller caused (wrong
// arguments, cancelled contexts) and errors about a single key are not logged either: the caller gets them.
func Logger(logger *slog.Logger) Option {
	return func(l options) {
		l.eventLog = nil
		if logger != nil {
			l.eventLog = &eventLog{logger: logger, throttles: map[string]*throttle{}}
		}
	}
}

// logInterval is the minimum time between two messages that are the same and about the same thing.
const logInterval = time.Second

// eventLog logs rare events. A nil eventLog logs nothing.
type eventLog struct {
	logger *slog.Logger

	mu        sync.Mutex
	throttles map[string]*throttle // by message and what it is about (a script, a node): few
}

// throttle counts one message about one thing.
type throttle struct {
	logged     time.Time
	suppressed int
}

// log logs a message about a script or a node, at most once in logInterval.
func (l *eventLog) log(ctx context.Context, level slog.Level, message string, about string, attrs ...slog.Attr) {
	if l == nil || !l.logger.Enabled(ctx, level) {
		return
	}
	suppressed, ok := l.shouldLog(message + " " + about)
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	l.logger.LogAttrs(ctx, level, message, attrs...)
}

// shouldLog reports whether logInterval has passed since the same message was logged, and how many were left out since.
func (l *eventLog) shouldLog(what string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.throttles[what]
	switch {
	case f == nil:
		f = &throttle{}
		l.throttles[what] = f
	case time.Since(f.logged) < logInterval:
		f.suppressed++
		return 0, false
	}
	suppressed, f.suppressed, f.logged = f.suppressed, 0, time.Now()
	return suppressed, true
}

// callFailed logs the error of a call, if operators should know of it.
func (l *eventLog) callFailed(ctx context.Context, c *call) {
	if l == nil || c.err == nil {
		return
	}
	message, err := "decision given up", c.err
	switch lost, ok := errors.AsType[*OutcomeUnknownError](c.err); {
	case ok && !errors.Is(c.err, context.Canceled):
		message, err = "outcome unknown", lost.Err
	case isCallersError(c.err):
		return
	case givesBack(c.script), c.script == &concurrencyReleaseV1:
		message = "return given up"
	}
	name := nameOf(c.script)
	attrs := []slog.Attr{slog.String("script", name)}
	if c.limiter != "" {
		attrs = append(attrs, slog.String("limiter", c.limiter))
	}
	l.log(ctx, slog.LevelWarn, message, name+" "+c.limiter, append(attrs, slog.Any("error", err))...)
}

// panicked logs a panic that cannot be raised in the caller's goroutine, because the caller has left. If the handler
// panics too, that panic is dropped.
func (l *eventLog) panicked(r *raised) {
	if r == nil || r.isGoexit() {
		return
	}
	defer func() { _ = recover() }()
	l.log(context.Background(), slog.LevelError, "panic given up", "",
		slog.Any("panic", r.value), slog.String("stack", string(r.stack)))
}

// slotLost logs that a slot of a limiter was lost.
func (l *eventLog) slotLost(ctx context.Context, lost *SlotLostError) {
	why := lost.Err
	if state, ok := errors.AsType[*StateError](why); ok {
		why = errors.New(state.Code + " " + state.Text) // without the keys
	}
	l.log(ctx, slog.LevelWarn, "slot lost", lost.Limiter, slog.String("limiter", lost.Limiter), slog.Any("error", why))
}

// isCallersError reports whether an error was caused by the caller, is about a single key, or has been logged already.
func isCallersError(err error) bool {
	if _, ok := errors.AsType[*ArgumentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*StateError](err) // its text names the keys
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, ErrBreakerOpen)
}

// scriptLoaded logs that the server did not have a script.
func (l *eventLog) scriptLoaded(ctx context.Context, c *call, script *sluice.Script) {
	if l == nil {
		return
	}
	name, node := nameOf(script), c.loadedOn(ctx)
	l.log(ctx, slog.LevelInfo, "script loaded", name+" "+node, slog.String("script", name),
		slog.String("sha1", script.SHA1), slog.String("node", node))
}

// loadedOn names the node on which the call loaded its script.
func (c *call) loadedOn(ctx context.Context) string {
	if _, ok := unwrapped(c.limits.rdb).(clusterClient); ok && c.loadsEverywhere() {
		return "every master"
	}
	if node, _ := c.limits.nodeOf(ctx, c.key()); node != nil {
		return node.Options().Addr
	}
	return addrOf(c.limits.rdb)
}
