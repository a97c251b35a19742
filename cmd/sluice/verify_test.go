package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// tried is what verify --try --json found: the codes, each once, behind the verdict.
func tried(t *testing.T, env []string, wantStatus int, args ...string) string {
	t.Helper()
	got := sluiceRun(env, append([]string{"verify", "--try", "--json"}, args...)...)
	var report struct {
		Verdict  string
		Findings []finding
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.status != wantStatus {
		t.Errorf("status %d, want %d, %v\n%s%s", got.status, wantStatus, err, got.stdout, got.stderr)
	}
	codes := namesOf(report.Findings, func(f finding) string { return string(f.Severity) + " " + f.Code })
	slices.Sort(codes)
	return strings.Join(append([]string{report.Verdict}, slices.Compact(codes)...), ", ")
}

// TestServerTry has a server in each state that verify --try finds, with the exit status for it.
func TestServerTry(t *testing.T) {
	full := func(t *testing.T, rdb *redis.Client, percent int) {
		t.Helper()
		must(t, rdb.SetRange(background, "other", 30_000_000, "x").Err())
		used := parseInfo(rdb.Info(background, "memory").Val())["used_memory"]
		var n int
		_, err := fmt.Sscan(used, &n)
		must(t, err)
		must(t, rdb.ConfigSet(background, "maxmemory", fmt.Sprint(n/percent*100)).Err())
	}
	set := func(t *testing.T, rdb *redis.Client, name, value string) {
		t.Helper()
		must(t, rdb.ConfigSet(background, name, value).Err())
	}
	tests := []struct {
		name   string
		server []string // arguments
		begin  func(t *testing.T, rdb *redis.Client)
		status int
		want   string
	}{
		{name: "all right", want: "ok"},
		{name: "no scripts", status: 1, want: "fault, fault missing", begin: func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.ScriptFlush(background).Err())
		}},
		{name: "no Lua", server: []string{"--rename-command", "EVALSHA", ""}, status: 1, want: "fault, fault no_lua"},
		{name: "a command that only busy limiters call", server: []string{"--rename-command", "LTRIM", "X1"}, status: 1,
			want: "fault, fault no_command"},
		{name: "a command of each grant", server: []string{"--rename-command", "PEXPIREAT", "X1"}, status: 1,
			want: "fault, fault no_command"},
		{name: "its keys cannot be removed", server: []string{"--rename-command", "UNLINK", ""}, status: 1,
			want: "fault, fault no_command"},
		{name: "memory is full", status: 1, want: "fault, fault memory_full, warning memory_low",
			begin: func(t *testing.T, rdb *redis.Client) { full(t, rdb, 110) }},
		{name: "little memory", status: 3, want: "warning, warning memory_low",
			begin: func(t *testing.T, rdb *redis.Client) { full(t, rdb, 95) }},
		{name: "enough memory", want: "ok", begin: func(t *testing.T, rdb *redis.Client) { full(t, rdb, 80) }},
		{name: "allkeys", server: []string{"--maxmemory-policy", "allkeys-lru"}, status: 3,
			want: "warning, warning eviction", begin: func(t *testing.T, rdb *redis.Client) { full(t, rdb, 50) }},
		{name: "allkeys without a limit", server: []string{"--maxmemory-policy", "allkeys-lru"}, want: "ok"},
		{name: "volatile", server: []string{"--maxmemory-policy", "volatile-ttl"}, want: "ok",
			begin: func(t *testing.T, rdb *redis.Client) { full(t, rdb, 50) }},
		{name: "volatile evicts", server: []string{"--maxmemory-policy", "volatile-ttl"}, status: 3,
			want: "warning, warning eviction", begin: func(t *testing.T, rdb *redis.Client) {
				grants(t, rdb, "x", "s")
				set(t, rdb, "maxmemory", "1")
				must(t, rdb.Del(background, "none").Err())
				redistest.Await(t, "it has evicted a key", func() bool { return rdb.DBSize(background).Val() == 0 })
				set(t, rdb, "maxmemory", "1gb")
			}},
		{name: "no TTL", status: 3, want: "warning, warning no_ttl", begin: func(t *testing.T, rdb *redis.Client) {
			grants(t, rdb, "x", "s")
			must(t, rdb.Persist(background, "sluice:x:{s}:ll1").Err())
		}},
		{name: "keys of others, and a rate that was set", want: "ok", begin: func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.Set(background, "other:x:{s}:ll1", 1, 0).Err())
			must(t, rdb.Set(background, "sluice:x:{s}:other", 1, 0).Err())
			sluiceDone(t, []string{"SLUICE_REDIS=" + rdb.Options().Addr}, "set-rate --new x s 5/1s")
		}},
		{name: "big keys", status: 3, want: "warning, warning lazyfree", begin: bigKey},
		{name: "big keys and lazyfree", want: "ok", begin: func(t *testing.T, rdb *redis.Client) {
			bigKey(t, rdb)
			set(t, rdb, "lazyfree-lazy-expire", "yes")
		}},
		{name: "big keys without CONFIG", server: []string{"--rename-command", "CONFIG", ""},
			want: "ok, note not_checked", begin: bigKey},
		{name: "nothing to look with", server: []string{"--rename-command", "SCAN", "", "--rename-command", "COMMAND", ""},
			want: "ok, note not_checked"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rdb := client(t, redistest.Start(t, test.server...).Addr)
			env := []string{"SLUICE_REDIS=" + rdb.Options().Addr}
			sluiceDone(t, env, "load")
			if test.begin != nil {
				test.begin(t, rdb)
			}
			before := keysIn(t, rdb)
			if got := tried(t, env, test.status); got != test.want {
				t.Errorf("found %s\nwant %s", got, test.want)
			}
			if test.name != "its keys cannot be removed" {
				wantKeys(t, rdb, before)
			} else if keys := keysIn(t, rdb); !strings.Contains(keys, "}:tb1 ") || !strings.Contains(keys, "}:gcra1 ") {
				t.Errorf("it has tried with %s", keys)
			}
			for key := range strings.FieldsSeq(keysIn(t, rdb)) {
				if ttl := rdb.PTTL(background, key).Val(); ttl <= 0 && strings.Contains(key, ":verify:") {
					t.Errorf("%s stays", key)
				}
			}
			got := sluiceRun(env, "verify", "--try")
			if got.status != test.status || strings.Contains(test.want, ", ") && !strings.Contains(got.stdout, "cure: ") {
				t.Errorf("status %d, want %d\n%s", got.status, test.status, got.stdout)
			}
		})
	}
}

