package scripttest_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// Redis does not take back what a script wrote before a command was refused: by an ACL, or because it was renamed. So
// the scripts do. These tests withhold every command of each script in turn, on every path that writes.

// withheldCalls are calls on those paths: what came before, and the call.
func withheldCalls(script *sluice.Script) []cost {
	return map[*sluice.Script][]cost{
		&listLogV1Script:            logCalls(""),
		&zsetLogV1Script:            append(costsWithIDs(logCalls(" *")), zsetCalls...),
		&tokenBucketV1Script:        append(bucketCalls(logCalls("")), configCalls...),
		&tokenBucketSetV1Script:     setCalls,
		&sliceRingV1Script:          ringCalls,
		&sliceRingReturnV1Script:    returnCalls,
		&listLogReturnV1Script:      listReturnCalls,
		&zsetLogReturnV1Script:      zsetReturnCalls,
		&budgetV1Script:             budgetCalls,
		&budgetSettleV1Script:       settleCalls,
		&gcraV1Script:               gcraCalls,
		&concurrencyV1Script:        slotCalls,
		&concurrencyReleaseV1Script: releaseCalls,
		&quotaV1Script:              quotaCalls,
		&quotaReturnV1Script:        quotaReturns,
		&gcraManyV1Script:           append(manyCalls("3 10s 3 1 0"), gcraCalls...),
		&listLogManyV1Script:        append(manyCalls("3 10s 1 0"), logCalls("")...),
		&sliceRingManyV1Script:      append(manyCalls("1 0 1s 4 3"), ringCalls...),
	}[script]
}

func logCalls(id string) []cost {
	full := line{"0s", "3 10s 3 0" + id, ""}
	return []cost{
		{"the first grant", nil, line{"0s", "3 10s 1 0" + id, ""}},
		{"the first grant of several", nil, line{"0s", "3 10s 2 0" + id, ""}},
		{"a later grant", after("0s 9 10s 2 0" + id), line{"1s", "9 10s 1 0" + id, ""}},
		{"a later grant of several", after("0s 9 10s 2 0" + id), line{"1s", "9 10s 3 0" + id, ""}},
		{"another in this microsecond", after("0s 9 10s 2 0" + id), line{"0s", "9 10s 1 0" + id, ""}},
		{"a booking", []line{full}, line{"1s", "3 10s 2 60s" + id, ""}},
		{"a booking behind a booking", []line{full, {"1s", "3 10s 1 60s" + id, ""}}, line{"2s", "3 10s 2 60s" + id, ""}},
		{"a grant that trims", after("0s 3 10s 1 0"+id, "5s 3 10s 1 0"+id), line{"10s", "3 10s 2 0" + id, ""}},
		{"all have left in this microsecond", []line{full}, line{"10s", "3 10s 2 0" + id, ""}},
		{"void: a clock was years ahead", after("50000h 3 10s 3 0" + id), line{"0s", "3 10s 2 0" + id, ""}},
	}
}

var zsetCalls = []cost{
	{"an id", nil, line{"0s", "9 10s 1 0 a", ""}},
	{"an id of several", after("0s 9 10s 2 0 b"), line{"0s", "9 10s 3 0 a", ""}},
	{"an id that is a time", after("0s 9 10s 2 0 b", "0s 9 10s 1 0 4102444801000000"), line{"1s", "9 10s 2 0 a", ""}},
	{"an id asked again", after("0s 9 10s 2 0 a"), line{"1s", "9 10s 2 0 a", ""}},
}

// bucketCalls are calls of a log with the scope that a bucket takes.
func bucketCalls(calls []cost) (bucket []cost) {
	scoped := func(l line) line {
		words := strings.Fields(l.do)
		return line{l.at, strings.Join(slices.Insert(words, 2, "0"), " "), ""}
	}
	for _, c := range calls {
		b := cost{c.name, nil, scoped(c.call)}
		for _, l := range c.before {
			b.before = append(b.before, scoped(l))
		}
		bucket = append(bucket, b)
	}
	return bucket
}

