package main

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// authError is a server's answer to AUTH, without its text: servers repeat what they do not understand.
type authError string

func (e authError) Error() string { return "failed to authenticate: " + string(e) }

// RedisError makes it an answer of a server.
func (authError) RedisError() {}

// newAuthError keeps of an answer to AUTH or HELLO what is known to hold no password.
func newAuthError(err error) authError {
	said := err.Error()
	for _, harmless := range []string{"without any password configured", "no password is set"} {
		if strings.Contains(said, harmless) {
			return "the server wants no password"
		}
	}
	for _, code := range []string{"WRONGPASS", "NOAUTH", "NOPERM", "LOADING"} {
		if strings.HasPrefix(said, code+" ") {
			return authError(code)
		}
	}
	return "the server's answer is not shown: it may hold the password"
}

// authHook puts an authError, which go-redis notes in the command, in the place of what a server answers when a
// connection is made.
type authHook struct{}

func (authHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (authHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (authHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if name := command.Name(); (name == "auth" || name == "hello") && stored.IsReply(err) {
			return newAuthError(err)
		}
		return err
	}
}