func bigKey(t *testing.T, rdb *redis.Client) {
	t.Helper()
	script := `for i = 1, 10000 do redis.call("ZADD", KEYS[1], i, i) end redis.call("EXPIRE", KEYS[1], 999)`
	if err := rdb.Eval(background, script, []string{"sluice:x:{s}:zl1"}).Err(); err != redis.Nil {
		t.Fatal(err)
	}
}

// TestTryReplies has servers whose replies to a call that must be granted are wrong.
func TestTryReplies(t *testing.T) {
	for reply, want := range map[string]string{
		"*5\r\n:0\r\n:0\r\n:0\r\n:0\r\n:1\r\n":      "it replied with granted 0 to a call that must be granted",
		"*1\r\n:1\r\n":                              "its reply is [1]: want 5 integers",
		"*5\r\n$1\r\nx\r\n:0\r\n:0\r\n:0\r\n:1\r\n": "want 5 integers",
	} {
		addr := fakeServer(t, func(args []string) string {
			switch strings.ToLower(args[0]) {
			case "evalsha":
				return reply
			case "info":
				return "$11\r\nrole:master\r\n"
			case "ping":
				return "+PONG\r\n"
			}
			return unknownCommand(args)
		})
		wantSaid(t, sluiceRun(nil, "verify", "--try", "gcra", "--redis", addr), exitFailed, want)
	}
}

// TestServerTryBounded looks at no more keys than it says.
func TestServerTryBounded(t *testing.T) {
	rdb, env := started(t)
	script := `for i = 1, 11000 do redis.call("SET", "sluice:x:{" .. i .. "}:gcra1", i, "EX", 999) end`
	if err := rdb.Eval(background, script, nil).Err(); err != redis.Nil {
		t.Fatal(err)
	}
	sluiceDone(t, env, "load")
	wantText(t, sluiceRun(env, "verify", "--try"), exitDone,
		"note: (9...|100..) keys of prefix sluice looked at, among up to 10000 of each master")
	wantText(t, sluiceRun(env, "verify", "--try", "--prefix", "other"), exitDone, "note: 0 keys of prefix other")
	wantSaid(t, sluiceRun(env, "verify", "--try", "--prefix", "a:b"), exitUsage, "prefix is")
	file := filepath.Join(t.TempDir(), "gcra_v1.lua")
	must(t, os.WriteFile(file, []byte(sluice.GCRAV1().Source), 0o600))
	wantSaid(t, sluiceRun(env, "verify", "--try", file), exitUsage, "--try wants scripts that this program has")
}

