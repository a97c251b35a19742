//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// unexpected is the kind of errors that no fault explains.
const unexpected = "unexpected"

// cannotDecide are the codes of replies that say that a server cannot decide now.
var cannotDecide = strings.Fields("CLUSTERDOWN TRYAGAIN LOADING READONLY MASTERDOWN MOVED ASK OOM MISCONF")

// kindOf returns the kind of an error that a caller saw while servers failed. A call may also run out of time while it
// loads a script.
func kindOf(err error) string {
	var reply redis.Error
	var network net.Error
	timedOut := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
	switch {
	case errors.Is(err, loader.ErrNotLoaded), strings.Contains(err.Error(), "NOSCRIPT") && !timedOut:
		return unexpected
	case errors.Is(err, loader.ErrBreakerOpen):
		return "breaker open"
	case errors.Is(err, loader.ErrOutcomeUnknown):
		return "outcome unknown"
	case timedOut:
		return "no answer in time"
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(reply.Error(), " ")
		if slices.Contains(cannotDecide, code) {
			return code
		}
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, redis.ErrPoolTimeout):
		return "no connection"
	}
	return unexpected
}

// reply is an error that a server answered.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestKindOf(t *testing.T) {
	about := func(err error) error { return fmt.Errorf("loader: %w", err) }
	for _, test := range []struct {
		err  error
		want string
	}{
		{&loader.OutcomeUnknownError{Err: io.EOF}, "outcome unknown"},
		{about(context.DeadlineExceeded), "no answer in time"},
		{about(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "no connection"},
		{about(io.EOF), "no connection"},
		{about(io.ErrUnexpectedEOF), "no connection"},
		{about(redis.ErrPoolTimeout), "no connection"},
		{about(reply("CLUSTERDOWN The cluster is down")), "CLUSTERDOWN"},
		{about(reply("ERR what?")), unexpected},
		{about(reply("NOSCRIPT No matching script")), unexpected},
		{about(errors.Join(context.DeadlineExceeded, reply("NOSCRIPT No matching script"))), "no answer in time"},
		{loader.ErrNotLoaded, unexpected},
		{context.Canceled, unexpected},
		{errors.New("what?"), unexpected},
	} {
		if got := kindOf(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}