var configCalls = []cost{
	{"each client by itself", nil, line{"0s", "3 10s 1 1 0", ""}},
	{"the config outlives the permits", after("0s 9 10s 0 1 0"), line{"99ms", "9 10s 0 2 0", ""}},
	{"the config was lost", after("0s 9 10s 0 1 0", "0s !DEL $1"), line{"1s", "9 10s 0 2 0", ""}},
	{"the config was set to stay", after("0s !HSET $1 rate 9 interval 10000000 scope 0"), line{"1s", "9 10s 0 2 0", ""}},
	{"a second grant under a config that stays", after("0s !HSET $1 rate 9 interval 10000000 scope 0", "0s 9 10s 0 1 0"),
		line{"1s", "9 10s 0 2 0", ""}},
}

var setCalls = []cost{
	{"the first", nil, line{"0s", "5 10s 0", ""}},
	{"another", after("0s 5 10s 0"), line{"0s", "6 20s 1", ""}},
	{"of one that expires", after("0s 5 10s 0", "0s !PEXPIRE $1 5000"), line{"0s", "6 20s 1", ""}},
	{"mended", after("0s !HSET $1 rate x more 1", "0s !PEXPIRE $1 5000"), line{"0s", "6 20s 1", ""}},
}

var ringCalls = []cost{
	{"the first grant", nil, line{"0s", "2 0 1s 4 9", ""}},
	{"several windows", nil, line{"0s", "2 0 1s 4 9 1s 2 5", ""}},
	{"the same slice", after("0s 2 0 1s 4 9"), line{"0s", "2 0 1s 4 9", ""}},
	{"the next slice", after("0s 2 0 1s 4 9"), line{"1s", "2 0 1s 4 9", ""}},
	{"a gap", after("0s 2 0 1s 4 9"), line{"2s", "2 0 1s 4 9", ""}},
	{"a gap across the ring's end", after("0s 2 0 1s 4 9", "2s 1 0 1s 4 9"), line{"5s", "2 0 1s 4 9", ""}},
	{"several windows across a gap", after("0s 2 0 1s 4 9 1s 3 9"), line{"2s", "2 0 1s 4 9 1s 3 9", ""}},
	{"a window that is new", after("0s 2 0 1s 4 9"), line{"1s", "2 0 1s 4 9 1s 2 9", ""}},
	{"a window that is new, and first", after("0s 2 0 1s 4 9"), line{"1s", "2 0 1s 2 9 1s 4 9", ""}},
	{"behind the last slice", after("5s 2 0 1s 4 9"), line{"2s", "2 0 1s 4 9", ""}},
	{"all have left in this microsecond", after("0s 2 0 1s 4 9"), line{"4s", "2 0 1s 4 9", ""}},
	{"void: a clock was years ahead", after("50000h 9 0 1s 4 9"), line{"0s", "2 0 1s 4 9", ""}},
	{"a report", after("0s 2 0 1s 4 9"), line{"1s", "0 9 1s 4 9", ""}},
	{"a report beside what is denied", after("0s 2 0 1s 4 9"), line{"1s", "9 9 1s 4 9", ""}},
}

var returnCalls = []cost{
	{"in the same slice", after("0s slice_ring 2 0 1s 4 9"), line{"0s", "@0s 1 1s 4", ""}},
	{"across the ring's end", after("0s slice_ring 2 0 1s 4 9", "2s slice_ring 2 0 1s 4 9"), line{"2s", "@0s 1 1s 4", ""}},
	{"in several windows", after("0s slice_ring 2 0 1s 4 9 1s 3 9"), line{"1s", "@0s 1 1s 4 1s 3", ""}},
}

var listReturnCalls = []cost{
	{"the newest", after("0s list_log 9 10s 2 0", "1s list_log 9 10s 2 0"), line{"2s", "@1s 2", ""}},
	{"some of the newest", after("0s list_log 9 10s 2 0", "1s list_log 9 10s 3 0"), line{"2s", "@1s 2", ""}},
	{"behind others", after("0s list_log 9 10s 2 0", "1s list_log 9 10s 3 0"), line{"2s", "@0s 1", ""}},
	{"all", after("0s list_log 9 10s 2 0"), line{"2s", "@0s 2", ""}},
}

var zsetReturnCalls = []cost{
	{"the newest", after("0s zset_log 9 10s 2 0 a", "1s zset_log 9 10s 2 0 b"), line{"2s", "b 2", ""}},
	{"some of the newest", after("0s zset_log 9 10s 2 0 a", "1s zset_log 9 10s 3 0 b"), line{"2s", "b 2", ""}},
	{"behind others", after("0s zset_log 9 10s 2 0 a", "1s zset_log 9 10s 3 0 b"), line{"2s", "a 1", ""}},
	{"all", after("0s zset_log 9 10s 2 0 a"), line{"2s", "a 2", ""}},
}

