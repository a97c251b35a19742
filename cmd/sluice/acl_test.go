package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

func TestACLText(t *testing.T) {
	const user = "ACL SETUSER sluice-%s reset on #SHA256-OF-ITS-PASSWORD resetchannels "
	for args, want := range map[string]string{
		"--name rl --prefix shop token_bucket_set": `ACL SETUSER rl-load reset on #SHA256-OF-ITS-PASSWORD resetchannels +info +ping +script|exists +script|load
ACL SETUSER rl-use reset on #SHA256-OF-ITS-PASSWORD resetchannels ~shop:* +evalsha +hdel +hmget +hset +persist +ping
ACL SETUSER rl-look reset on #SHA256-OF-ITS-PASSWORD resetchannels %R~shop:* +dbsize +evalsha_ro +exists +info +memory|usage +pexpiretime +ping +pttl +scan +script|exists +time
`,
		"--format aclfile --cluster gcra": `user sluice-load on #SHA256-OF-ITS-PASSWORD resetchannels +cluster|nodes +cluster|slots +info +ping +script|exists +script|load
user sluice-use on #SHA256-OF-ITS-PASSWORD resetchannels ~sluice:* +asking +cluster|slots +evalsha +get +ping +set +time
user sluice-look on #SHA256-OF-ITS-PASSWORD resetchannels %R~sluice:* +asking +cluster|nodes +cluster|slots +command +dbsize +evalsha_ro +exists +get +getrange +info +memory|usage +pexpiretime +ping +pttl +readonly +scan +script|exists +time
`,
		"--functions --client ioredis --cluster gcra_many": fmt.Sprintf(user, "load") + `+cluster|nodes +cluster|slots +function|list +function|load +info +ping +script|exists +script|load
` + fmt.Sprintf(user, "use") + `~sluice:* +asking +client|setname +cluster|info +cluster|slots +evalsha +fcall +get +info +ping +set +time
` + fmt.Sprintf(user, "look") + `%R~sluice:* +asking +client|setname +cluster|info +cluster|nodes +cluster|slots +command +dbsize +evalsha_ro +exists +fcall_ro +function|list +info +memory|usage +pexpiretime +ping +pttl +readonly +scan +script|exists +time
`,
	} {
		got := runLine(nil, "acl "+args)
		if got.status != exitDone || got.stdout != want || !strings.Contains(got.stderr, "user default is on") {
			t.Errorf("%s: status %d\n%s%s", args, got.status, cmp.Diff(want, got.stdout), got.stderr)
		}
		wantNarrow(t, "acl", got.stderr)
	}
	wantSaid(t, sluiceRun(nil, "acl", "--client", "hiredis"), exitUsage, "want go-redis, redis-py, node-redis, ioredis, jedis")
}

// setUsers sets the users of sluice acl, with the password pw. As they are printed, the server takes none of them.
func setUsers(t *testing.T, admin *redis.Client, flags string) {
	t.Helper()
	got := runLine(nil, "acl "+flags)
	wantText(t, got, exitDone)
	for line := range strings.Lines(got.stdout) {
		if err := admin.Do(background, wordsOf(line)...).Err(); err == nil || !strings.Contains(err.Error(), noHash) {
			t.Errorf("%s: %v", line, err)
		}
		must(t, admin.Do(background, wordsOf(strings.Replace(line, noHash, ">pw", 1))...).Err())
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
	got := sluiceRun(nil, "acl", "--format", "aclfile")
	file := filepath.Join(t.TempDir(), "users.acl")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(got.stdout, noHash, ">pw")), 0o600))
	server := redistest.Start(t, "--aclfile", file)
	wantSaid(t, sluiceRun(nil, "load", "--redis", "redis://sluice-load:pw@"+server.Addr), exitDone)
}

// leastCalls are arguments of each script with which it calls what it can.
var leastCalls = map[string]string{
	"budget_v1": "60000000 1 1000000 61 3", "budget_settle_v1": "60000000 2 1 1000000 61", "gcra_v1": "3 60000000 3 1 0",
	"gcra_many_v1": "3 60000000 3 1 0", "list_log_v1": "3 60000000 1 0", "list_log_many_v1": "3 60000000 1 0",
	"slice_ring_v1": "1 1 1000000 61 3", "slice_ring_many_v1": "1 1 1000000 61 3", "token_bucket_v1": "3 60000000 0 1 0",
	"token_bucket_set_v1": "3 60000000 0", "zset_log_v1": "3 60000000 1 0 id", "concurrency_v1": "3 60000000 0 id",
	"slice_ring_return_v1": "4102444800000000 1 1000000 61", "list_log_return_v1": "4102444800000000 1",
	"quota_v1": "3 1 0 0 1 9007199254740990 9007199254740991", "quota_return_v1": "1 1",
	"zset_log_return_v1": "id 1", "concurrency_release_v1": "id",
}

