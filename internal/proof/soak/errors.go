package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// Unexpected is the kind of errors that no fault explains.
const Unexpected = "unexpected"

// KindOf returns the kind of an error that a caller saw while servers failed.
func KindOf(err error) string {
	var reply redis.Error
	var network net.Error
	switch {
	case errors.Is(err, loader.ErrNotLoaded), strings.Contains(err.Error(), "NOSCRIPT") && !timedOut(err):
		return Unexpected
	case errors.Is(err, loader.ErrBreakerOpen):
		return "breaker open"
	case errors.Is(err, loader.ErrOutcomeUnknown):
		return "outcome unknown"
	case timedOut(err):
		return "no answer in time"
	case errors.As(err, &reply):
		return codeOf(reply)
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, redis.ErrPoolTimeout):
		return "no connection"
	}
	return Unexpected
}

// timedOut reports whether a call ran out of time. That may also happen while it loads a script.
func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// codeOf returns the code of a reply if it says that a server cannot decide now.
func codeOf(reply redis.Error) string {
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "CLUSTERDOWN", "TRYAGAIN", "LOADING", "READONLY", "MASTERDOWN", "MOVED", "ASK", "OOM", "MISCONF":
		return code
	}
	return Unexpected
}
