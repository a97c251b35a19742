package lua51

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Status is a simple string reply, such as "OK".
type Status string

// client is one connection to the server, in process.
type client struct {
	redis  *Redis
	peer   *server.Peer
	buffer bytes.Buffer
}

func (r *Redis) newClient() *client {
	c := &client{redis: r}
	c.peer = server.NewPeer(bufio.NewWriterSize(&c.buffer, 64)) // every run has one, and most replies are short
	return c
}

// do executes a command and returns its reply: int64, string, Status, nil, ErrorReply or []any. The
// error is an *UnsupportedError.
func (c *client) do(words []string) (any, error) {
	name := strings.ToLower(words[0])
	switch {
	case name == "time" && len(words) == 1:
		return c.time(), nil
	case name == "ttl" && len(words) == 2:
		return c.ttl(words[1]), nil
	case unsupported(name), !c.redis.mini.Server().IsRegisteredCommand(name) && known(words):
		return nil, &UnsupportedError{What: "the command " + strings.ToUpper(name)}
	}
	if tooLongTTL(words) {
		return nil, &UnsupportedError{What: "a TTL of more than 290 years"}
	}
	if tooLongString(words) {
		return nil, &UnsupportedError{What: "strings beyond 256 MB"}
	}
	if failure, refused := refusedNumber(words); refused {
		return failure, nil
	}
	reply := c.dispatch(replacement(words))
	if c.redis.stockScores {
		return reply, nil
	}
	return mend(words, reply), nil
}

func known(words []string) bool {
	_, ok := lookUp(words)
	return ok
}

// unsupported are commands that miniredis has and that would escape this package's clock, its snapshots or its Lua:
// streams, HyperLogLogs, scripts, blocking, transactions and other databases; and those that miniredis rounds otherwise
// than Redis.
func unsupported(name string) bool {
	switch name {
	case "eval", "eval_ro", "evalsha", "evalsha_ro", "script", "multi", "exec", "watch", "wait",
		"hello", "subscribe", "psubscribe", "blpop", "brpop", "brpoplpush", "blmove", "blmpop",
		"bzpopmin", "bzpopmax", "bzmpop", "incrbyfloat", "hincrbyfloat", "select", "move", "swapdb", "copy":
		return true
	}
	return strings.HasPrefix(name, "x") || strings.HasPrefix(name, "pf")
}

func (c *client) dispatch(words []string) any {
	c.redis.prepare(words)
	defer c.redis.noteChanges(words)
	c.buffer.Reset()
	c.redis.mini.Server().Dispatch(c.peer, words)
	c.peer.Flush()
	reply, _ := readReply(&c.buffer)
	return reply
}

// time answers TIME: seconds and microseconds, the latter without leading zeros.
func (c *client) time() any {
	now := c.redis.now
	return []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}
}

// ttl answers TTL, which rounds to the nearest second.
func (c *client) ttl(key string) any {
	reply := c.dispatch([]string{"PTTL", key})
	if ms, ok := reply.(int64); ok && ms >= 0 {
		return (ms + 500) / 1000
	}
	return reply
}

// replies is where RESP2 replies come from.
type replies interface {
	io.Reader
	ReadString(delimiter byte) (string, error)
}

func readReply(in replies) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := line[1 : len(line)-len("\r\n")]
	switch line[0] {
	case '+':
		return Status(text), nil
	case '-':
		return ErrorReply(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, err
	}
	if line[0] == '$' {
		bulk := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(in, bulk)
		return string(bulk[:n]), err
	}
	items := make([]any, n)
	for i := range items {
		if items[i], err = readReply(in); err != nil {
			return nil, err
		}
	}
	return items, nil
}