var budgetCalls = []cost{
	{"the first grant", nil, line{"0s", "1h 2 1s 4 9", ""}},
	{"one permit", after("0s #b 1h 2 1s 4 9"), line{"0s", "1h 1 1s 4 9", ""}},
	{"the same slice", after("0s #b 1h 2 1s 4 9"), line{"0s", "1h 2 1s 4 9", ""}},
	{"a gap", after("0s #b 1h 2 1s 4 9"), line{"2s", "1h 2 1s 4 9", ""}},
	{"a gap across the ring's end", after("0s #b 1h 2 1s 4 9", "2s #c 1h 1 1s 4 9"), line{"5s", "1h 2 1s 4 9", ""}},
	{"several windows", after("0s #b 1h 2 1s 4 9"), line{"2s", "1h 2 1s 4 9 1s 3 9", ""}},
	{"behind the last slice", after("5s #b 1h 2 1s 4 9"), line{"2s", "1h 2 1s 4 9", ""}},
	{"all have left in this microsecond", after("0s #b 1h 2 1s 4 9"), line{"4s", "1h 2 1s 4 9", ""}},
	{"void: a clock was years ahead", after("50000h #b 1h 9 1s 4 9"), line{"0s", "1h 2 1s 4 9", ""}},
	{"asked again", after("0s 1h 2 1s 4 9"), line{"1s", "1h 2 1s 4 9", ""}},
}

var settleCalls = []cost{
	{"the first charge", nil, line{"0s", "1h 2 1 1s 4", ""}},
	{"a charge in the same slice", after("0s #b 1h 2 1 1s 4"), line{"0s", "1h 2 1 1s 4", ""}},
	{"a charge of one", after("0s #b 1h 2 1 1s 4"), line{"0s", "1h 1 1 1s 4", ""}},
	{"a charge across the ring's end", after("0s #b 1h 2 1 1s 4", "2s #c 1h 2 1 1s 4"), line{"5s", "1h 2 1 1s 4", ""}},
	{"a charge of several windows", after("0s #b 1h 2 1 1s 4"), line{"2s", "1h 2 1 1s 4 1s 3", ""}},
	{"more than estimated", after("0s budget 1h 2 1s 4 9"), line{"1s", "1h 5 0 1s 4", ""}},
	{"more than estimated, and the ring is gone", after("0s budget 1h 2 1s 4 9", "0s !DEL $1/1sx4"),
		line{"1s", "1h 5 0 1s 4", ""}},
	{"as estimated", after("0s budget 1h 2 1s 4 9"), line{"1s", "1h 2 0 1s 4", ""}},
	{"as estimated, and the ring is gone", after("0s budget 1h 2 1s 4 9", "0s !DEL $1/1sx4"),
		line{"1s", "1h 2 0 1s 4", ""}},
	{"less than estimated", after("0s budget 1h 5 1s 4 9"), line{"1s", "3599s 2 0 1s 4", ""}},
	{"less, across the ring's end", after("0s budget 1h 5 1s 4 9", "2s budget #b 1h 2 1s 4 9"),
		line{"2s", "3598s 2 0 1s 4", ""}},
	{"less than estimated, and the ring is gone", after("0s budget 1h 5 1s 4 9", "0s !DEL $1/1sx4"),
		line{"1s", "1h 2 0 1s 4", ""}},
	{"less than estimated, in several windows", after("0s budget 1h 5 1s 4 9 1s 3 9"),
		line{"1s", "3599s 2 0 1s 4 1s 3", ""}},
}

var gcraCalls = []cost{
	{"the first grant", nil, line{"0s", "3 10s 3 1 0", ""}},
	{"a later grant", after("0s 3 10s 3 1 0"), line{"1s", "3 10s 3 1 0", ""}},
	{"a booking", after("0s 3 10s 3 3 0"), line{"1s", "3 10s 3 3 60s", ""}},
	{"void: a clock was years ahead", after("50000h 3 10s 3 3 0"), line{"0s", "3 10s 3 2 0", ""}},
	{"a narrower window", after("0s 3 1h 3 1 0"), line{"1s", "3 10s 1000 1 0", ""}},
}

