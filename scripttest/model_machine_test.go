package scripttest_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/model"
)

// modelHarness plays sequences off the server. Its store is compared with the model's byte for byte, expiry
// times included.
type modelHarness struct{ *harness }

func (m modelHarness) reset(expire bool) {
	m.redis.FlushAll()
	m.redis.NeverExpire(!expire)
}

func (m modelHarness) expired([]string) {}
func (m modelHarness) flush()           {}

func (m modelHarness) call(script *sluice.Script, look bool, keys, args []string) ([]int64, string) {
	result := m.result(script, look, keys, args)
	if result.Err != nil {
		return nil, result.Err.Error()
	}
	for _, command := range result.Commands {
		if command.Write && granted(script, result) == 0 {
			return nil, fmt.Sprintf("granted nothing and wrote %q", command.Args)
		}
	}
	return integers(m.t, result.Reply), ""
}

func (m modelHarness) differs(store model.Store, _ []string) string {
	if found := m.redis.Snapshot(); found != store.String() {
		return found
	}
	return ""
}

// modelServer plays sequences on a real server through the loader. Its keys do not expire by themselves:
// those that are over by the clock of the sequence are deleted.
type modelServer struct{ *remote }

func startModelServer(t testing.TB, addr string) modelServer {
	return modelServer{connectServer(t, addr)}
}

func (m modelServer) reset(bool) { m.remote.do("FLUSHALL") }
func (m modelServer) flush()     { m.remote.do("SCRIPT", "FLUSH") }

func (m modelServer) expired(keys []string) {
	if len(keys) > 0 {
		m.remote.do(append([]string{"DEL"}, keys...)...)
	}
}

func (m modelServer) differs(store model.Store, keys []string) string {
	return m.remote.differs(store, keys)
}

// differs compares what the keys hold with the model's, but for when they expire.
func (r *remote) differs(store model.Store, keys []string) string {
	var found strings.Builder
	same := true
	for _, key := range keys {
		value := stored(r, key, store[key].Type)
		same = same && value.String() == store[key].String()
		if value.Type != "" {
			fmt.Fprintf(&found, "0 %q %s\n", key, value)
		}
	}
	if same {
		return ""
	}
	return found.String() + " "
}

// A reader answers commands; ok is false for an error.
type reader interface {
	raw(args ...string) (reply any, ok bool)
}

func (r *remote) raw(args ...string) (reply any, ok bool) {
	reply, err := r.client.Do(context.Background(), anys(args)...).Result()
	return reply, err == nil
}

func (h *harness) raw(args ...string) (reply any, ok bool) {
	reply, err := h.redis.Do(anys(args)...)
	return reply, err == nil
}

func anys(words []string) []any {
	some := make([]any, len(words))
	for i, word := range words {
		some[i] = word
	}
	return some
}

// stored is what a key holds, which is asked for as the type that it is expected to have.
func stored(from reader, key, kind string) model.Value {
	reply, ok := from.raw(map[string][]string{
		"":       {"TYPE", key},
		"string": {"GET", key},
		"list":   {"LRANGE", key, "0", "-1"},
		"zset":   {"ZRANGE", key, "0", "-1", "WITHSCORES"},
		"hash":   {"HGETALL", key},
	}[kind]...)
	switch {
	case kind == "" && fmt.Sprint(reply) == "none":
		return model.Value{}
	case kind == "":
		return stored(from, key, fmt.Sprint(reply))
	case !ok:
		return stored(from, key, "")
	}
	return valueOf(kind, reply)
}

// valueOf makes the model's value of a server's reply.
func valueOf(kind string, reply any) model.Value {
	value := model.Value{Type: kind}
	switch kind {
	case "string":
		value.Text = reply.(string)
	case "list":
		value.List = texts(reply)
	case "zset":
		value.ZSet = map[string]float64{}
		for pair := texts(reply); len(pair) > 0; pair = pair[2:] {
			value.ZSet[pair[0]], _ = strconv.ParseFloat(pair[1], 64)
		}
	case "hash":
		value.Hash = map[string]string{}
		for pair := texts(reply); len(pair) > 0; pair = pair[2:] {
			value.Hash[pair[0]] = pair[1]
		}
	}
	return value
}

func texts(reply any) (words []string) {
	for _, item := range reply.([]any) {
		words = append(words, item.(string))
	}
	return words
}
