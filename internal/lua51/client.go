package lua51

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Status is a simple string reply, such as "OK".
type Status string

// client is one connection to the server, in process. It remembers SELECT.
type client struct {
	redis  *Redis
	peer   *server.Peer
	buffer bytes.Buffer
}

func (r *Redis) newClient() *client {
	c := &client{redis: r}
	c.peer = server.NewPeer(bufio.NewWriter(&c.buffer))
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
	case reachesOtherDatabases(name):
		c.redis.databases = allDatabases
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
	if name == "incrbyfloat" && len(words) == 3 || name == "hincrbyfloat" && len(words) == 4 {
		return c.increment(words), nil
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

// unsupported are commands that miniredis has and that would escape this package's clock, its snapshots
// or its Lua: streams, HyperLogLogs, scripts, blocking, and transactions.
func unsupported(name string) bool {
	switch name {
	case "eval", "eval_ro", "evalsha", "evalsha_ro", "script", "multi", "exec", "watch", "wait",
		"hello", "subscribe", "psubscribe", "blpop", "brpop", "brpoplpush", "blmove", "blmpop",
		"bzpopmin", "bzpopmax", "bzmpop":
		return true
	}
	return strings.HasPrefix(name, "x") || strings.HasPrefix(name, "pf")
}

func reachesOtherDatabases(name string) bool {
	return name == "select" || name == "move" || name == "swapdb" || name == "copy"
}

func (c *client) dispatch(words []string) any {
	c.buffer.Reset()
	c.redis.mini.Server().Dispatch(c.peer, words)
	c.peer.Flush()
	reply, _ := parseReply(c.buffer.Bytes())
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

// parseReply reads one RESP2 reply and returns what follows it.
func parseReply(resp []byte) (reply any, rest []byte) {
	line, rest, _ := bytes.Cut(resp, []byte("\r\n"))
	kind, text := line[0], string(line[1:])
	switch kind {
	case '+':
		return Status(text), rest
	case '-':
		return ErrorReply(text), rest
	case ':':
		n, _ := strconv.ParseInt(text, 10, 64)
		return n, rest
	case '$':
		n, _ := strconv.Atoi(text)
		if n < 0 {
			return nil, rest
		}
		return string(rest[:n]), rest[n+2:]
	}
	n, _ := strconv.Atoi(text)
	if n < 0 {
		return nil, rest
	}
	items := make([]any, n)
	for i := range items {
		items[i], rest = parseReply(rest)
	}
	return items, rest
}
