package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/internal/rights"
	"github.com/sluice-redis/sluice/loader"
)

var background = context.Background()

// needs are the arguments that a script wants at least.
var needs = map[string]string{
	"budget_v1":            "slice=1s ttl=1m slices=61 limit=3",
	"budget_settle_v1":     "slice=1s ttl=1m size=61 unknown=1",
	"gcra_v1":              "limit=3 window=1m",
	"gcra_many_v1":         "limit=3 window=1m subject_2=bob",
	"list_log_v1":          "limit=3 window=1m",
	"list_log_many_v1":     "limit=3 window=1m subject_2=bob",
	"slice_ring_v1":        "slice=1s slices=61 limit=3",
	"slice_ring_many_v1":   "slice=1s slices=61 limit=3 subject_2=bob",
	"token_bucket_v1":      "rate=3 interval=1m",
	"token_bucket_set_v1":  "rate=3 interval=1m",
	"zset_log_v1":          "limit=3 window=1m",
	"slice_ring_return_v1": "slice=1s taken=4102444800000000",
	"list_log_return_v1":   "moment=4102444800000000",
	"zset_log_return_v1":   "id=req-81",

	"concurrency_v1":         "limit=3 ttl=1m",
	"concurrency_release_v1": "",
}

func TestACLText(t *testing.T) {
	file := passwordFile(t)
	for args, want := range map[string]string{
		"--name rl --prefix shop list_log token_bucket_set": `ACL SETUSER rl-load reset on #SHA256-OF-ITS-PASSWORD resetchannels +info +ping +script|exists +script|load
ACL SETUSER rl-use reset on #SHA256-OF-ITS-PASSWORD resetchannels ~shop:* +evalsha +hdel +hmget +hset +lindex +llen +ltrim +persist +pexpireat +ping +pttl +rpush +time +unlink
ACL SETUSER rl-look reset on #SHA256-OF-ITS-PASSWORD resetchannels %R~shop:* +dbsize +evalsha_ro +exists +info +lindex +llen +memory|usage +object|encoding +pexpiretime +ping +pttl +scan +script|exists +time +type
`,
		"slice_ring_return": `ACL SETUSER sluice-load reset on #SHA256-OF-ITS-PASSWORD resetchannels +info +ping +script|exists +script|load
ACL SETUSER sluice-use reset on #SHA256-OF-ITS-PASSWORD resetchannels ~sluice:* +evalsha +getrange +ping +setrange
ACL SETUSER sluice-look reset on #SHA256-OF-ITS-PASSWORD resetchannels %R~sluice:* +dbsize +evalsha_ro +exists +info +memory|usage +object|encoding +pexpiretime +ping +pttl +scan +script|exists +time +type
`,
		"list_log_return zset_log_return": `ACL SETUSER sluice-load reset on #SHA256-OF-ITS-PASSWORD resetchannels +info +ping +script|exists +script|load
ACL SETUSER sluice-use reset on #SHA256-OF-ITS-PASSWORD resetchannels ~sluice:* +evalsha +lindex +llen +lrem +pexpire +ping +pttl +zrange +zrem +zscore
ACL SETUSER sluice-look reset on #SHA256-OF-ITS-PASSWORD resetchannels %R~sluice:* +dbsize +evalsha_ro +exists +info +memory|usage +object|encoding +pexpiretime +ping +pttl +scan +script|exists +time +type
`,
		"--format aclfile --give-back --cluster 127.0.0.1:1 gcra --password-file " +
			file: `user sluice-load on #26e466582de83799f38b6b572a723bb65b80a7d37b6fda00a2fbb4c5430768ae resetchannels +cluster|nodes +cluster|slots +info +ping +script|exists +script|load
user sluice-use on #26e466582de83799f38b6b572a723bb65b80a7d37b6fda00a2fbb4c5430768ae resetchannels ~sluice:* +asking +cluster|slots +evalsha +get +ping +set +time +unlink +zrem
user sluice-look on #26e466582de83799f38b6b572a723bb65b80a7d37b6fda00a2fbb4c5430768ae resetchannels %R~sluice:* +asking +cluster|nodes +cluster|slots +command +dbsize +evalsha_ro +exists +get +getrange +info +memory|usage +object|encoding +pexpiretime +ping +pttl +readonly +scan +script|exists +time +type
`,
		"--functions --client ioredis --cluster 127.0.0.1:1 gcra_many": `ACL SETUSER sluice-load reset on #SHA256-OF-ITS-PASSWORD resetchannels +cluster|nodes +cluster|slots +function|list +function|load +info +ping +script|exists +script|load
ACL SETUSER sluice-use reset on #SHA256-OF-ITS-PASSWORD resetchannels ~sluice:* +asking +client|setname +cluster|info +cluster|slots +evalsha +fcall +get +info +ping +set +time
ACL SETUSER sluice-look reset on #SHA256-OF-ITS-PASSWORD resetchannels %R~sluice:* +asking +client|setname +cluster|info +cluster|nodes +cluster|slots +command +dbsize +evalsha_ro +exists +fcall_ro +function|list +info +memory|usage +object|encoding +pexpiretime +ping +pttl +readonly +scan +script|exists +time +type
`,
	} {
		got := runLine(nil, "acl "+args)
		noted := strings.Contains(got.stderr, "--password-file")
		if got.status != exitDone || got.stdout != want || noted == strings.Contains(args, file) {
			t.Errorf("%s: status %d\n%s%s", args, got.status, cmp.Diff(want, got.stdout), got.stderr)
		}
	}
}

