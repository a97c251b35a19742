package loader

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// callFailed logs the error of a call, if operators should know of it.
func (l *Loader) callFailed(ctx context.Context, c *wire.Call, failure error) {
	if l.log == nil {
		return
	}
	message, err := "decision given up", failure
	switch lost, ok := errors.AsType[*OutcomeUnknownError](failure); {
	case ok && !errors.Is(failure, context.Canceled):
		message, err = "outcome unknown", lost.Err
	case isCallersError(failure):
		return
	case givesBack(c.Script), c.Script == &concurrencyReleaseV1, c.Script == &budgetSettleV1:
		message = "return failed"
	}
	l.warn(ctx, message, c.Script, c.Limiter, err)
}

// returnGivenUp logs that something is not given back after several tries.
func (c core) returnGivenUp(ctx context.Context, script *sluice.Script, err error) {
	if !isCallersError(err) || errors.Is(err, ErrBreakerOpen) {
		c.loader.warn(ctx, "return given up", script, c.name, err)
	}
}

func (l *Loader) warn(ctx context.Context, message string, script *sluice.Script, limiter string, err error) {
	name := wire.NameOf(script)
	attrs := []slog.Attr{slog.String("script", name)}
	if limiter != "" {
		attrs = append(attrs, slog.String("limiter", limiter))
	}
	l.log.Log(ctx, slog.LevelWarn, message, name+" "+limiter, append(attrs, slog.Any("error", err))...)
}

// slotLost logs that a slot of a limiter was lost. No caller waits: a panic of the handler is logged.
func (l *Loader) slotLost(ctx context.Context, lost *SlotLostError) {
	returned := false
	defer func() { wire.Caught(returned, recover()).Log(l.log) }()
	why := lost.Err
	if state, ok := errors.AsType[*StateError](why); ok {
		why = errors.New(state.Code + " " + state.Text) // without the keys
	}
	l.log.Log(ctx, slog.LevelWarn, "slot lost", lost.Limiter, slog.String("limiter", lost.Limiter), slog.Any("error", why))
	returned = true
}

// isCallersError reports whether an error was caused by the caller, is about a single key, or has been logged already.
func isCallersError(err error) bool {
	if _, ok := errors.AsType[*ArgumentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*StateError](err) // its text names the keys
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, ErrBreakerOpen)
}

// givesBack reports whether a script gives permits back.
func givesBack(script *sluice.Script) bool {
	return len(script.Reply) > 0 && script.Reply[0].Name == "returned"
}
