package scripttest_test

import (
	"context"
	_ "embed" // the texts of scripts on a test clock
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/scripttest"
)

// harness runs scripts off the server, and checks of each call what every script promises: a denial, a look and an
// error write nothing.
type harness struct {
	t        testing.TB
	redis    *scripttest.Redis
	compiled map[string]*scripttest.Script
	withheld []string // commands that scripts may not call
}

func startHarness(t testing.TB, neverExpire bool) *harness {
	h := &harness{t: t, redis: scripttest.Start(t), compiled: map[string]*scripttest.Script{}}
	h.redis.NeverExpire(neverExpire)
	return h
}

func (h *harness) setTime(us int64) { h.redis.SetTime(us) }

func (h *harness) call(script *sluice.Script, look bool, keys, args []string) ([]int64, string) {
	h.t.Helper()
	before := h.redis.Snapshot()
	result := h.result(script, look, keys, args)
	if after := h.redis.Snapshot(); charged(script, keys, args, result) == 0 && after != before && len(h.withheld) == 0 {
		h.t.Errorf("%s %q granted nothing and changed the store\n from %s\n to   %s", script.Name, args, before, after)
	}
	if result.Err != nil {
		return nil, result.Err.Error()
	}
	for _, command := range result.Commands {
		if command.Write && charged(script, keys, args, result) == 0 {
			h.t.Errorf("%s %q granted nothing and wrote: %q", script.Name, args, command.Args)
		}
	}
	return integers(h.t, result.Reply), ""
}

func (h *harness) result(script *sluice.Script, look bool, keys, args []string) scripttest.Result {
	h.t.Helper()
	compiled := h.compiled[script.SHA1]
	if compiled == nil {
		compiled = compile(h.t, script.File, script.Source)
		h.compiled[script.SHA1] = compiled
	}
	if look {
		return compiled.RunRO(h.redis, keys, args)
	}
	return compiled.Run(h.redis, keys, args)
}

func compile(t testing.TB, name, source string) *scripttest.Script {
	t.Helper()
	if other, ok := t.(substitute); ok && source == other.source {
		copied := *other.script
		return &copied
	}
	known, ok := compiled.Load(source)
	if !ok {
		script, err := scripttest.Compile(name, source)
		must(t, err)
		known, _ = compiled.LoadOrStore(source, script)
	}
	copied := *known.(*scripttest.Script)
	return &copied
}

// compiled keeps a script for each source that was asked for.
var compiled sync.Map

// decides tells whether the script grants permits or denies them.
func decides(script *sluice.Script) bool {
	return slices.ContainsFunc(script.Reply, func(f sluice.Field) bool { return f.Name == "granted" })
}

// returns tells whether the script gives permits back.
func returns(script *sluice.Script) bool { return script.Reply[0].Name == "returned" }

// charged is what a call may write for, 0 with an error: the permits granted, to all subjects, reported, given back or
// released, or 1 for an id that was settled. token_bucket_set always writes.
func charged(script *sluice.Script, keys, args []string, result scripttest.Result) int64 {
	if result.Err != nil {
		return 0
	}
	if script.Name == "token_bucket_set" || reports(script, args) {
		return 1
	}
	sum, fields := int64(0), result.Reply.([]any)
	for one := range oneByOne(script, len(keys), fields) {
		n, _ := one[0].(int64)
		sum += max(n, 0)
	}
	return sum
}

// reports tells whether a call reports permits.
func reports(script *sluice.Script, args []string) bool {
	at := slices.IndexFunc(script.Args, func(arg sluice.Field) bool { return arg.Name == "reported" })
	return at >= 0 && at < len(args) && strings.Trim(args[at], "0") != ""
}

// subjectsOf is how many a call for so many keys is about. Of each, a reply has four fields, and one for each window.
func subjectsOf(script *sluice.Script, keys, fields int) int {
	switch {
	case script.KeyGroup == nil:
		return 1
	case script.Group != nil:
		return max((fields-1-keys)/4, 1)
	}
	return max(keys, 1)
}