var quotaCalls = []cost{
	{"the first grant", nil, line{"0s", "9 1 0" + days, ""}},
	{"another", after("0s 9 1 0" + days), line{"1s", "9 1 0" + days, ""}},
	{"the first of a period", after("0s 9 1 0" + days), line{"24h", "9 1 0" + days, ""}},
}

var quotaReturns = []cost{
	{"some", after("0s quota 9 3 0" + days), line{"0s", "@0s 2", ""}},
	{"what was made to stay", append(after("0s quota 9 3 0"+days), line{"", "!PERSIST $1", "1"}), line{"0s", "@0s 3", ""}},
}

var slotCalls = []cost{
	{"the first grant", nil, line{"0s", "3 10s 0 a", ""}},
	{"another", after("0s 3 10s 0 a"), line{"1s", "3 10s 0 b", ""}},
	{"another that ends sooner", after("0s 3 10s 0 a"), line{"1s", "3 5s 0 b", ""}},
	{"a renewal", after("0s 3 10s 0 a", "1s 3 10s 0 b"), line{"2s", "3 10s 1 a", ""}},
	{"a renewal of the only one", after("0s 3 10s 0 a"), line{"2s", "3 10s 0 a", ""}},
	{"a renewal that lengthens nothing", after("0s 3 10s 0 a"), line{"2s", "3 1s 1 a", ""}},
	{"a grant that removes", after("0s 3 10s 0 a", "1s 3 10s 0 b"), line{"10s", "3 10s 0 c", ""}},
	{"a renewal that removes", after("0s 3 10s 0 a", "1s 3 10s 0 b"), line{"10s", "3 10s 1 b", ""}},
	{"taken anew", after("0s 3 10s 0 a", "1s 3 10s 0 b"), line{"10s", "3 10s 0 a", ""}},
	{"all have ended in this microsecond", after("0s 3 10s 0 a"), line{"10s", "3 10s 0 b", ""}},
}

var releaseCalls = []cost{
	{"the only lease", after("0s concurrency 3 10s 0 a"), line{"1s", "a", ""}},
	{"the first to end", after("0s concurrency 3 10s 0 a", "1s concurrency 3 10s 0 b"), line{"1s", "a", ""}},
	{"the last to end", after("0s concurrency 3 10s 0 a", "1s concurrency 3 10s 0 b"), line{"1s", "b", ""}},
	{"the last beside an ended one", after("0s concurrency 3 10s 0 a", "1s concurrency 3 10s 0 b"),
		line{"10s", "b", ""}},
}

// removals are commands that remove what has expired or is void; that need not be taken back.
var removals = []string{"UNLINK", "LTRIM", "ZREMRANGEBYRANK"}

// writes are the commands of the scripts that write.
var writes = append([]string{
	"HDEL", "HSET", "LREM", "PERSIST", "PEXPIRE", "PEXPIREAT", "RPUSH", "SET", "SETRANGE", "ZADD", "ZREM",
}, removals...)

// refusal is what a server says where the user may not call a command, or the command does not exist.
var refusal = regexp.MustCompile(`can't run this command|Unknown Redis command|[Nn]o permissions|NOPERM`)

// A guarded target runs scripts for a user without the right to every command.
type guarded interface {
	target
	withhold(commands ...string)
	state(keys []string) string // values and expiry
}

func (h *harness) withhold(commands ...string) {
	h.withheld = commands
	h.redis.Refuse(commands...)
}

func (h *harness) state([]string) string { return h.redis.Snapshot() }

// checkWithheld has the harness refuse commands.
func (tab table) checkWithheld(t testing.TB) {
	tab.withhold(t, true, func() guarded { return startHarness(t, false) })
}

func TestWithheldOnOtherInterpreters(t *testing.T) {
	for _, program := range []string{"luajit", "lua5.4"} {
		t.Run(program, func(t *testing.T) {
			other := startInterpreter(t, program)
			eachTable(t, func(t *testing.T, tab table) {
				tab.withhold(t, false, func() guarded { return interpreter{startHarness(t, false), other} })
			})
		})
	}
}