// passwordFile is one in which every user's password is "toothpaste".
func passwordFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "passwords")
	writeFile(t, file, 0o600, "sluice-load toothpaste\r\nsluice-use toothpaste\nsluice-look toothpaste")
	return file
}

func TestACLPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	writeFile(t, file, 0o600, "sluice-load a\nsluice-use \n")
	got := sluiceRun(nil, "acl", "--password-file", file)
	if got.status != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, "no password for sluice-use") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}

func TestACLClientUnknown(t *testing.T) {
	wantSaid(t, sluiceRun(nil, "acl", "--client", "jedis"), exitUsage, "want go-redis, redis-py, node-redis, ioredis")
}

// TestServerACLRefusesPlaceholder pastes what is printed without passwords.
func TestServerACLRefusesPlaceholder(t *testing.T) {
	admin := client(t, redistest.Start(t).Addr)
	for line := range strings.Lines(sluiceRun(nil, "acl").stdout) {
		if err := admin.Do(background, wordsOf(line)...).Err(); err == nil ||
			!strings.Contains(err.Error(), "SHA256-OF-ITS-PASSWORD") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if users := admin.Do(background, "acl", "users").Val(); fmt.Sprint(users) != "[default]" {
		t.Errorf("users %v", users)
	}
}

func wordsOf(line string) (args []any) {
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	return args
}

// TestServerACLFile has a server start with the file that is printed.
func TestServerACLFile(t *testing.T) {
	got := sluiceRun(nil, "acl", "--format", "aclfile", "--password-file", passwordFile(t))
	file := filepath.Join(t.TempDir(), "users.acl")
	writeFile(t, file, 0o600, got.stdout)
	server := redistest.Start(t, "--aclfile", file)
	wantSaid(t, sluiceRun(nil, "load", "--redis", "redis://sluice-load:toothpaste@"+server.Addr), exitDone)
}

func TestServerACL(t *testing.T) {
	everything := []string{"--enable-debug-command", "yes", "--enable-module-command", "yes",
		"--repl-diskless-sync-delay", "0"}
	master, replica := redistest.Start(t, everything...), redistest.Start(t, everything...)
	admin := client(t, master.Addr)
	for _, addr := range []string{master.Addr, replica.Addr} {
		got := sluiceRun(nil, "acl", "--apply", "--password-file", passwordFile(t), "--redis", "redis://"+addr)
		wantSaid(t, got, exitDone, "3 users on 1 node")
		wantNarrow(t, "acl", got.stdout)
	}
	as := func(user string, server *redistest.Server) *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: user, Password: "toothpaste"})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	url := func(user string, server *redistest.Server) string {
		return "--redis=redis://" + user + ":toothpaste@" + server.Addr
	}

	t.Run("a missing script names its cure", func(t *testing.T) {
		_, err := loader.New(as("sluice-use", master), loader.PreloadedOnly()).GCRA("x",
			loader.PerMinute(3)).Allow(background, "s")
		if !errors.Is(err, loader.ErrNotLoaded) || !strings.Contains(err.Error(), "sluice load") {
			t.Error(err)
		}
		wantSaid(t, sluiceRun(nil, "try", url("sluice-use", master), "gcra", "limit=3", "window=1m"), exitFailed,
			"cure: run sluice load")
	})
	for _, server := range []*redistest.Server{master, replica} {
		for _, command := range []string{"load", "verify"} {
			wantSaid(t, sluiceRun(nil, command, url("sluice-load", server)), exitDone, "master")
		}
	}
	for _, script := range sluice.All() {
		for _, more := range []string{"permits=1", "permits=1 max_wait=1s", "permits=0"} {
			words := strings.Fields(fullName(script) + " " + needs[fullName(script)])
			books := takes(script, "max_wait") || !strings.Contains(more, "max_wait")
			if stored.Decides(script) && takes(script, "permits") && books {
				words = append(words, strings.Fields(more)...)
			}
			wantSaid(t, sluiceRun(nil, append([]string{"try", url("sluice-use", master)}, words...)...), exitDone)
		}
	}

	t.Run("permits are given back", func(t *testing.T) {
		limits := loader.New(as("sluice-use", master), loader.PreloadedOnly())
		ring := limits.SliceRing("lent", []loader.Limit{loader.PerMinute(9)}, loader.Slice(time.Second),
			loader.LeaseAge(time.Second))
		d, err := ring.AllowN(background, "s", 5)
		must(t, err)
		script := sluice.SliceRingReturnV1
		keys, args := []string{"sluice:lent:{s}:sr1:1000000:1000000"}, []any{1_000_000, d.Now.UnixMicro(), 2}
		look := as("sluice-look", master)
		wantRefused(t, "EVALSHA_RO by one who looks", look.EvalShaRO(background, script.SHA1, keys, args...).Err())
		wantRefused(t, "EVALSHA by one who looks", look.EvalSha(background, script.SHA1, keys, args...).Err())
		reply, err := limits.Call(background, &script, keys, args...)
		if err != nil || reply[0] != 2 {
			t.Errorf("returned %d, %v", reply, err)
		}
		if d, err := ring.Peek(background, "s"); err != nil || d.Remaining != 6 {
			t.Errorf("%+v, %v", d, err)
		}
	})

	host, port, _ := net.SplitHostPort(master.Addr)
	must(t, client(t, replica.Addr).ReplicaOf(background, host, port).Err())
	redistest.Await(t, "the replica has everything", func() bool {
		return client(t, replica.Addr).DBSize(background).Val() == admin.DBSize(background).Val()
	})
	t.Run("looks on the replica", func(t *testing.T) {
		limits := loader.New(as("sluice-look", replica), loader.ReadReplicas(), loader.PreloadedOnly())
		for _, script := range sluice.All() {
			if !stored.Decides(script) {
				continue
			}
			args := strings.Fields(needs[fullName(script)])
			if takes(script, "permits") {
				args = append(args, "permits=0")
			}
			look, err := newAttempt(script, args)
			must(t, err)
			reply, err := limits.Call(background, &script, look.keys, look.args...)
			if err != nil || reply[1] > 2 {
				t.Errorf("%s: %d, %v; want what the master has granted", script.File, reply, err)
			}
			_, err = as("sluice-look", master).EvalSha(background, script.SHA1, look.keys, look.args...).Result()
			wantRefused(t, "EVALSHA by one who looks", err)
		}
		wantNoRefusals(t, client(t, replica.Addr))
	})

	users := aclFlags{name: "sluice", prefix: "sluice", client: rights.Clients()[0]}.users(sluice.All())
	for _, user := range users {
		t.Run(user.name+" may nothing else", func(t *testing.T) { refusesAllElse(t, admin, as(user.name, master), user) })
	}
	t.Run("nor on the replica", func(t *testing.T) {
		refusesAllElse(t, client(t, replica.Addr), as("sluice-look", replica), users[2])
	})
	t.Run("keys outside the prefix", func(t *testing.T) {
		for _, user := range users[1:] {
			refusesOtherKeys(t, as(user.name, master), user)
		}
		sum := admin.ScriptLoad(background, `return redis.call("GET", "other")`).Val()
		wantRefused(t, "a key that a script has not declared", as("sluice-use", master).EvalSha(background, sum, nil).Err())
	})
}

