package stored

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/proof/model"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var background = context.Background()

func start(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestParseKey parses the keys of the vectors for other languages.
func TestParseKey(t *testing.T) {
	text, err := os.ReadFile("../../../../scripts/keys.json")
	must(t, err)
	var file struct {
		Vectors []struct {
			Prefix, Limiter, Subject, State, Key string
			Parts                                []string
		}
	}
	must(t, json.Unmarshal(text, &file))
	parsed := 0
	for _, v := range file.Vectors {
		if v.Key == "" {
			continue
		}
		got, ok := ParseKey(v.Key)
		if !ok && slices.Contains([]string{"ll1", "zl1", "sr1", "gcra1", "tb1"}, v.State) {
			t.Errorf("%s was not understood", v.Key)
		}
		if !ok {
			continue
		}
		parsed++
		want := Key{v.Key, v.Prefix, v.Limiter, v.Subject, v.State, v.Parts}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("ParseKey = %q, want %q", got, want)
		}
	}
	if parsed < 5 {
		t.Errorf("%d of %d vectors", parsed, len(file.Vectors))
	}
	for _, text := range []string{"", "mine", "a:b:c", "a:b:{c}", "a:b:{}:ll1", "a:b:{c}:ll2", "a:b:{c}:LL1", "a{c}:ll1"} {
		if got, ok := ParseKey(text); ok {
			t.Errorf("ParseKey(%q) = %q", text, got)
		}
	}
}

// TestEveryLayoutIsKnown fails when a script comes that stores something new.
func TestEveryLayoutIsKnown(t *testing.T) {
	for _, script := range sluice.All() {
		for _, pattern := range script.Keys {
			text := strings.NewReplacer("<slice>", "1000", "<size>", "9", "<", "", ">", "").Replace(pattern.Pattern)
			key, ok := ParseKey(text)
			if key.IsID() && !ok {
				continue
			}
			if of, _ := key.Script(); !ok || !Decides(of) || CodeOf(of) != CodeOf(script) {
				t.Errorf("%s: the layout of %s is unknown here", script.File, text)
			}
		}
	}
}

func TestTokenBucketKeys(t *testing.T) {
	for _, test := range []struct{ text, config, client string }{
		{"sluice:a:{s}:tb1", "sluice:a:{s}:tb1", ""},
		{"sluice:a:{s}:tb1:all", "sluice:a:{s}:tb1", ""},
		{"sluice:a:{s}:tb1:by:web-1:80", "sluice:a:{s}:tb1", "web-1:80"},
		{"sluice:a:{x:by:y}:tb1:by:%7B1%7D", "sluice:a:{x:by:y}:tb1", "{1}"},
	} {
		key := parsed(t, test.text)[0]
		if got := key.Config(); got.Text != test.config || key.Client() != test.client || !got.IsConfig() {
			t.Errorf("%s: config %s, client %q", test.text, got.Text, key.Client())
		}
	}
}

// charge is permits granted for a time.
type charge struct{ at, permits int64 }

// history has the model make random calls that end now, puts what it stores on the server, and returns
// what was granted.
func history(t *testing.T, rdb *redis.Client, script sluice.Script, keys, args []string, permitsAt int) []charge {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	now := rdb.Time(background).Val().UnixMicro() - 40_000_000
	store := model.Store{}
	var granted []charge
	for i := range 300 {
		now += random.Int64N(200_000)
		args[permitsAt] = strconv.FormatInt(1+random.Int64N(4), 10)
		words := strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "*", strconv.Itoa(i))) // an id for each call
		outcome := model.Call(&script, store, now, keys, words)
		if outcome.Err != "" {
			t.Fatal(outcome.Err)
		}
		store = outcome.After
		if n := outcome.Reply[0]; n > 0 {
			granted = append(granted, charge{now + outcome.Reply[2], n})
		}
	}
	put(t, rdb, store)
	return granted
}

// put writes a store of the model to the server.
func put(t *testing.T, rdb *redis.Client, store model.Store) {
	t.Helper()
	for key, value := range store {
		switch value.Type {
		case "string":
			must(t, rdb.Set(background, key, value.Text, 0).Err())
		case "list":
			must(t, rdb.RPush(background, key, anys(value.List)...).Err())
		case "hash":
			must(t, rdb.HSet(background, key, value.Hash).Err())
		case "zset":
			for _, m := range value.Ranked() {
				must(t, rdb.ZAdd(background, key, redis.Z{Score: m.Score, Member: m.Name}).Err())
			}
		}
	}
}

