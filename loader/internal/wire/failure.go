package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Failure is what an error says about an attempt: whether the server answered, whether the script can have run, and
// whether a retry may help. No other code decides this.
type Failure int

const (
	lost          Failure = iota // an error of go-redis, or the caller has left: the script may have run
	lostNetwork                  // the connection was lost, or a deadline has passed: the script may have run
	neverSent                    // no connection: go-redis sent nothing last; in a pipeline, a redirected command may have run before
	scriptMissing                // NOSCRIPT, or no such function
	notDecided                   // not decided in a command for many keys: see NotDecided
	hashSlotMoves                // TRYAGAIN: the script did not run, a retry may help soon
	notRun                       // another reply that proves that the script wrote nothing: a retry may help soon
	notAllowed                   // this user may not send the command, or the server does not know it
	redirected                   // MOVED or ASK: go-redis follows by itself, and returns this error if that fails
	finalReply                   // any other error reply: a retry would not change it
)

// FailureOf returns what an error of an attempt means.
func FailureOf(err error) Failure {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return classifyNetwork(err)
	}
	switch code := CodeOf(reply); code {
	case "NOSCRIPT":
		return scriptMissing
	case codeNotDecided:
		return notDecided
	case "TRYAGAIN":
		return hashSlotMoves
	case "LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "NOREPLICAS", "MAXCLIENTS":
		return notRun
	case "MOVED", "ASK":
		return redirected
	case "NOPERM":
		return notAllowed
	case "ERR":
		text := strings.ToLower(err.Error())
		if strings.HasPrefix(text, "err function not found") {
			return scriptMissing
		}
		if strings.Contains(text, "unknown") || strings.Contains(text, "unsupported") {
			return notAllowed
		}
	}
	return finalReply
}

// classifyNetwork is FailureOf for an error that is no reply.
func classifyNetwork(err error) Failure {
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
func (f Failure) isReply() bool { return f >= scriptMissing }

// provesNotRun reports whether the script wrote nothing and a retry may help soon.
func (f Failure) provesNotRun() bool { return f == notRun || f == hashSlotMoves }

// inScript is in the error of a command that failed inside a script.
const inScript = "@user_script:"

// FailedInScript reports whether an error is that of a command inside a script or a function.
func FailedInScript(text string) bool {
	return strings.Contains(text, inScript) || strings.Contains(text, "@user_function:")
}

// CodeOf is the code of an error reply: its first word, or, where a script raised it in Redis 5 or 6, the
// one behind "ERR Error running script (call to f_<sha>): @user_script:1: @user_script: 1: -READONLY".
func CodeOf(err error) string {
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

// showsLife reports whether the error of a call shows that the server answers calls: see Breaker.
func showsLife(err error) bool {
	if e, ok := err.(*Error); ok && e.Err == nil { // BADARG, BADSTATE, WRONGTYPE
		return true
	}
	switch CodeOf(err) {
	case "", "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "MAXCLIENTS":
		return false
	}
	return true
}

// ExceedsLimit reports whether a script refused a call for more permits than the limit that is stored.
func ExceedsLimit(err error) bool {
	return CodeOf(err) == "BADARG" && strings.HasPrefix(err.Error(), "BADARG permits: want up to")
}

// MayHelp reports whether a retry after an error may help and cannot charge twice: nothing has run.
func MayHelp(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBreakerOpen) {
		return true
	}
	f := FailureOf(err)
	return f == neverSent || f == lostNetwork || f.provesNotRun()
}

// IsMissing reports whether the server does not have the script.
func (f Failure) IsMissing() bool { return f == scriptMissing }

// IsRefused reports whether this user may not send the command, or the server does not know it.
func (f Failure) IsRefused() bool { return f == notAllowed }

// NotDecided is the outcome of a command that was not decided as one of many, and can be asked again at once.
type NotDecided struct {
	Alone      bool           // ask by itself
	Missing    *sluice.Script // load this before
	LoadFailed func()         // called if that fails
}

// RedisError says that the server has answered.
func (*NotDecided) RedisError() {}

func (*NotDecided) Error() string { return codeNotDecided + " not decided together with other keys" }

const codeNotDecided = "NOTDECIDED"

// ErrBreakerOpen is in the error of a call that was not sent, because the server did not answer the calls before it.
var ErrBreakerOpen = errors.New("breaker is open")

// ErrNoOutcome is the outcome of a call or an attempt that panicked.
var ErrNoOutcome = errors.New("no outcome")
