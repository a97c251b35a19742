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
	return func(l *Loader) { l.journal = newJournal(logger) }
}

// quiet is how long a message about one thing is not repeated.
const quiet = time.Second

// journal logs what happens rarely. A nil one logs nothing.
type journal struct {
	logger *slog.Logger

	mu     sync.Mutex
	floods map[string]*flood // by message and what it is about: as many as there are scripts and nodes
}

// flood is one message about one thing.
type flood struct {
	logged     time.Time
	suppressed int
}

func newJournal(logger *slog.Logger) *journal {
	if logger == nil {
		return nil
	}
	return &journal{logger: logger, floods: map[string]*flood{}}
}

// log logs what happened, unless the same has just been said about the same thing: a script, a node.
func (j *journal) log(ctx context.Context, level slog.Level, message string, about string, attrs ...slog.Attr) {
	if j == nil || !j.logger.Enabled(ctx, level) {
		return
	}
	suppressed, ok := j.admit(message + " " + about)
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	j.logger.LogAttrs(ctx, level, message, attrs...)
}

// admit reports whether it is time to log this again, and how many have been left out since the last.
func (j *journal) admit(what string) (suppressed int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.floods[what]
	switch {
	case f == nil:
		f = &flood{}
		j.floods[what] = f
	case time.Since(f.logged) < quiet:
		f.suppressed++
		return 0, false
	}
	suppressed, f.suppressed, f.logged = f.suppressed, 0, time.Now()
	return suppressed, true
}

// failed logs the error of a call if it is one for operators.
func (j *journal) failed(ctx context.Context, script *sluice.Script, err error) {
	if j == nil || err == nil {
		return
	}
	name := nameOf(script)
	if lost, ok := errors.AsType[*OutcomeUnknownError](err); ok {
		j.log(ctx, slog.LevelWarn, "outcome unknown", name, slog.String("script", name), slog.Any("error", lost.Err))
		return
	}
	if !callersOwn(err) {
		j.log(ctx, slog.LevelWarn, "decision given up", name, slog.String("script", name), slog.Any("error", err))
	}
}

// panicked logs what was raised when nobody waited any more in whose goroutine it could be raised. A handler that
// panics too is left alone.
func (j *journal) panicked(r *raised) {
	if r == nil || r.exits() {
		return
	}
	defer func() { _ = recover() }()
	j.log(context.Background(), slog.LevelError, "panic given up", "", slog.Any("panic", r.value), slog.String("stack", string(r.stack)))
}

// callersOwn reports whether an error is about what the caller did, or about one key, or has been logged already.
func callersOwn(err error) bool {
	if _, ok := errors.AsType[*ArgumentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*StateError](err) // its text names the keys
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, ErrBreakerOpen)
}

// loaded logs that a script had to be loaded.
func (j *journal) loaded(ctx context.Context, c *call) {
	if j == nil {
		return
	}
	name, node := nameOf(c.script), c.place(ctx)
	j.log(ctx, slog.LevelInfo, "script loaded", name+" "+node, slog.String("script", name),
		slog.String("sha1", c.script.SHA1), slog.String("node", node))
}

// place is where the script has been loaded.
func (c *call) place(ctx context.Context) string {
	if _, ok := shown(c.limits.rdb).(clusterClient); ok && c.everywhere() {
		return "every master"
	}
	if node, _ := c.limits.nodeOf(ctx, c.key()); node != nil {
		return node.Options().Addr
	}
	return addrOf(c.limits.rdb)
}