// TestServerACL has each user do what it is for, on a master and on its replica, without a refusal, and nothing else.
func TestServerACL(t *testing.T) {
	master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	admin := client(t, master.Addr)
	for _, server := range []*redistest.Server{master, replica} {
		setUsers(t, client(t, server.Addr), "")
		as := " --redis=redis://sluice-load:pw@" + server.Addr
		sluiceDone(t, nil, "load"+as)
		sluiceDone(t, nil, "verify"+as)
	}
	use, look := clientAs(t, master.Addr, "sluice-use", "pw"), clientAs(t, master.Addr, "sluice-look", "pw")
	places := strings.NewReplacer("<prefix>", "sluice", "<limiter>", "try", "<subject>", "demo", "<client>", "cli",
		"<slice>x<size>", "1000000x61")
	for _, script := range sluice.All() {
		args, found := leastCalls[fullName(script)]
		if !found {
			t.Errorf("%s has no arguments here", script.File)
		}
		var keys []string
		for _, key := range script.Keys {
			keys = append(keys, strings.Replace(places.Replace(key.Pattern), "<id>", script.Name, 1))
		}
		must(t, use.EvalSha(background, script.SHA1, keys, wordsOf(args)...).Err())
		wantRefused(t, "EVALSHA by one who looks", look.EvalSha(background, script.SHA1, keys, wordsOf(args)...).Err())
	}
	_, err := loader.New(use, loader.PreloadedOnly()).ListLog("try", loader.PerMinute(9)).Reserve(background, "ada")
	must(t, err)

	host, port, _ := net.SplitHostPort(master.Addr)
	must(t, client(t, replica.Addr).ReplicaOf(background, host, port).Err())
	redistest.Await(t, "the replica has everything", func() bool {
		return client(t, replica.Addr).DBSize(background).Val() == admin.DBSize(background).Val()
	})
	must(t, admin.Do(background, "acl", "log", "reset").Err())
	as := " --redis=redis://sluice-look:pw@"
	for _, addr := range []string{master.Addr, replica.Addr} {
		got := runLine(nil, "inspect try demo --limit 3/1m --burst 3"+as+addr)
		wantText(t, got, exitDone, "  memory     ", "  expires    ")
		if n := strings.Count(got.stdout, "  remaining  "); n < 5 {
			t.Errorf("%d scripts were asked, want 5 at least:\n%s", n, got.stdout)
		}
		sluiceDone(t, nil, "top"+as+addr)
		sluiceDone(t, nil, "verify"+as+addr)
		wantNoRefusals(t, client(t, addr))
	}
	for _, rdb := range []*redis.Client{use, look, clientAs(t, master.Addr, "sluice-load", "pw")} {
		for _, args := range []string{"get other:key", "lindex other:key 0", "flushall", "keys *", "eval 1 0", "acl list",
			"config get *"} {
			wantRefused(t, args, rdb.Do(background, wordsOf(args)...).Err())
		}
	}
}

// An ACL separates keys, also those of one limiter, and commands, but not scripts that call the same ones.
func TestServerACLOfOneLimiter(t *testing.T) {
	admin := redistest.Start(t).Client(t)
	users := strings.NewReplacer(noHash, ">pw", "~sluice:*", "~sluice:search:*").Replace(runLine(nil, "acl gcra").stdout)
	for line := range strings.Lines(users) {
		must(t, admin.Do(background, wordsOf(line)...).Err())
	}
	for _, script := range sluice.All() {
		must(t, admin.ScriptLoad(background, script.Source).Err())
	}
	use := clientAs(t, admin.Options().Addr, "sluice-use", "pw")
	call := func(script sluice.Script, key string) error {
		return use.EvalSha(background, script.SHA1, []string{key}, wordsOf(leastCalls[fullName(script)])...).Err()
	}
	must(t, call(sluice.GCRAV1(), "sluice:search:{ada}:gcra1"))
	must(t, call(sluice.QuotaV1(), "sluice:search:{ada}:qt1"))
	must(t, use.Set(background, "sluice:search:{ada}:gcra1", "", 0).Err())
	wantRefused(t, "another limiter", call(sluice.GCRAV1(), "sluice:export:{ada}:gcra1"))
	wantRefused(t, "other commands", call(sluice.ListLogV1(), "sluice:search:{ada}:ll1"))
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

// TestServerACLCluster looks at a cluster as the user for that, on replicas too.
func TestServerACLCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t)
	for _, addr := range addrs {
		setUsers(t, client(t, addr), "--cluster")
	}
	sluiceDone(t, nil, "load --cluster sluice-load:pw@"+addrs[0])
	fill(t, inCluster(t, addrs...), 9)
	for _, args := range []string{"top", "inspect try s0 --limit 9/1m", "verify"} {
		sluiceDone(t, nil, args+" --cluster sluice-look:pw@"+addrs[0])
	}
	for _, addr := range addrs {
		wantNoRefusals(t, client(t, addr))
	}
}

// TestReadmeACL wants the users of sluice acl in scripts/README.md, so that nobody needs Go to have them.
func TestReadmeACL(t *testing.T) {
	text, err := os.ReadFile("../../scripts/README.md")
	must(t, err)
	readme := strings.Join(strings.Fields(strings.NewReplacer("'", "", "\\\n", "").Replace(string(text))), " ")
	for line := range strings.Lines(runLine(nil, "acl").stdout) {
		if want := strings.Replace(strings.TrimSpace(line), noHash, ">secret", 1); !strings.Contains(readme, want) {
			t.Errorf("scripts/README.md lacks redis-cli %s", want)
		}
	}
}
