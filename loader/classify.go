package loader

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What an error of a call says is decided here: whether it is a reply, whether the script can have run, whether asking
// again may help.

// isReply reports whether err is what a server answered.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// inScript stands in the errors that Redis makes of one that a command in a script raised.
const inScript = "@user_script:"

// codeOf is the code of an error reply: its first word, or, where a script raised it in Redis 5 or 6, the
// one behind "ERR Error running script (call to f_<sha>): @user_script:1: @user_script: 1: -READONLY".
func codeOf(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := reply.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		_, text, _ = strings.Cut(text[strings.LastIndex(text, inScript)+1:], ": ")
		text = strings.TrimPrefix(strings.TrimLeft(text, " :0123456789"), "-")
	}
	code, _, _ := strings.Cut(text, " ")
	if code == "ERR" && strings.HasPrefix(text, "ERR max number of clients") {
		return "MAXCLIENTS"
	}
	return code
}

// notRun reports whether the code of an error reply proves that the script wrote nothing, and may be gone
// a moment later.
func notRun(code string) bool {
	switch code {
	case "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY", "NOREPLICAS", "MAXCLIENTS":
		return true
	}
	return false
}

// neverLeft reports whether an error proves that nothing was sent at the last attempt of go-redis. The ones
// before it, if any, were answered with MOVED, ASK or READONLY.
func neverLeft(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || isDialError(err)
}

// redirected reports whether a cluster sent the command elsewhere. go-redis follows by itself; when that
// fails in a pipeline it leaves this error, and does not say how far the second attempt came.
func redirected(code string) bool { return code == "MOVED" || code == "ASK" }

// refused reports whether a server does not let this user have a command, or does not know it.
func refused(code string, err error) bool {
	text := strings.ToLower(err.Error())
	return code == "NOPERM" || code == "ERR" && (strings.Contains(text, "unknown") || strings.Contains(text, "unsupported"))
}

// isNetwork reports whether a connection was lost or not made.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isDialError reports whether there was no connection to send anything on.
func isDialError(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// isAnswer reports whether the outcome of an attempt shows a server that can answer.
func isAnswer(err error) bool {
	return err == nil || isReply(err) && !answersNobody(codeOf(err))
}

// answersNobody reports whether the code of an error reply is that of a server that is up and of no use to anyone.
func answersNobody(code string) bool {
	switch code {
	case "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "MAXCLIENTS":
		return true
	}
	return false
}

// exceedsLimit reports whether a script refused a call for more permits than the limit that is stored.
func exceedsLimit(err error) bool {
	return isReply(err) && strings.HasPrefix(err.Error(), "BADARG permits: want up to")
}

// undecided reports whether an error leaves open what another Redis, or this one later, would decide.
func undecided(ctx context.Context, err error) bool {
	_, argument := errors.AsType[*ArgumentError](err)
	_, state := errors.AsType[*StateError](err)
	return !argument && !state && !errors.Is(ctx.Err(), context.Canceled)
}
