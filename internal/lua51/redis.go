package lua51

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
	lua "github.com/yuin/gopher-lua"
)

// Redis is one emulated server with a store of its own and a clock that only SetTime moves. It is for one
// goroutine at a time.
type Redis struct {
	// Log receives what scripts log with redis.log: the script's name and the text. Nil discards it.
	Log func(line string)

	mini   *miniredis.Miniredis
	lib    *library
	client *client // of Do

	now         int64 // microseconds since 1970
	neverExpire bool
	stockScores bool            // as miniredis writes them
	refused     map[string]bool // commands that scripts may not call, in lower case
	deadlines   map[string]deadline
	unswept     int // calls of SetTime since the last sweep
}

// Open returns an empty server, whose clock stands at 1,700,000,000 s. It listens nowhere. Close it when it is no
// longer needed.
func Open() (*Redis, error) {
	r := &Redis{mini: miniredis.NewMiniRedis(), deadlines: map[string]deadline{}}
	conn, err := r.mini.Dial() // starts it without a listener
	if err != nil {
		return nil, fmt.Errorf("starting miniredis: %w", err)
	}
	_ = conn.Close()
	r.lib = newLibrary()
	r.client = r.newClient()
	r.SetTime(startTime)
	return r, nil
}

// Close ends the server. Use nothing of it afterwards.
func (r *Redis) Close() { r.mini.Close() }

// startTime is 2023-11-14T22:13:20Z in microseconds.
const startTime = 1_700_000_000_000_000

// Do executes one command outside of any script, and returns its reply as Result.Reply has it. Arguments are strings,
// byte slices, integers and floats. An error reply is an ErrorReply; a command that is not emulated is an
// *UnsupportedError.
func (r *Redis) Do(args ...any) (any, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = word(arg)
	}
	if len(words) == 0 {
		return nil, ErrorReply("ERR unknown command ''")
	}
	reply, err := r.client.do(words)
	if err != nil {
		return nil, err
	}
	if failure, ok := reply.(ErrorReply); ok {
		return nil, failure
	}
	return reply, nil
}

// LikeMiniredis lets scripts find from now on what stock miniredis gives them where that differs in kind: no
// struct, scores with an exponent, and a tonumber that does not read every number. It is
// for the fallbacks of scripts that are to run there too; all else stays as Redis has it.
func (r *Redis) LikeMiniredis() {
	r.lib.globals.RawSetString("struct", lua.LNil)
	stock := lua.NewState(lua.Options{SkipOpenLibs: true})
	lua.OpenBase(stock)
	r.lib.globals.RawSetString("tonumber", stock.GetGlobal("tonumber"))
	r.stockScores = true
}

// Refuse makes the commands fail in scripts from now on as for a user without the right to them, and only
// these; without any, none. Do may call them. Whether a script takes back what it wrote before, since Redis
// does not, is for Snapshot to tell.
func (r *Redis) Refuse(commands ...string) {
	r.refused = map[string]bool{}
	for _, command := range commands {
		r.refused[strings.ToLower(command)] = true
	}
}

// FlushAll empties the store. The clock stays.
func (r *Redis) FlushAll() {
	r.mini.FlushAll()
	clear(r.deadlines)
}

// refuses reports whether scripts may not call a command, or the one that it is a subcommand of.
func (r *Redis) refuses(s spec) bool {
	container, _, _ := strings.Cut(s.name, "|")
	return r.refused[s.name] || r.refused[container]
}

// word is a command's argument as clients send it.
func word(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case []byte:
		return string(arg)
	case float64:
		return strconv.FormatFloat(arg, 'g', -1, 64)
	}
	return fmt.Sprint(arg)
}

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")