// oneByOne are the replies for each subject of so many keys as those of the script for one. Another script has one reply.
func oneByOne[E any](script *sluice.Script, keys int, reply []E) iter.Seq[[]E] {
	if script.KeyGroup == nil || len(reply) == 0 {
		return slices.Values([][]E{reply})
	}
	return func(yield func([]E) bool) {
		for fields := range slices.Chunk(reply[1:], max((len(reply)-1)/subjectsOf(script, keys, len(reply)), 1)) {
			if !yield(slices.Insert(slices.Clone(fields), min(4, len(fields)), reply[0])) {
				return
			}
		}
	}
}

func integers(t testing.TB, reply any) []int64 {
	t.Helper()
	fields, ok := reply.([]any)
	if !ok {
		t.Errorf("reply %v, want an array", reply)
	}
	numbers := make([]int64, len(fields))
	for i, field := range fields {
		if numbers[i], ok = field.(int64); !ok {
			t.Errorf("reply %v, want integers only", reply)
		}
	}
	return numbers
}

func (h *harness) do(args ...string) string {
	reply, err := h.redis.Do(anys(args)...)
	if err != nil {
		return err.Error()
	}
	return rendered(reply)
}

// remote is a server that is reached through go-redis.
type remote struct {
	t      testing.TB
	client *redis.Client
	fcall  bool // call functions
	clock  func(us int64)
	// edit is what the server's copy of a script differs in.
	edit func(source string) string
}

func (r *remote) setTime(us int64) { r.clock(us) }

func (r *remote) do(args ...string) string {
	reply, err := r.client.Do(context.Background(), anys(args)...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err.Error()
	}
	return rendered(reply)
}

// startMiniredis is stock miniredis, called through go-redis.
func startMiniredis(t testing.TB) *remote {
	m := miniredis.RunT(t)
	client := connect(t, m.Addr())
	return &remote{
		t:      t,
		client: client,
		clock:  func(us int64) { m.SetTime(time.UnixMicro(us)) },
		edit:   func(source string) string { return source },
	}
}

// clockKey holds the time of the timelines on a real server: seconds, and microseconds of the second.
const clockKey = "sluice:test:clock"

// connectServer is a real server. Its clock is not ours to set, so the scripts read a key in place of TIME there,
// and what is left of a TTL by that clock. No TTL fires: the timelines are in 2100, and those that are a length
// of the server's time, gcra's and a new ring's, are made so long. All else is the script's.
func connectServer(t testing.TB, addr string) *remote {
	client := connect(t, addr)
	r := &remote{t: t, client: client}
	r.clock = func(us int64) {
		r.do("HSET", clockKey, "s", strconv.FormatInt(us/1e6, 10), "us", strconv.FormatInt(us%1e6, 10))
	}
	r.edit = onTestClock
	return r
}

//go:embed vectors/testclock.json
var testClock []byte

// onTestClock is a script that reads the time from clockKey: it has texts of vectors/testclock.json in place of others.
func onTestClock(source string) string {
	texts := map[string]string{}
	if err := json.Unmarshal(testClock, &texts); err != nil {
		panic(err)
	}
	for old, edited := range texts {
		source = strings.ReplaceAll(source, old, edited)
	}
	return source
}

func connect(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (r *remote) call(script *sluice.Script, look bool, keys, args []string) ([]int64, string) {
	if !r.fcall {
		return answerOf(runScript(r.client, r.edit(script.Source), keys, args))
	}
	name := strings.TrimSuffix(script.File, ".lua")
	if look {
		name = lookOf(script)
	}
	return answerOf(r.client.FCall(context.Background(), name, keys, anys(args)...))
}

// runScript runs a script by EVALSHA, or by EVAL if the server does not have it.
func runScript(client *redis.Client, source string, keys, args []string) *redis.Cmd {
	return redis.NewScript(source).Run(context.Background(), client, keys, anys(args)...)
}

// answerOf returns the reply, or the error as the script returned it, without where Redis says that it was raised.
func answerOf(cmd *redis.Cmd) ([]int64, string) {
	reply, err := cmd.Int64Slice()
	if err == nil {
		return reply, ""
	}
	text, _, _ := strings.Cut(err.Error(), " script: ")
	return nil, text
}

// eachServer runs the test against every server that SLUICE_SERVERS lists, or the one that was found.
func eachServer(t *testing.T, test func(t *testing.T, server *redistest.Server)) {
	for _, binary := range redistest.Servers(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(binary, "/"), "/", "_"), func(t *testing.T) {
			test(t, redistest.StartBinary(t, binary))
		})
	}
}
