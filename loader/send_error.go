package loader

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// failure is what an error says about an attempt: whether the server answered, whether the script can have run, and
// whether a retry may help. No other code decides this.
type failure int

const (
	lost          failure = iota // an error of go-redis or of a context: the script may have run
	lostNetwork                  // the connection was lost: the script may have run
	neverSent                    // no connection: the last attempt of go-redis sent nothing, earlier ones were redirected
	scriptMissing                // NOSCRIPT, or no such function
	askAgain                     // not decided in a command for many keys: see askAgainError
	slotMoves                    // TRYAGAIN: the script did not run, a retry may help soon
	notRun                       // another reply that proves that the script wrote nothing: a retry may help soon
	refused                      // this user may not send the command, or the server does not know it
	redirected                   // MOVED or ASK: go-redis follows by itself, and returns this error if that fails
	finalReply                   // any other error reply: a retry would not change it
)

// classify returns what an error of an attempt means.
func classify(err error) failure {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return classifyNetwork(err)
	}
	switch code := codeOf(reply); code {
	case "NOSCRIPT":
		return scriptMissing
	case codeAskAgain:
		return askAgain
	case "TRYAGAIN":
		return slotMoves
	case "LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "NOREPLICAS", "MAXCLIENTS":
		return notRun
	case "MOVED", "ASK":
		return redirected
	case "NOPERM":
		return refused
	case "ERR":
		text := strings.ToLower(err.Error())
		if strings.HasPrefix(text, "err function not found") {
			return scriptMissing
		}
		if strings.Contains(text, "unknown") || strings.Contains(text, "unsupported") {
			return refused
		}
	}
	return finalReply
}

// classifyNetwork is classify for an error that is no reply.
func classifyNetwork(err error) failure {
	var dial *net.OpError
	var network net.Error
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted),
		errors.As(err, &dial) && dial.Op == "dial":
		return neverSent
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return lostNetwork
	}
	return lost
}

// isReply reports whether the server answered.
func (f failure) isReply() bool { return f >= scriptMissing }

// provesNotRun reports whether the script wrote nothing and a retry may help soon.
func (f failure) provesNotRun() bool { return f == notRun || f == slotMoves }

// inScript is in the error of a command that failed inside a script.
const inScript = "@user_script:"

// failedInScript reports whether an error is that of a command inside a script or a function.
func failedInScript(text string) bool {
	return strings.Contains(text, inScript) || strings.Contains(text, "@user_function:")
}

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

// isAnswer reports whether the outcome of an attempt shows that the server answers calls: see Breaker.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	switch codeOf(err) {
	case "", "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "MAXCLIENTS":
		return false
	}
	return true
}

// exceedsLimit reports whether a script refused a call for more permits than the limit that is stored.
func exceedsLimit(err error) bool {
	return codeOf(err) == "BADARG" && strings.HasPrefix(err.Error(), "BADARG permits: want up to")
}

// undecided reports whether a policy may answer in place of an error: the arguments and the state are right, and
// the caller did not cancel.
func undecided(ctx context.Context, err error) bool {
	_, argument := errors.AsType[*ArgumentError](err)
	_, state := errors.AsType[*StateError](err)
	return !argument && !state && !errors.Is(ctx.Err(), context.Canceled)
}

// mayHelp reports whether a retry after an error may help and cannot charge twice: nothing has run, or the call has
// an id.
func mayHelp(err error, ids bool) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return ids
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBreakerOpen) {
		return true
	}
	f := classify(err)
	return f == neverSent || f == lostNetwork || f.provesNotRun()
}
