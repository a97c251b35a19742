package scripttest

import (
	"testing"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// Redis is one emulated server with a store of its own and a clock that only the test moves. It is for
// one goroutine at a time.
type Redis struct {
	tb     testing.TB
	engine *lua51.Redis
}

// Start returns an empty server, whose clock stands at 1,700,000,000 s. It ends with the test.
func Start(tb testing.TB) *Redis {
	tb.Helper()
	engine, err := lua51.Open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(engine.Close)
	engine.Log = func(line string) { tb.Log(line) }
	return &Redis{tb: tb, engine: engine}
}

// Do executes one command outside of any script, and returns its reply as Result.Reply has it. Arguments are strings,
// byte slices, integers and floats. An error reply is an ErrorReply; a command that is not emulated is an
// *UnsupportedError.
func (r *Redis) Do(args ...any) (any, error) { return r.engine.Do(args...) }

// LikeMiniredis lets scripts find from now on what stock miniredis gives them where that differs in kind: no
// struct, scores with an exponent, and a tonumber that does not read every number. It is
// for the fallbacks of scripts that are to run there too; all else stays as Redis has it.
func (r *Redis) LikeMiniredis() { r.engine.LikeMiniredis() }

// Refuse makes the commands fail in scripts from now on as for a user without the right to them, and only
// these; without any, none. Do may call them. Whether a script takes back what it wrote before, since Redis
// does not, is for Snapshot to tell.
func (r *Redis) Refuse(commands ...string) { r.engine.Refuse(commands...) }

// FlushAll empties every database. The clock stays.
func (r *Redis) FlushAll() { r.engine.FlushAll() }

// SetTime sets the server's clock to us microseconds since 1970, for TIME and for expiry together. It
// may go backwards: expiry times are absolute, so a step back lengthens every TTL by the step, as it
// does on Redis. As there, keys go one millisecond after their TTL has run down to 0.
func (r *Redis) SetTime(us int64) { r.engine.SetTime(us) }

// Now returns the server's clock in microseconds since 1970.
func (r *Redis) Now() int64 { return r.engine.Now() }

// NeverExpire says whether keys stay for ever after their TTL has run down; PTTL then says 0. Turning
// it off expires what is overdue.
func (r *Redis) NeverExpire(never bool) { r.engine.NeverExpire(never) }

// Snapshot writes the whole store as text, a line a key in the order of their names: name,
// type, value byte for byte, and when it expires in milliseconds since 1970. Two equal texts are two
// equal stores. Moving the clock alone changes nothing but the keys that expire.
func (r *Redis) Snapshot() string { return r.engine.Snapshot() }