// withhold withholds each command in turn, and every two that write, so that taking back is refused too.
func (tab table) withhold(t testing.TB, pairs bool, start func() guarded) {
	for _, c := range withheldCalls(tab.script) {
		sent := tab.sent(t, c)
		for i, first := range tab.script.Commands {
			tab.refuse(t, start, c, sent, first)
			for _, second := range tab.script.Commands[i+1:] {
				if pairs && slices.Contains(writes, first) && slices.Contains(writes, second) {
					tab.refuse(t, start, c, sent, first, second)
				}
			}
		}
	}
}

// sent are the commands that a call sends where none is withheld.
func (tab table) sent(t testing.TB, c cost) (commands [][]string) {
	h := startHarness(t, false)
	tab.play(h, timeline{lines: c.before})
	h.setTime(epoch + microseconds(c.call.at))
	keys, args := tab.asked(c.call.do)
	result := h.result(tab.script, false, keys, args)
	if result.Err != nil || charged(tab.script, keys, args, result) == 0 {
		t.Errorf("%s, %s: %v, %v; want a grant", tab.script.Name, c.name, result.Reply, result.Err)
	}
	for _, command := range result.Commands {
		commands = append(commands, command.Args)
	}
	return commands
}

// refuse makes a call with commands withheld. What is stored must be what was, without what the call may remove. Where
// what takes back may be withheld too, or a command is needed for a later one of many keys only, it counts no less, and
// expires if it can. A return that is refused gives nothing back, whatever else is withheld, and rings are charged all or
// none.
func (tab table) refuse(t testing.TB, start func() guarded, c cost, sent [][]string, commands ...string) {
	prepared := func() guarded {
		on := start()
		tab.play(on, timeline{lines: c.before})
		on.setTime(epoch + microseconds(c.call.at))
		return on
	}
	on := prepared()
	keys, args := tab.asked(c.call.do)
	for _, command := range sent {
		if slices.Contains(removals, command[0]) && !slices.Contains(commands, command[0]) {
			on.do(command...)
		}
	}
	removed := tab.counted(on, keys)
	on = prepared()
	before, free, stay := tab.counted(on, keys), tab.remaining(on, c), staying(on, keys)

	on.withhold(commands...)
	_, failed := on.call(tab.script, false, keys, args)
	on.withhold()

	named, _ := tab.called(c.call.do)
	ofRings := strings.Contains(tab.script.State, "sr/1")
	where := fmt.Sprintf("%s, %s, without %q", tab.script.Name, c.name, commands)
	needed := slices.ContainsFunc(sent, func(command []string) bool { return slices.Contains(commands, command[0]) })
	after := tab.counted(on, keys)
	switch {
	case !needed && failed != "":
		t.Errorf("%s: %s; it does not send them otherwise", where, failed)
	case needed && !refusal.MatchString(failed):
		t.Errorf("%s: %q, want the server's refusal", where, failed)
	case needed && len(named.keys) <= len(tab.keys) && (len(commands) == 1 || returns(tab.script) || ofRings) &&
		after != before && after != removed:
		t.Errorf("%s: it left\n%s\nwant\n%s", where, after, before)
	case needed && tab.remaining(on, c) > free:
		t.Errorf("%s: %d remain, were %d", where, tab.remaining(on, c), free)
	case needed && !slices.Contains(commands, "PEXPIREAT") && decides(tab.script) && staying(on, keys) > stay:
		t.Errorf("%s: a key without a TTL:\n%s", where, after)
	}
}

// Where the config may not be given its expiry, no permit is pushed that would have to be taken back.
func checkBucketPushesNothing(t testing.TB) {
	h := startHarness(t, false)
	h.withhold("PEXPIREAT", "LTRIM")
	_, failed := h.call(&tokenBucketV1Script, false, tokenBucketV1.keys, []string{"3", "10000000", "0", "1", "0"})
	if left := h.state(nil); !refusal.MatchString(failed) || left != "" {
		t.Errorf("%q, and it left %s", failed, left)
	}
}

// counted is the stored bytes and TTLs. Of rings it is what they hold: one may stay moved on to the current slice, which
// changes no decision. Of an id it is not the TTL, which may begin again.
func (tab table) counted(on guarded, keys []string) (all string) {
	if !strings.Contains(tab.script.State, "sr/1") {
		return on.state(keys)
	}
	for _, key := range keys {
		if _, window, isRing := strings.Cut(key, ":sr1:"); isRing {
			slice, size, _ := strings.Cut(window, "x")
			look, failed := on.call(&sliceRingV1Script, true, []string{key}, []string{"0", "0", slice, size, "1000000000"})
			all += fmt.Sprintln(key, look[min(5, len(look)):], failed)
		} else {
			all += on.do("GET", key)
		}
	}
	return all
}

