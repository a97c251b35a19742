// Package rarelog logs what may come with every request.
package rarelog

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// interval is the minimum time between two messages that are the same and about the same thing: an outage is told when
// it begins, and then every minute.
const interval = time.Minute

// Bounds of what a Log knows of, and of each in bytes. What is beyond them is one topic.
const (
	maxTopics = 1000
	maxTopic  = 250
)

// Log logs rare events. A nil Log logs nothing, the zero Log to the default logger.
type Log struct {
	logger *slog.Logger // nil: the default

	mu     sync.Mutex
	topics map[string]*topic // by message and what it is about (a script, a node): few
}

// topic is one message about one thing.
type topic struct {
	logged     time.Time
	suppressed int
}

// New returns a Log on a logger.
func New(logger *slog.Logger) *Log { return &Log{logger: logger} }

// Log logs a message about something, at most once in the interval, and how many were left out since.
func (l *Log) Log(ctx context.Context, level slog.Level, message, about string, attrs ...slog.Attr) {
	if l == nil {
		return
	}
	logger := cmp.Or(l.logger, slog.Default())
	if !logger.Enabled(ctx, level) {
		return
	}
	suppressed, ok := l.shouldLog(message + " " + about)
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}

// Error logs an error that every request may meet.
func (l *Log) Error(message, about string, err error, attrs ...slog.Attr) {
	l.Log(context.Background(), slog.LevelError, message, about, append(attrs, slog.Any("error", err))...)
}

// Reset has the next messages logged.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.topics)
}

// shouldLog reports whether the interval has passed since the same message was logged, and how many were left
// out since then.
func (l *Log) shouldLog(what string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.topics == nil {
		l.topics = map[string]*topic{}
	}
	what = what[:min(len(what), maxTopic)]
	if len(l.topics) >= maxTopics && l.topics[what] == nil {
		what = ""
	}
	t := l.topics[what]
	switch {
	case t == nil:
		t = &topic{}
		l.topics[strings.Clone(what)] = t
	case time.Since(t.logged) < interval:
		t.suppressed++
		return 0, false
	}
	suppressed, t.suppressed, t.logged = t.suppressed, 0, time.Now()
	return suppressed, true
}