func anys(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// permitsIn counts the permits granted in (after, upTo].
func permitsIn(granted []charge, after, upTo int64) (n int64) {
	for _, c := range granted {
		if c.at > after && c.at <= upTo {
			n += c.permits
		}
	}
	return n
}

// TestServerHistory reads what each script stores, against what the model says that it granted.
func TestServerHistory(t *testing.T) {
	rdb := start(t)
	tests := []struct {
		script    sluice.Script
		args      string
		permitsAt int
		key       string
	}{
		{sluice.ListLogV1(), "40 10000000 1 5000000", 2, "sluice:a:{s}:ll1"},
		{sluice.ZSetLogV1(), "40 10000000 1 5000000 *", 2, "sluice:a:{s}:zl1"},
		{sluice.SliceRingV1(), "1 0 250000 101 60", 0, "sluice:a:{s}:sr1:250000x101"},
		{sluice.TokenBucketV1(), "40 10000000 0 1 5000000", 3, "sluice:a:{s}:tb1:all"},
	}
	for _, test := range tests {
		t.Run(test.script.Name, func(t *testing.T) {
			key, ok := ParseKey(test.key)
			if !ok {
				t.Fatal(test.key)
			}
			keys := []string{key.Config().Text, test.key, test.key + "no"}[:len(test.script.Keys)]
			granted := history(t, rdb, test.script, keys, strings.Split(test.args, " "), test.permitsAt)
			all, _, err := Read(background, rdb, []Key{key})
			must(t, err)
			s := all[0]
			if s.Err != nil || s.Damage != "" || s.Permits == 0 {
				t.Fatalf("%+v", s)
			}
			newest := granted[len(granted)-1].at
			if s.Newest != newest {
				t.Errorf("newest %d, want %d", s.Newest, newest)
			}
			if want := permitsIn(granted, s.Oldest-1, newest); s.Permits != want {
				t.Errorf("%d permits since %d, want %d", s.Permits, s.Oldest, want)
			}

			for _, c := range append(granted, charge{at: newest + 1}) {
				if c.at < s.Oldest || s.Ring != nil {
					continue
				}
				live, err := s.Live(background, rdb, c.at)
				must(t, err)
				if want := permitsIn(granted, c.at, newest); live != want {
					t.Fatalf("%d permits after %d, want %d", live, c.at, want)
				}
			}
		})
	}
}

func TestServerBucketAndConfig(t *testing.T) {
	rdb := start(t)
	limits := loader.New(rdb)
	d, err := limits.GCRA("a", loader.Limit{Permits: 7, Window: 1e9}).AllowN(background, "s", 3)
	must(t, err)
	_, err = limits.TokenBucket("a", loader.Limit{Permits: 7, Window: 1e9}, loader.PerClient(),
		loader.ClientID("me")).Allow(background, "s")
	must(t, err)
	all, _, err := Read(background, rdb, parsed(t, "sluice:a:{s}:gcra1", "sluice:a:{s}:tb1", "sluice:a:{s}:tb1:by:me",
		"sluice:a:{other}:gcra1"))
	must(t, err)
	full := d.Now.UnixMicro() + d.ResetAfter.Microseconds()
	now := d.Now.UnixMicro()
	if b := all[0].Bucket; b == nil || *b != (Bucket{Full: full, Limit: 7, Written: now, Widest: 1_000_000}) {
		t.Errorf("%+v, want full at %d, written at %d", b, full, now)
	}
	if c := all[1].Config; c == nil || *c != (Config{7, 1e6, true}) {
		t.Errorf("%+v", c)
	}
	if all[2].Permits != 1 || all[3].Exists || all[3].Damage != "" || all[3].Err != nil {
		t.Errorf("%+v\n%+v", all[2], all[3])
	}
}

func parsed(t *testing.T, texts ...string) (keys []Key) {
	t.Helper()
	for _, text := range texts {
		key, ok := ParseKey(text)
		if !ok {
			t.Fatal(text)
		}
		keys = append(keys, key)
	}
	return keys
}

// TestServerRingOverTime reads a ring of three slices, with 1, 2 and 4 permits, some slices later.
func TestServerRingOverTime(t *testing.T) {
	rdb := start(t)
	const slice = 3_600_000_000
	for later, want := range map[int64]int64{-2: 7, 0: 7, 1: 6, 2: 4, 3: 0, 9: 0} {
		last := rdb.Time(background).Val().UnixMicro()/slice - later
		totals := make([]uint64, 3)
		totals[(last-2)%3], totals[(last-1)%3], totals[last%3] = 1<<48-1, 0, 2
		ring := layout.SliceRing(uint64(last*slice), 6, 1<<48-1, totals...)
		key := fmt.Sprintf("sluice:a:{s}:sr1:%dx3", slice)
		must(t, rdb.Set(background, key, ring, 0).Err())
		all, _, err := Read(background, rdb, parsed(t, key))
		must(t, err)
		if s := all[0]; s.Permits != want || s.Damage != "" || s.Newest != last*slice {
			t.Errorf("%d slices later: %d permits, want %d (%+v)", later, s.Permits, want, s)
		}
	}
}

// TestServerBucketWithoutGetRange is of a user who may send what gcra sends, and nothing else.
func TestServerBucketWithoutGetRange(t *testing.T) {
	rdb := start(t)
	must(t, rdb.ACLSetUser(background, "ada", "on", ">pw", "~*", "+get", "+time").Err())
	must(t, rdb.MSet(background, "sluice:a:{s}:gcra1", layout.GCRA(5, 0, 7, 4, 1), "sluice:b:{s}:sr1:1000x2", "x").Err())
	must(t, rdb.LPush(background, "sluice:c:{s}:gcra1", "x").Err())
	ada := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "ada", Password: "pw",
		DisableIdentity: true})
	defer ada.Close()
	all, _, err := Read(background, ada, parsed(t, "sluice:a:{s}:gcra1", "sluice:b:{s}:sr1:1000x2", "sluice:c:{s}:gcra1"))
	must(t, err)
	if all[0].Bucket == nil || all[0].Err != nil || !strings.HasPrefix(all[2].Damage, "WRONGTYPE") {
		t.Errorf("%+v\n%+v", all[0], all[2])
	}
	if err := all[1].Err; err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("GETRANGE: %v", err)
	}
}