// remaining is what a look sees, by a user who may call everything.
func (tab table) remaining(on target, c cost) int64 {
	if !decides(tab.script) {
		return 0
	}
	keys, args := tab.asked(c.call.do)
	i, look := lookArg(tab.script)
	args[i] = look
	if reports(tab.script, args) {
		args[1] = "0"
	}
	reply, _ := on.call(tab.script, true, keys, args)
	sum := int64(0)
	for one := range oneByOne(tab.script, len(keys), reply) {
		sum += append(one, 0, 0)[1]
	}
	return sum
}

// staying is how many of the keys have no TTL.
func staying(on target, keys []string) (n int) {
	for _, key := range keys {
		if on.do("PTTL", key) == "-1" {
			n++
		}
	}
	return n
}

// A guardedServer is a stepped server, and a user who may not call everything.
type guardedServer struct {
	steppedServer
	user *redis.Client
}

// TestServerWithheldByACL has a real server's ACL refuse commands.
func TestServerWithheldByACL(t *testing.T) {
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		if text := s.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all"); text != "OK" {
			t.Logf("no ACL here: %s", text)
			return
		}
		user := redis.NewClient(&redis.Options{
			Addr: s.client.Options().Addr, Username: "app", Password: "secret",
			Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		})
		t.Cleanup(func() { _ = user.Close() })
		eachTable(t, func(t *testing.T, tab table) {
			tab.withhold(t, true, func() guarded {
				s.do("FLUSHALL")
				return guardedServer{s, user}
			})
		})
	})
}

// A user may have the right to write some keys only. What was granted to keys before the one that is refused stays, and
// expires.
func TestServerManyRefusedForALaterKey(t *testing.T) {
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		keys := append(gcraManyV1.keys, gcraManyV1.more...)
		if text := s.do("ACL", "SETUSER", "some", "on", ">secret", "~*", "+evalsha", "+time", "+get",
			"(~"+keys[0]+" +set)"); text != "OK" {
			t.Logf("no selectors here: %s", text)
			return
		}
		user := redis.NewClient(&redis.Options{
			Addr: s.client.Options().Addr, Username: "some", Password: "secret",
			Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		})
		t.Cleanup(func() { _ = user.Close() })
		_, failed := callAs(user, s.client, &gcraManyV1Script, keys, []string{"3", "10000000", "3", "1", "0"})
		if !strings.Contains(failed, "can't access") && !refusal.MatchString(failed) {
			t.Errorf("%q, want the server's refusal", failed)
		}
		got := fmt.Sprintf("%s %s %d", s.do("EXISTS", keys[0]), s.do("EXISTS", keys[1]), staying(s, keys))
		if got != "1 0 0" {
			t.Errorf("got %s, want a grant of the first key alone, with a TTL", got)
		}
	})
}

func (s guardedServer) withhold(commands ...string) {
	rules := []string{"ACL", "SETUSER", "app", "+@all"}
	for _, command := range commands {
		rules = append(rules, "-"+strings.ToLower(command))
	}
	if text := s.do(rules...); text != "OK" {
		s.t.Errorf("%q: %s", rules, text)
	}
}

func (s guardedServer) call(script *sluice.Script, _ bool, keys, args []string) ([]int64, string) {
	return callAs(s.user, s.client, script, keys, args)
}

// callAs is EVALSHA for one client, of a script that another loads.
func callAs(user, admin *redis.Client, script *sluice.Script, keys, args []string) ([]int64, string) {
	ctx := context.Background()
	reply, err := user.EvalSha(ctx, sha1Hex(script.Source), keys, anys(args)...).Int64Slice()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		if err := admin.ScriptLoad(ctx, script.Source).Err(); err != nil {
			return nil, err.Error()
		}
		reply, err = user.EvalSha(ctx, sha1Hex(script.Source), keys, anys(args)...).Int64Slice()
	}
	if err != nil {
		return nil, err.Error()
	}
	return reply, ""
}

func (s steppedServer) state(keys []string) string {
	var out strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&out, "%s %q expires in %s\n", key, s.do("DUMP", key), s.do("PTTL", key))
	}
	return out.String()
}
