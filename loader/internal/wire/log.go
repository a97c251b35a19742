package wire

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// NewLog returns a Log on a logger.
func NewLog(logger *slog.Logger) *Log { return &Log{logger: logger, throttles: map[string]*throttle{}} }

// logInterval is the minimum time between two messages that are the same and about the same thing: an outage is told
// when it begins, and then every minute.
const logInterval = time.Minute

// Log logs rare events. A nil Log logs nothing.
type Log struct {
	logger *slog.Logger

	mu        sync.Mutex
	throttles map[string]*throttle // by message and what it is about (a script, a node): few
}

// throttle counts one message about one thing.
type throttle struct {
	logged     time.Time
	suppressed int
}

// Log logs a message about a script or a node, at most once in logInterval.
func (l *Log) Log(ctx context.Context, level slog.Level, message string, about string, attrs ...slog.Attr) {
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
func (l *Log) shouldLog(what string) (suppressed int, ok bool) {
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

// Panicked logs a panic that cannot be raised in the caller's goroutine, because the caller has left. If the handler
// panics too, that panic is dropped.
func (l *Log) Panicked(r *Raised) {
	if r == nil || r.IsGoexit() {
		return
	}
	defer func() { _ = recover() }()
	l.Log(context.Background(), slog.LevelError, "panic given up", "",
		slog.Any("panic", r.Value), slog.String("stack", string(r.Stack)))
}

// scriptLoaded logs that the server did not have a script.
func (l *Log) scriptLoaded(ctx context.Context, name, sum, node string) {
	l.Log(ctx, slog.LevelInfo, "script loaded", name+" "+node, slog.String("script", name),
		slog.String("sha1", sum), slog.String("node", node))
}