// refusesAllElse sends every command that the server knows.
func refusesAllElse(t *testing.T, admin, rdb *redis.Client, user aclUser) {
	t.Helper()
	sent := 0
	for _, command := range everyCommand(t, admin) {
		switch command.name {
		case "auth", "hello", "quit", "reset":
			continue // every connection may send these before it authenticates
		}
		args := []any{}
		for _, word := range strings.Split(command.name, "|") {
			args = append(args, word)
		}
		for len(args) < command.words {
			args = append(args, "sluice:x")
		}
		err := rdb.Do(background, args...).Err()
		sent++
		refused := err != nil && strings.Contains(err.Error(), "NOPERM") && strings.Contains(err.Error(), "run the")
		if refused == slices.Contains(user.commands, command.name) {
			t.Errorf("%s: %v", command.name, err)
		}
	}
	if sent < 300 {
		t.Errorf("%d commands", sent)
	}
	must(t, admin.Ping(background).Err())
}

// serverCommand is one that a server knows, a container's as container|subcommand.
type serverCommand struct {
	name  string
	words int // that it takes at least, with its name
}

func everyCommand(t *testing.T, admin *redis.Client) (all []serverCommand) {
	t.Helper()
	var add func(list []any)
	add = func(list []any) {
		for _, entry := range list {
			fields := entry.([]any)
			words := int(fields[1].(int64))
			subcommands := fields[9].([]any)
			if len(subcommands) == 0 || words == -1 { // COMMAND is one with subcommands and without
				all = append(all, serverCommand{fields[0].(string), max(words, -words)})
			}
			add(subcommands)
		}
	}
	list, err := admin.Do(background, "command").Slice()
	must(t, err)
	add(list)
	return all
}

