package scripttest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/model"
)

// modelHarness plays sequences off the server. Its store is compared with the model's byte for byte, expiry times
// included.
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
		if command.Write && charged(script, keys, args, result) == 0 {
			return nil, fmt.Sprintf("granted nothing and wrote %q", command.Args)
		}
	}
	return integers(m.t, result.Reply), ""
}

// differs compares the stores as text, with every byte quoted, only where holds does not see that they are the same.
func (m modelHarness) differs(store model.Store, _ []string) string {
	if m.holds(store) {
		return ""
	}
	if found := m.redis.Snapshot(); found != store.String() {
		return found
	}
	return ""
}

// holds reports whether all values and expiry times are those of the store. Of a key that is overdue it cannot tell.
func (m modelHarness) holds(store model.Store) bool {
	if keys, _ := m.raw("DBSIZE"); keys != int64(len(store)) {
		return false
	}
	for key, want := range store {
		if value := stored(m, key, want.Type); !same(value, want) {
			return false
		}
		left := int64(-1)
		if want.Expires != 0 {
			left = want.Expires - m.redis.Now()/1000
		}
		if ttl, _ := m.raw("PTTL", key); ttl != left || ttl == int64(0) {
			return false
		}
	}
	return true
}

// same reports whether two values are equal, but for when they expire.
func same(a, b model.Value) bool {
	return a.Type == b.Type && a.Text == b.Text && slices.Equal(a.List, b.List) && maps.Equal(a.ZSet, b.ZSet) &&
		maps.Equal(a.Hash, b.Hash)
}

// A modelled harness has the model beside it: after every step, all that is stored is what the model says, and so is
// when it expires.
type modelled struct {
	*harness
	store  model.Store
	expire bool
	beyond bool // the model does not say what follows
}

func startModelled(expire bool) func(t testing.TB) target {
	return func(t testing.TB) target {
		return &modelled{harness: startHarness(t, !expire), store: model.Store{}, expire: expire}
	}
}

func (m *modelled) setTime(us int64) {
	m.harness.setTime(us)
	if m.expire {
		m.store = m.store.Without(m.store.Expired(us)...)
	}
}

func (m *modelled) call(script *sluice.Script, look bool, keys, args []string) ([]int64, string) {
	m.t.Helper()
	reply, failed := m.harness.call(script, look, keys, args)
	want := chosen(model.Call(script, m.store, m.redis.Now(), keys, args), m.store, failed)
	m.store, m.beyond = want.After, m.beyond || want.Any
	m.compare(fmt.Sprintf("%s %q", script.Name, args))
	return reply, failed
}

func (m *modelled) do(args ...string) string {
	m.t.Helper()
	got := m.harness.do(args...)
	if !reads(args[0]) {
		after, err := m.store.Do(m.redis.Now(), args...)
		must(m.t, err)
		m.store = after
	}
	m.compare(fmt.Sprintf("%q", args))
	return got
}

func (m *modelled) compare(step string) {
	m.t.Helper()
	if found, want := m.redis.Snapshot(), m.store.String(); found != want && !m.beyond {
		m.t.Errorf("after %s there is\n%swant\n%s", step, found, want)
	}
}

// modelServer plays sequences on a real server through the loader. Its keys do not expire by themselves: those that are
// over by the clock of the sequence are deleted.
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
	differ := false
	found := model.Store{}
	for _, key := range keys {
		value := stored(r, key, store[key].Type)
		differ = differ || !same(value, store[key])
		if value.Type != "" {
			found[key] = value
		}
	}
	if differ {
		return found.String() + " "
	}
	return ""
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