// TestServerDamage reads states that no script writes.
func TestServerDamage(t *testing.T) {
	rdb := start(t)
	now := uint64(rdb.Time(background).Val().UnixMicro())
	tests := []struct {
		key  string
		call []any
		want string
	}{
		{"ll1", []any{"rpush", "12", "x"}, `the last entry holds "x"`},
		{"ll1", []any{"rpush", "-1", "12"}, `the first entry holds "-1"`},
		{"ll1", []any{"rpush", strings.Repeat("9", 30)}, `holds "999999999999999999999999"...`},
		{"ll1", []any{"rpush", "00000000000000001"}, `holds "00000000000000001"`},
		{"ll1", []any{"set", "x"}, "WRONGTYPE"},
		{"zl1", []any{"zadd", "1.5", "m"}, "the last member has the score 1.5"},
		{"zl1", []any{"zadd", "-inf", "m", "5", "n"}, "the first member has the score -Inf"},
		{"zl1", []any{"hset", "f", "v"}, "WRONGTYPE"},
		{"tb1:all", []any{"rpush", "m"}, `the last entry is "m", want 20 bytes`},
		{"tb1:all", []any{"rpush", "m", layout.TokenBucketEntry(5, 1, 1)}, `the first entry is "m", want 20 bytes`},
		{"tb1:all", []any{"rpush", layout.TokenBucketEntry(5, 1, 0)}, "want a time, a running total and permits"},
		{"tb1:all", []any{"rpush", layout.TokenBucketEntry(5, 1<<53, 1)}, "want a time, a running total and permits"},
		{"tb1:all", []any{"rpush", layout.TokenBucketEntry(1<<53, 1, 1)}, "want a time, a running total and permits"},
		{"tb1:all", []any{"rpush", layout.TokenBucketEntry(5, 9, 1), layout.TokenBucketEntry(6, 1, 1)},
			"the running totals fall from 9 to 2"},
		{"tb1:all", []any{"set", "x"}, "WRONGTYPE"},
		{"tb1", []any{"hset", "rate", "5"}, `rate, interval and scope are "5", none, none`},
		{"tb1", []any{"hset", "rate", "0", "interval", "1000", "scope", "0"}, "rate, interval and scope"},
		{"tb1", []any{"set", "x"}, "WRONGTYPE"},
		{"sr1:1000000x60", []any{"set", "short"}, "it holds 5 bytes"},
		{"sr1:1000000x60", []any{"set", layout.SliceRing(now-5_000_000, 6, 0)}, "the ring ends early"},
		{"sr1:1000000x60", []any{"rpush", "x"}, "WRONGTYPE"},
		{"gcra1", []any{"set", "1 2 3 4"}, `it holds "1 2 3 4", want the 26 or 39 bytes of a bucket`},
		{"gcra1", []any{"set", layout.GCRA(100, 0, 7, 40, 5) + "x"}, "want the 26 or 39 bytes"},
		{"gcra1", []any{"sadd", "x"}, "WRONGTYPE"},
	}
	for _, test := range tests {
		must(t, rdb.FlushDB(background).Err())
		key := "sluice:a:{s}:" + test.key
		must(t, rdb.Do(background, append([]any{test.call[0], key}, test.call[1:]...)...).Err())
		all, _, err := Read(background, rdb, parsed(t, key))
		must(t, err)
		if s := all[0]; !s.Exists || s.Err != nil || !strings.Contains(s.Damage, test.want) {
			t.Errorf("%s %q: %q, want %q (%v)", test.key, test.call, s.Damage, test.want, s.Err)
		}
	}
}

// TestServerDamagedMiddle finds damage between the first and the last entry of a log.
func TestServerDamagedMiddle(t *testing.T) {
	rdb := start(t)
	must(t, rdb.RPush(background, "sluice:a:{s}:ll1", 1, 2, "x", 4, 5).Err())
	must(t, rdb.RPush(background, "sluice:a:{s}:tb1:all", layout.TokenBucketEntry(1, 0, 1), layout.TokenBucketEntry(2, 1,
		1), "x", layout.TokenBucketEntry(4, 5, 1),
		layout.TokenBucketEntry(5, 6, 1)).Err())
	all, _, err := Read(background, rdb, parsed(t, "sluice:a:{s}:ll1", "sluice:a:{s}:tb1:all"))
	must(t, err)
	for i, want := range []string{`entry 2 holds "x"`, `entry 2 is "x"`} {
		if _, err := all[i].Live(background, rdb, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
