package dial

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// AuthError replaces a server's reply to AUTH. The reply's text is left out, because it may repeat the password.
type AuthError string

func (e AuthError) Error() string { return "failed to authenticate: " + string(e) }

// RedisError marks it as a reply of a server, as go-redis wants.
func (AuthError) RedisError() {}

// authErrorOf keeps only the parts of a reply to AUTH or HELLO that cannot hold a password.
func authErrorOf(err error) AuthError {
	said := err.Error()
	for _, harmless := range []string{"without any password configured", "no password is set"} {
		if strings.Contains(said, harmless) {
			return "the server wants no password"
		}
	}
	for _, code := range []string{"WRONGPASS", "NOAUTH", "NOPERM", "LOADING"} {
		if strings.HasPrefix(said, code+" ") {
			return AuthError(code)
		}
	}
	return "the server's reply is not shown, because it may hold the password"
}

// AuthHook replaces replies to AUTH and HELLO by an AuthError, which the command that opened the connection returns.
type AuthHook struct{}

func (AuthHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (AuthHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (AuthHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if name := command.Name(); (name == "auth" || name == "hello") && isReply(err) {
			return authErrorOf(err)
		}
		return err
	}
}

func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