// refusesOtherKeys sends every command that the user may send, with a key outside its prefix.
func refusesOtherKeys(t *testing.T, rdb *redis.Client, user aclUser) {
	t.Helper()
	calls := [][]any{}
	for _, command := range user.commands {
		switch command {
		case "ping", "time", "scan", "dbsize", "info", "script|exists": // have no keys
		case "memory|usage", "object|encoding":
			container, name, _ := strings.Cut(command, "|")
			calls = append(calls, []any{container, name, "other"})
		case "evalsha", "evalsha_ro":
			calls = append(calls, []any{command, sluice.GCRAV1SHA1, 1, "other", 3, 1000000, 3, 0, 0})
		default:
			calls = append(calls, []any{command, "other", "0", "0", "0"})
		}
	}
	for _, call := range calls {
		err := rdb.Do(background, call...).Err()
		for n := len(call) - 1; n > 1 && err != nil && strings.Contains(err.Error(), "wrong number"); n-- {
			err = rdb.Do(background, call[:n]...).Err()
		}
		wantRefused(t, fmt.Sprint(user.name, call), err)
	}
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	for _, refusal := range []string{"NOPERM", "can't access", "can't run"} { // the last two from inside a script
		if err != nil && strings.Contains(err.Error(), refusal) {
			return
		}
	}
	t.Errorf("%s: %v", what, err)
}

