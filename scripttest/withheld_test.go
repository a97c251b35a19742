package scripttest_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

// Redis does not take back what a script wrote before a command was refused: by an ACL, or because it was renamed. So
// the scripts do. These tests withhold every command of each script in turn, on every path that writes.

// A path is a call that charges, what came before it, and the commands that it sends.
type path struct {
	before []line
	call   line
	sent   [][]string
}

// paths are the ways through a script that write. Of the calls in its timelines it is those with the fewest lines before
// them: for each row of commands sent, for one permit and for several, on keys that are new, that expire and that stay,
// and with each flag.
// What follows an entry that no script wrote is left out.
func (tab table) paths(t testing.TB) []path {
	found := map[string]path{}
	for _, tl := range tab.timelines {
		h, at := startHarness(t, false), ""
		for i, l := range tl.lines {
			at = cmp.Or(l.at, at, "0s")
			now := epoch + microseconds(at)
			h.setTime(now)
			command, isCommand := strings.CutPrefix(l.do, "!")
			if name, _, _ := strings.Cut(command, " "); isCommand && slices.Contains(entering, name) {
				break
			}
			if called, _ := tab.called(l.do); isCommand || called.script != tab.script {
				tab.step(h, l, now)
				continue
			}
			keys, args := tab.asked(l.do)
			way := ""
			for _, key := range keys {
				way += strings.TrimLeft(h.do("PTTL", key), "0123456789") + ","
			}
			for i, field := range tab.script.Args {
				if field.Max == 1 && i < len(args) {
					way += args[i]
				}
			}
			result := h.result(tab.script, false, keys, args)
			permits := charged(tab.script, keys, args, result)
			way += fmt.Sprint(min(permits, 2), rowOf(result.Commands))
			if known, ok := found[way]; permits > 0 && (!ok || i < len(known.before)) {
				found[way] = path{tl.lines[:i], line{at, l.do, ""}, words(result.Commands)}
			}
		}
	}
	return slices.Collect(maps.Values(found))
}

// entering are commands by which a timeline writes entries.
var entering = []string{"LSET", "RPUSH", "SET", "SETRANGE", "ZADD"}

// rowOf is the names of commands; of reading commands in a row, each comes once.
func rowOf(commands []scripttest.Command) string {
	var names []string
	for i, c := range commands {
		if c.Write || i == 0 || commands[i-1].Args[0] != c.Args[0] {
			names = append(names, c.Args[0])
		}
	}
	return strings.Join(names, " ")
}

func words(commands []scripttest.Command) (all [][]string) {
	for _, c := range commands {
		all = append(all, c.Args)
	}
	return all
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
	for _, way := range tab.paths(t) {
		for i, first := range tab.script.Commands {
			tab.refuse(t, start, way, first)
			for _, second := range tab.script.Commands[i+1:] {
				if pairs && slices.Contains(writes, first) && slices.Contains(writes, second) {
					tab.refuse(t, start, way, first, second)
				}
			}
		}
	}
}

// refuse makes a call with commands withheld. What is stored must be what was, without what the call may remove. Where
// what takes back may be withheld too, or a command is needed for a later one of many keys only, it counts no less, and
// expires if it can. A return that is refused gives nothing back, whatever else is withheld, and rings are charged all or
// none.
func (tab table) refuse(t testing.TB, start func() guarded, way path, commands ...string) {
	prepared := func() guarded {
		on := start()
		tab.play(on, timeline{lines: way.before})
		on.setTime(epoch + microseconds(way.call.at))
		return on
	}
	on := prepared()
	keys, args := tab.asked(way.call.do)
	for _, command := range way.sent {
		if slices.Contains(removals, command[0]) && !slices.Contains(commands, command[0]) {
			on.do(command...)
		}
	}
	removed := tab.counted(on, keys)
	on = prepared()
	before, free, stay := tab.counted(on, keys), tab.remaining(on, way), staying(on, keys)

	on.withhold(commands...)
	_, failed := on.call(tab.script, false, keys, args)
	on.withhold()

	named, _ := tab.called(way.call.do)
	ofRings := strings.Contains(tab.script.State, "sr/1")
	where := fmt.Sprintf("%s, %s, after %q without %q", tab.script.Name, way.call.do, way.before, commands)
	needed := slices.ContainsFunc(way.sent, func(command []string) bool { return slices.Contains(commands, command[0]) })
	after := tab.counted(on, keys)
	switch {
	case !needed && failed != "":
		t.Errorf("%s: %s; it does not send them otherwise", where, failed)
	case needed && !refusal.MatchString(failed):
		t.Errorf("%s: %q, want the server's refusal", where, failed)
	case needed && len(named.keys) <= len(tab.keys) && (len(commands) == 1 || returns(tab.script) || ofRings) &&
		after != before && after != removed:
		t.Errorf("%s: it left\n%s\nwant\n%s", where, after, before)
	case needed && tab.remaining(on, way) > free:
		t.Errorf("%s: %d remain, were %d", where, tab.remaining(on, way), free)
	case needed && !slices.Contains(commands, "PEXPIREAT") && decides(tab.script) && staying(on, keys) > stay:
		t.Errorf("%s: a key without a TTL:\n%s", where, after)
	}
}

// What is taken back is named by its id: a score that is another's id takes nothing of that.
func checkTakesBackNoTime(t testing.TB) {
	h := startHarness(t, false)
	zsetLogV1.play(h, timeline{lines: after("0s 9 10s 1 0 4102444801000000")})
	before := h.state(nil)
	h.setTime(epoch + 1_000_000)
	h.withhold("PEXPIREAT")
	_, failed := h.call(&zsetLogV1Script, false, zsetLogV1.keys, []string{"9", "10000000", "2", "0", "a"})
	if left := h.state(nil); !refusal.MatchString(failed) || left != before {
		t.Errorf("%q, and it left %s", failed, left)
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
func (tab table) remaining(on target, way path) int64 {
	if !decides(tab.script) {
		return 0
	}
	keys, args := tab.asked(way.call.do)
	i, look := lookArg(tab.script)
	args[i] = look
	for at, arg := range tab.script.Args {
		if arg.Name == "reported" {
			args[at] = "0"
		}
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
