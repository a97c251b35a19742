package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// reply is an error that a server answered.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestKindOf(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&loader.OutcomeUnknownError{Err: io.EOF}, "outcome unknown"},
		{fmt.Errorf("loader: %w", context.DeadlineExceeded), "no answer in time"},
		{fmt.Errorf("loader: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "no connection"},
		{fmt.Errorf("loader: %w", io.EOF), "no connection"},
		{fmt.Errorf("loader: %w", io.ErrUnexpectedEOF), "no connection"},
		{fmt.Errorf("loader: %w", redis.ErrPoolTimeout), "no connection"},
		{fmt.Errorf("loader: %w", reply("CLUSTERDOWN The cluster is down")), "CLUSTERDOWN"},
		{fmt.Errorf("loader: %w", reply("ERR what?")), Unexpected},
		{fmt.Errorf("loader: %w", reply("NOSCRIPT No matching script")), Unexpected},
		{fmt.Errorf("loader: %w: %w", context.DeadlineExceeded, reply("NOSCRIPT No matching script")), "no answer in time"},
		{loader.ErrNotLoaded, Unexpected},
		{context.Canceled, Unexpected},
		{errors.New("what?"), Unexpected},
	} {
		if got := KindOf(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}
