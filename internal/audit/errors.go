package audit

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// Unexpected is the kind of errors that no fault excuses.
const Unexpected = "unexpected"

// KindOf sorts what callers see while servers fail.
func KindOf(err error) string {
	var reply redis.Error
	var network net.Error
	switch {
	case strings.Contains(err.Error(), "NOSCRIPT"), errors.Is(err, loader.ErrNotLoaded):
		return Unexpected
	case errors.Is(err, loader.ErrOutcomeUnknown):
		return "outcome unknown"
	case errors.As(err, &reply):
		return codeOf(reply)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, redis.ErrPoolTimeout):
		return "no connection"
	}
	return Unexpected
}

// codeOf is the code of a reply that says that a server cannot decide now.
func codeOf(reply redis.Error) string {
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "CLUSTERDOWN", "TRYAGAIN", "LOADING", "READONLY", "MASTERDOWN", "MOVED", "ASK", "OOM", "MISCONF":
		return code
	}
	return Unexpected
}