// TestServerTryUser tries as the user of applications, who may look at nothing else.
func TestServerTryUser(t *testing.T) {
	rdb, env := started(t)
	setUsers(t, rdb, "--functions")
	sluiceDone(t, env, "load")
	sluiceDone(t, env, "load --functions")
	use := "--redis=redis://sluice-use:pw@" + rdb.Options().Addr
	wantText(t, sluiceRun(nil, "verify", "--try", use), exitDone, "gcra_v1 .* loaded, tried\n",
		"note: .*: not checked: memory: NOPERM .*\ncure: ACL SETUSER <name> \\+info", "renamed commands: NOPERM",
		"keys: NOPERM")
	must(t, rdb.Do(background, "acl", "setuser", "sluice-use", "+function|list").Err())
	wantText(t, sluiceRun(nil, "verify", "--try", "--functions", use), exitDone, "sluice_v1 .* loaded, tried\n")
	wantKeys(t, rdb, "")
	must(t, rdb.Do(background, append([]any{"acl", "setuser", "sluice-use"}, wordsOf(rightsToLook)...)...).Err())
	if got := tried(t, nil, exitDone, use); got != "ok" {
		t.Errorf("with the rights to look: %s", got)
	}

	must(t, rdb.Do(background, "acl", "setuser", "sluice-use", "-rpush", "-fcall").Err())
	got := sluiceRun(nil, "verify", "--try", use)
	wantText(t, got, exitFailed, "list_log_v1 .* failed\n", "gcra_v1 .* loaded, tried\n",
		"cure: grant this user the commands")
	if got := tried(t, nil, exitFailed, "--functions", use); got != "fault, fault no_right" {
		t.Errorf("without FCALL: %s", got)
	}
	must(t, rdb.Do(background, "acl", "setuser", "sluice-use", "-evalsha").Err())
	wantText(t, sluiceRun(nil, "verify", "--try", use), exitFailed, `\(all\) +- +failed\n\n.*'evalsha' command\n`)
	if got := tried(t, nil, exitFailed, strings.Replace(use, "pw", "no", 1)); got != "fault, fault no_right" {
		t.Errorf("with a wrong password: %s", got)
	}
}

// TestServerTryCluster wants every node to decide, or to be able to after a failover.
func TestServerTryCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3, 1)
	newcomer := redistest.StartClusterNode(t) // a master without slots
	redistest.Meet(t, newcomer.Client(t), servers[0].Client(t))
	addrs := append(addrsOf(servers), newcomer.Addr)
	redistest.Await(t, "the cluster knows the newcomer", func() bool {
		return strings.Contains(sluiceRun(nil, "load", "--cluster", addrs[0]).stdout, scripts(1)+" on 7 nodes")
	})
	for _, addr := range addrs {
		admin := client(t, addr)
		setUsers(t, admin, "--cluster")
		if addr == addrs[0] {
			wantText(t, sluiceRun(nil, "verify", "--try", "--cluster=sluice-use:pw@"+addr), exitFailed,
				`cluster\|nodes(.|\n)*cure: ACL SETUSER <name> \+cluster\|nodes \+info `)
		}
		rights := append([]any{"acl", "setuser", "sluice-use", "+cluster|nodes"}, wordsOf(rightsToLook)...)
		must(t, admin.Do(background, rights...).Err())
	}
	grants(t, inCluster(t, addrs[0]), "x", "s")
	use := "--cluster=sluice-use:pw@" + addrs[0]
	got := sluiceRun(nil, "verify", "--try", use)
	wantSaid(t, got, exitDone, "note: 1 key of prefix sluice looked at", scripts(1)+" on 7 nodes")
	if n := strings.Count(got.stdout, "  loaded, tried\n"); n != 3 ||
		strings.Contains(got.stdout, "not checked") {
		t.Errorf("%d decisions, or something was not checked\n%s", n, got.stdout)
	}
	for _, change := range []struct {
		want string
		make func(replica *redis.Client)
	}{
		{"missing", func(replica *redis.Client) { must(t, replica.ScriptFlush(background).Err()) }},
		{"no_right", func(replica *redis.Client) {
			must(t, replica.Do(background, "acl", "deluser", "sluice-use").Err())
		}},
		{"unreachable", func(*redis.Client) { servers[4].Kill() }},
	} {
		change.make(client(t, addrs[4]))
		got := sluiceRun(nil, "verify", "--try", "--json", use)
		wantText(t, got, exitFailed, `"code": "`+change.want+`",\s+"node": "`+addrs[4])
	}
}
