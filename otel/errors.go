package sluiceotel

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// errorType is the class of an error: one of few, as the package's documentation has them.
func errorType(err error) attribute.KeyValue {
	if name := nameOf(err); name != "" {
		return semconv.ErrorTypeKey.String(name)
	}
	return semconv.ErrorType(err)
}

// nameOf is the class of an error that is known here, "" of others.
func nameOf(err error) string {
	if broken, ok := errors.AsType[*loader.StateError](err); ok {
		return broken.Code
	}
	_, badArgument := errors.AsType[*loader.ArgumentError](err)
	switch {
	case errors.Is(err, loader.ErrExceedsLimit):
		return "exceeds_limit"
	case badArgument:
		return "invalid_argument"
	case errors.Is(err, loader.ErrNotLoaded):
		return "not_loaded"
	case errors.Is(err, loader.ErrNotReserved):
		return "not_reserved"
	case errors.Is(err, loader.ErrBreakerOpen):
		return "breaker_open"
	case errors.Is(err, loader.ErrOutcomeUnknown):
		return "outcome_unknown"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return replyCode(err)
}

// statusCode is the code of the error that Redis answered, "" where it answered none.
func statusCode(e loader.Event) string {
	if broken, ok := errors.AsType[*loader.StateError](e.Err); ok {
		return broken.Code
	}
	if _, badArgument := errors.AsType[*loader.ArgumentError](e.Err); badArgument && e.Attempts > 0 {
		return "BADARG"
	}
	return replyCode(e.Err)
}

func replyCode(err error) string {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		return ""
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code
}

// description is the text of an error for a span's status, without the keys that some name.
func description(err error) string {
	if broken, ok := errors.AsType[*loader.StateError](err); ok {
		return broken.Code + " " + broken.Text
	}
	return err.Error()
}
