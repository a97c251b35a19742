package replay

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/lua51"
	"github.com/sluice-redis/sluice/loader"
)

// Server is an emulated Redis with a Loader on it. The Loader's client sends nothing: a hook runs its commands. It is
// for one goroutine at a time.
type Server struct {
	redis   *lua51.Redis
	client  *redis.Client
	limits  *loader.Loader           // see Limits
	scripts map[string]*lua51.Script // by their SHA1
	last    Call
}

// Call is a run of a script.
type Call struct {
	SHA1 string // of the script
	Keys []string
	Args []string
}

// NewServer returns an empty server, whose clock stands at the last midnight. The caller must call Close.
func NewServer() (*Server, error) {
	emulated, err := lua51.Open()
	if err != nil {
		return nil, err
	}
	emulated.SetTime(time.Now().Truncate(24 * time.Hour).UnixMicro()) // a period of the calendar has it, in any zone
	s := &Server{redis: emulated, scripts: map[string]*lua51.Script{}}
	// With a client that keeps deadlines, and a context that has none, the Loader runs a call in the caller's
	// goroutine.
	s.client = redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	s.client.AddHook(s)
	s.limits = loader.New(s.client, loader.Timeout(time.Hour)) // a busy machine must not change a decision
	return s, nil
}

// Close ends the server.
func (s *Server) Close() {
	_ = s.client.Close() // it has no connections
	s.redis.Close()
}

// SetTime sets the server's clock.
func (s *Server) SetTime(at time.Time) { s.redis.SetTime(at.UnixMicro()) }

// Limits returns the Loader.
func (s *Server) Limits() *loader.Loader { return s.limits }

// Last returns the last run of a script.
func (s *Server) Last() Call { return s.last }

// DialHook lets no connection be made.
func (s *Server) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("there is no server") }
}

// ProcessHook runs a command in this process.
func (s *Server) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.run(cmd) }
}

// ProcessPipelineHook runs the commands of a pipeline one after the other.
func (s *Server) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		var failed error
		for _, cmd := range cmds {
			if err := s.run(cmd); err != nil && failed == nil {
				failed = err
			}
		}
		return failed
	}
}

// replyError is an error reply of a script.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

// run runs the EVALSHA of a Loader and sets its reply.
func (s *Server) run(cmd redis.Cmder) error {
	reply, err := s.evalsha(cmd.Args())
	if err == nil {
		cmd.(interface{ SetVal([]int64) }).SetVal(reply)
	}
	cmd.SetErr(err)
	return err
}

func (s *Server) evalsha(args []any) ([]int64, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = wordOf(arg)
	}
	if len(words) < 3 || words[0] != "evalsha" {
		return nil, fmt.Errorf("the command %v is not emulated", words)
	}
	script, err := s.script(words[1])
	if err != nil {
		return nil, err
	}
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		return nil, err
	}
	s.last = Call{SHA1: words[1], Keys: words[3 : 3+keys], Args: words[3+keys:]}
	result := script.Run(s.redis, s.last.Keys, s.last.Args)
	if failure, ok := result.Err.(lua51.ErrorReply); ok {
		return nil, replyError(failure)
	}
	if result.Err != nil {
		return nil, result.Err
	}
	return integers(result.Reply)
}

// wordOf is an argument of a command as it is sent.
func wordOf(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case encoding.BinaryMarshaler: // the number of keys, which knows then that it is being sent
		text, _ := arg.MarshalBinary()
		return string(text)
	case int64:
		return strconv.FormatInt(arg, 10)
	}
	return fmt.Sprint(arg)
}

// script returns the compiled script of a SHA1.
func (s *Server) script(sha1 string) (*lua51.Script, error) {
	if script := s.scripts[sha1]; script != nil {
		return script, nil
	}
	for _, known := range sluice.All() {
		if known.SHA1 != sha1 {
			continue
		}
		script, err := lua51.Compile(known.Name, known.Source)
		if err != nil {
			return nil, err
		}
		s.scripts[sha1] = script
		return script, nil
	}
	return nil, replyError("NOSCRIPT no script " + sha1)
}

// integers returns the reply of a script, an array of integers.
func integers(reply any) ([]int64, error) {
	items, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("the reply %v is no array", reply)
	}
	numbers := make([]int64, len(items))
	for i, item := range items {
		if numbers[i], ok = item.(int64); !ok {
			return nil, fmt.Errorf("the reply %v has more than integers", reply)
		}
	}
	return numbers, nil
}