// wantNoRefusals fails if a server has refused a user something.
func wantNoRefusals(t *testing.T, admin *redis.Client) {
	t.Helper()
	if log := fmt.Sprint(admin.Do(background, "acl", "log").Val()); log != "[]" {
		t.Errorf("%s refused %s", admin.Options().Addr, log)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestServerReads holds what acl takes for reading against the server.
func TestServerReads(t *testing.T) {
	admin := client(t, redistest.Start(t).Addr)
	for _, command := range commandsOf(sluice.All()) {
		info, err := admin.Do(background, "command", "info", command).Slice()
		must(t, err)
		flags := fmt.Sprint(info[0].([]any)[2])
		if writes := strings.Contains(flags, "write"); writes == reads(command) {
			t.Errorf("%s: reads is %v, the server says %s", command, reads(command), flags)
		}
	}
}

func TestServerACLCluster(t *testing.T) {
	addrs := startCluster(t)
	wantSaid(t, sluiceRun(nil, "acl", "--apply", "--password-file", passwordFile(t), "--cluster", addrs[0]),
		exitDone, "3 users on 6 nodes")
	got := sluiceRun(nil, "load", "--cluster", "sluice-load:toothpaste@"+addrs[0])
	wantSaid(t, got, exitDone)
	as := func(user string, looks bool) *redis.ClusterClient {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Username: user, Password: "toothpaste",
			ReadOnly: looks})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	must(t, loader.New(as("sluice-load", false)).Preload(background))
	use := loader.New(as("sluice-use", false), loader.PreloadedOnly()).ListLog("x", loader.PerMinute(3))
	for i := range 30 {
		if d, err := use.Allow(background, fmt.Sprint("s", i)); err != nil || !d.Granted {
			t.Errorf("%+v, %v", d, err)
		}
	}
	replica := strings.Replace(addrs[3], ":", " ", 1) // as a list of host and port prints
	redistest.Await(t, "every node knows the replica", func() bool {
		return !slices.ContainsFunc(addrs, func(addr string) bool {
			return !strings.Contains(fmt.Sprint(client(t, addr).Do(background, "cluster", "slots").Val()), replica)
		})
	})
	look := loader.New(as("sluice-look", true), loader.ReadReplicas(), loader.PreloadedOnly()).ListLog("x",
		loader.PerMinute(3))
	for i := range 30 {
		if _, err := look.Peek(background, fmt.Sprint("s", i)); err != nil {
			t.Error(err)
		}
	}
	for _, args := range []string{"top", "inspect x s0 limit=3/1m", "verify"} {
		wantSaid(t, runLine(nil, args+" --cluster sluice-look:toothpaste@"+addrs[0]), exitDone)
	}
	for _, addr := range addrs {
		wantNoRefusals(t, client(t, addr))
	}
	if !strings.Contains(client(t, addrs[3]).Info(background, "commandstats").Val(), "cmdstat_evalsha_ro") {
		t.Error("the replica was not asked")
	}
}

// TestServerACLRing sets the users on the two servers of a Ring, whose heartbeat is a PING.
func TestServerACLRing(t *testing.T) {
	servers := map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}
	for _, addr := range servers {
		wantSaid(t, sluiceRun(nil, "acl", "--apply", "--password-file", passwordFile(t), "--redis", "redis://"+addr),
			exitDone)
	}
	as := func(user string) *redis.Ring {
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: servers, Username: user, Password: "toothpaste", HeartbeatFrequency: 5 * time.Millisecond,
		})
		t.Cleanup(func() { _ = ring.Close() })
		return ring
	}
	must(t, loader.New(as("sluice-load")).Preload(background))
	using, looking := as("sluice-use"), as("sluice-look")
	use := loader.New(using, loader.PreloadedOnly()).ListLog("x", loader.PerMinute(3))
	look := loader.New(looking, loader.ReadReplicas(), loader.PreloadedOnly()).ListLog("x", loader.PerMinute(3))
	for _, addr := range servers {
		admin := client(t, addr)
		redistest.Await(t, "the hearts have beaten for a while", func() bool {
			_, stats, _ := strings.Cut(admin.Info(background, "commandstats").Val(), "cmdstat_ping:calls=")
			pings, _, _ := strings.Cut(stats, ",")
			return len(pings) >= len("100")
		})
	}
	for i := range 30 {
		subject := fmt.Sprint("s", i)
		if d, err := use.Allow(background, subject); err != nil || !d.Granted {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err := look.Peek(background, subject); err != nil || d.Remaining != 2 {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if using.Len() != 2 || looking.Len() != 2 {
		t.Errorf("%d and %d shards are up, want both", using.Len(), looking.Len())
	}
	for _, addr := range servers {
		wantNoRefusals(t, client(t, addr))
	}
}
