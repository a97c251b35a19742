package main

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// authError replaces a server's reply to AUTH. The reply's text is left out, because it may repeat the password.
type authError string

func (e authError) Error() string { return "failed to authenticate: " + string(e) }

// RedisError marks it as a reply of a server, as go-redis wants.
func (authError) RedisError() {}

// newAuthError keeps only the parts of a reply to AUTH or HELLO that cannot hold a password.
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
	return "the server's reply is not shown, because it may hold the password"
}

// authHook replaces replies to AUTH and HELLO by an authError, which the command that opened the connection returns.
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
