package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/internal/rights"
	"github.com/sluice-redis/sluice/loader"
)

// TestNotices are the hints for commands that a hurried operator gets wrong.
func TestNotices(t *testing.T) {
	const nobody = "--redis=redis://127.0.0.1:1"
	for args, want := range map[string]string{
		"inspect a b --limit 3":        "there is no flag --limit: write limit=3, without dashes",
		"inspect --window=1m a b":      "there is no flag --window: write window=1m, without dashes",
		"inspect a b --burst":          "there is no flag --burst: write burst=..., without dashes",
		"reset a b --prefix p":         "there is no flag --prefix: write prefix=p, without dashes",
		"set-rate a b --rate 5":        "there is no flag --rate: write rate=5, without dashes",
		"try gcra --limit 5":           "there is no flag --limit: write limit=5, without dashes",
		"inspect jobs":                 "`sluice top --limiter jobs` lists its subjects",
		"inspect jobs limit=3/1m":      "`sluice top --limiter jobs` lists its subjects",
		"reset jobs":                   "`sluice top --limiter jobs` lists its subjects",
		"reset jobs slice=1s":          "`sluice top --limiter jobs` lists its subjects",
		"set-rate jobs":                "`sluice top --limiter jobs` lists its subjects",
		"set-rate jobs rate=50 scope=": "`sluice top --limiter jobs` lists its subjects",
	} {
		got := sluiceRun(nil, append(strings.Fields(args), nobody)...)
		if got.status != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: status %d, want %q in\n%s", args, got.status, want, got.stderr)
		}
	}
	got := sluiceRun(nil, "inspect", nobody, "jobs:secret@host")
	if strings.Contains(got.stderr, "secret") {
		t.Errorf("it shows what may be a password:\n%s", got.stderr)
	}
	for _, args := range [][]string{{"top", nobody}, {"inspect", "a", "b", nobody}} {
		wantText(t, sluiceRun(nil, args...), exitFailed, "name yours with --redis redis://host:port or set SLUICE_REDIS")
	}
}

// TestServerNothingStored says that names are exact.
func TestServerNothingStored(t *testing.T) {
	_, env := started(t)
	for _, command := range []string{"inspect", "reset"} {
		wantText(t, sluiceRun(env, command, "jobs", "Acme"), exitDone,
			`^nothing is stored under sluice:jobs:\{Acme\}:\* on \S+\nnames are exact: check spelling and case\n$`)
	}
}

// TestServerInspectNoPhantoms is of users who may look at some scripts only: what is not there is not unknown.
func TestServerInspectNoPhantoms(t *testing.T) {
	rdb, env := started(t)
	must(t, lineErr(env, "try list_log limit=3 window=1m"))
	url := "--redis=redis://sluice-look:pw@" + rdb.Options().Addr
	lookAs(t, rdb, "list_log")
	for _, args := range []string{"try demo limit=3/1m", "--no-scan try demo limit=3/1m"} {
		got := sluiceRun(nil, append([]string{"inspect", url}, strings.Fields(args)...)...)
		wantText(t, got, exitDone, "  remaining    2\n")
		if strings.Contains(got.stdout, "unknown") || strings.Contains(got.stdout+got.stderr, "NOPERM") {
			t.Errorf("nothing else is stored:\n%s%s", got.stdout, got.stderr)
		}
	}
	wantText(t, sluiceRun(nil, "inspect", url, "try", "nobody"), exitDone, "^nothing is stored under ")
	for _, code := range []string{"zl1", "tb1"} {
		wantText(t, sluiceRun(nil, "inspect", url, "sluice:try:{nobody}:"+code), exitDone,
			"absent: nothing is stored under this key")
	}
	must(t, rdb.ZAdd(background, "sluice:try:{demo}:zl1", redis.Z{Score: 1, Member: "m"}).Err())
	wantText(t, sluiceRun(nil, "inspect", url, "try", "demo"), exitFailed, "unknown: it cannot be read: NOPERM.*z")
}

// TestServerInspectUnusedUnknown is of a search that may have missed the key that an argument is for: what was found is
// shown.
func TestServerInspectUnusedUnknown(t *testing.T) {
	rdb, _ := inspected(t)
	lookAs(t, rdb)
	must(t, rdb.ACLSetUser(background, "sluice-look", "-scan").Err())
	must(t, rdb.Del(background, "sluice:try:{demo}:gcra1").Err())
	got := sluiceRun(nil, "inspect", "--redis=redis://sluice-look:pw@"+rdb.Options().Addr, "try", "demo", "burst=3")
	wantText(t, got, exitFailed, `:ll1\n  state      live`, "not known whether more is stored",
		"cure: ACL SETUSER <name> ")
}

// lookAs sets the users of sluice acl for some scripts, with the password pw.
func lookAs(t *testing.T, rdb *redis.Client, names ...string) {
	t.Helper()
	scripts, err := findScripts(names)
	must(t, err)
	for _, script := range sluice.All() {
		must(t, rdb.ScriptLoad(background, script.Source).Err())
	}
	for _, user := range (aclFlags{name: "sluice", prefix: "sluice", client: rights.Clients()[0]}).users(scripts) {
		user.hash = ">pw"
		must(t, rdb.ACLSetUser(background, user.name, user.rules()...).Err())
	}
}

// TestServerLookUser runs what README shows as the -look user, without one refusal.
func TestServerLookUser(t *testing.T) {
	rdb, _ := inspected(t)
	lookAs(t, rdb)
	must(t, rdb.Set(background, "other:key", "x", time.Hour).Err())
	url := "--redis=redis://sluice-look:pw@" + rdb.Options().Addr
	got := sluiceRun(nil, "inspect", url, "try", "demo", "limit=3/1m", "burst=3")
	wantText(t, got, exitDone, "  type       zset", "  memory     ", "  expires    ")
	if n := strings.Count(got.stdout, "  remaining    1\n"); n != 5 {
		t.Errorf("%d scripts were asked, want 5:\n%s", n, got.stdout)
	}
	wantText(t, sluiceRun(nil, "top", url), exitDone, "6 subjects", ` \d+ B  list_log_v1`)
	wantText(t, sluiceRun(nil, "verify", url), exitDone, scripts(1)+" on 1 node")
	wantNoRefusals(t, rdb)
	for _, script := range sluice.All() {
		if !stored.Limits(script) {
			continue
		}
		lookAs(t, rdb, script.Name)
		key := "sluice:try:{demo}:" + stored.CodeOf(script)
		if script.Name == "slice_ring" {
			key += ":1000000"
		}
		got := sluiceRun(nil, "inspect", url, key)
		wantText(t, got, exitDone, "state      live")
		if strings.Contains(got.stdout, "not known") {
			t.Errorf("%s", got.stdout)
		}
		wantNoRefusals(t, rdb)
	}
	lookAs(t, rdb)
	look := clientAs(t, rdb.Options().Addr, "sluice-look", "pw")
	for _, args := range [][]any{{"get", "other:key"}, {"type", "other:key"}, {"exists", "other:key"},
		{"pttl", "other:key"}, {"memory", "usage", "other:key"}, {"unlink", "sluice:try:{demo}:ll1"},
		{"rpush", "sluice:try:{demo}:ll1", 1}} {
		wantRefused(t, args[0].(string), look.Do(background, args...).Err())
	}
}

// TestServerReadyRights takes a command from a user who has too few rights to one who has enough by the line printed.
func TestServerReadyRights(t *testing.T) {
	rdb, _ := inspected(t)
	url := "--redis=redis://ada:pw@" + rdb.Options().Addr
	for _, rules := range []string{"%R~sluice:* +scan", "%R~sluice:*", "+scan +exists", "%R~sluice:* +@read -type",
		"%R~sluice:* +@read -zcount -memory|usage"} {
		for command, args := range map[string]string{"inspect": "try demo limit=3/1m burst=3", "top": "", "verify": ""} {
			must(t, rdb.ACLSetUser(background, "ada", append([]string{"reset", "on", ">pw"},
				strings.Fields(rules)...)...).Err())
			got := sluiceRun(nil, append([]string{command, url}, strings.Fields(args)...)...)
			_, rest, found := strings.Cut(got.stdout+got.stderr, "cure: ACL SETUSER <name> ")
			if strings.Contains(got.stdout+got.stderr, " ~") {
				t.Errorf("%s: it widens keys that are only read:\n%s%s", command, got.stdout, got.stderr)
			}
			if !found {
				if !strings.Contains(rules, "@read") || command != "top" && command != "inspect" {
					t.Errorf("%s with %s: no line\n%s%s", command, rules, got.stdout, got.stderr)
				}
				continue
			}
			line, _, _ := strings.Cut(rest, "\n")
			must(t, rdb.ACLSetUser(background, "ada", strings.Fields(line)...).Err())
			must(t, rdb.Do(background, "acl", "log", "reset").Err())
			got = sluiceRun(nil, append([]string{command, url}, strings.Fields(args)...)...)
			wantText(t, got, exitDone)
			wantNoRefusals(t, rdb)
		}
	}
}

// TestServerSetRateBooked is of permits that are booked at the old rate.
func TestServerSetRateBooked(t *testing.T) {
	rdb, env := started(t)
	jobs := loader.New(rdb).TokenBucket("jobs", loader.PerSecond(10))
	for range 60 {
		_, err := jobs.Reserve(background, "acme")
		must(t, err)
	}
	got := runLine(env, "set-rate jobs acme rate=50 interval=1s")
	wantText(t, got, exitDone, "\n50 permits are booked up to [345].* s ahead at the times they were given:\n"+
		"they stay late; the new rate is for new calls\n",
		"this is the rate of acme alone, in all processes; other subjects of jobs keep\ntheirs")
	wantNarrow(t, "set-rate", got.stdout)

	_, err := jobs.AllowN(background, "bob", 3)
	must(t, err)
	wantText(t, runLine(env, "set-rate jobs bob rate=50 interval=1h"), exitDone,
		"\n3 permits are in use: they count against the new rate\n")
	got = runLine(env, "set-rate jobs eve rate=50 interval=1h")
	wantText(t, got, exitDone, "in force: 50 in 60 min")
	if strings.Contains(got.stdout, "in use") || strings.Contains(got.stdout, "booked") {
		t.Errorf("nothing is:\n%s", got.stdout)
	}
}

// TestServerSetRateWholeLimiter does what the help shows: the rate of each subject in the JSON of top.
func TestServerSetRateWholeLimiter(t *testing.T) {
	rdb, env := started(t)
	jobs := loader.New(rdb).TokenBucket("jobs", loader.PerHour(10))
	for _, subject := range []string{"acme", "bob {1}"} {
		_, err := jobs.Allow(background, subject)
		must(t, err)
	}
	var found struct{ Permits []struct{ Subject string } }
	must(t, json.Unmarshal([]byte(runLine(env, "top --limiter jobs --json").stdout), &found))
	for _, one := range found.Permits {
		must(t, sluiceRunErr(env, "set-rate", "jobs", one.Subject, "rate=50", "interval=1h"))
	}
	for subject, want := range map[string]int64{"acme": 49, "bob {1}": 49, "eve": 10} {
		if d, err := jobs.Peek(background, subject); err != nil || d.Remaining != want {
			t.Errorf("%s: %d left, want %d, %v", subject, d.Remaining, want, err)
		}
	}
}

// TestServerSetRateNoBucket is of a limiter that is no token_bucket.
func TestServerSetRateNoBucket(t *testing.T) {
	rdb, env := started(t)
	must(t, lineErr(env, "try list_log limiter=send-code subject=ada limit=3 window=1m"))
	got := runLine(env, "set-rate send-code ada rate=5 interval=1m")
	wantText(t, got, exitFailed, "no token_bucket is stored under the limiter send-code", "--force")
	wantKeys(t, rdb, "sluice:send-code:{ada}:ll1")
	wantText(t, runLine(env, "set-rate --force send-code ada rate=5 interval=1m"), exitDone, "in force")
	wantText(t, runLine(env, "set-rate send-code eve rate=5 interval=1m"), exitDone, "in force")
}

// TestServerACLWarns is of a server that everybody may use as user default.
func TestServerACLWarns(t *testing.T) {
	server := redistest.Start(t)
	admin := client(t, server.Addr)
	apply := func(url string) outcome {
		return sluiceRun(nil, "acl", "--apply", "--password-file", passwordFile(t), "--redis", url)
	}
	const warning = "warning: on .*: user default is on and has no password"
	got := apply("redis://" + server.Addr)
	wantText(t, got, exitDone, warning, "after each restart of Redis run sluice load before the applications",
		`\+script\|load`)
	wantNarrow(t, "acl", got.stdout)
	must(t, admin.Do(background, "acl", "setuser", "admin", "on", ">pw", "~*", "&*", "+@all").Err())
	must(t, admin.Do(background, "acl", "setuser", "default", "resetpass", ">pw").Err())
	got = apply("redis://admin:pw@" + server.Addr)
	wantText(t, got, exitDone)
	if strings.Contains(got.stdout, "user default") {
		t.Errorf("it has a password:\n%s", got.stdout)
	}
	must(t, client(t, server.Addr).Do(background, "auth", "admin", "pw").Err())
	for _, format := range []string{"commands", "aclfile"} {
		got := sluiceRun(nil, "acl", "--format", format, "--password-file", passwordFile(t))
		wantText(t, got, exitDone)
		for _, want := range []string{"user default", "without a password", "after each restart of Redis run sluice load"} {
			if !strings.Contains(got.stderr, want) || strings.Contains(got.stdout, want) {
				t.Errorf("%q belongs on standard error:\n%s\n%s", want, got.stdout, got.stderr)
			}
		}
		wantNarrow(t, "acl", got.stderr)
	}
}

// TestServerTopWords is of what top says about its numbers.
func TestServerTopWords(t *testing.T) {
	rdb, env := started(t)
	must(t, lineErr(env, "try list_log limit=1 window=1m max_wait=1s subject=a"))
	must(t, lineErr(env, "try list_log --times 2 limit=1 window=30s max_wait=50s subject=b"))
	must(t, lineErr(env, "try gcra limit=1 window=30s subject=c"))
	for _, key := range []string{"session:1", "session:2"} {
		must(t, rdb.Set(background, key, "x", 0).Err())
	}
	got := sluiceRun(env, "top")
	wantText(t, got, exitDone, "^most permits stored, refused calls not counted\npermits +newest",
		"\nfurthest from full\n", `  2  booked (29|30)(\.\d+)? s ahead  `, `\n3 subjects \(of 5 keys scanned\)\n$`)
	wantNarrow(t, "top", got.stdout)
	wantText(t, runLine(nil, "help top"), exitDone, "most permits stored", "refused")
	if help := runLine(nil, "help top").stdout + sluiceRun(nil, "help").stdout; strings.Contains(help, "busiest") {
		t.Errorf("it ranks what is stored, not who asks:\n%s", help)
	}
}

// TestServerVerifyWords is of what verify says about what is missing, and about its SHA1s.
func TestServerVerifyWords(t *testing.T) {
	_, env := started(t)
	got := sluiceRun(env, "verify")
	wantText(t, got, exitFailed, scripts(1)+" are missing: harmless if no program uses them",
		"the Go loader loads\nscripts at first use", "sluice list")
	wantNarrow(t, "verify", got.stdout)
	wantText(t, runLine(env, "verify gcra"), exitFailed, "1 script is missing: harmless if no program uses it")
	wantText(t, runLine(nil, "help verify"), exitDone, "The SHA1 of a file is the name that the server gives the script")
}

// TestHelpSays is of sentences that operators asked for, and of wrong ones.
func TestHelpSays(t *testing.T) {
	for command, want := range map[string]string{
		"acl":      "  sluice-load one\n  sluice-use another\n  sluice-look a third\n",
		"set-rate": "belongs to one subject, in all processes",
		"help":     "set the rate of one subject of a token_bucket",
		"try":      "\nDurations are microseconds, or have a unit: ",
	} {
		got := runLine(nil, "help "+strings.TrimSuffix(command, "help"))
		if !strings.Contains(got.stdout, want) {
			t.Errorf("help %s: no %q in\n%s", command, want, got.stdout)
		}
	}
	for _, wrong := range []string{"users of sluice acl do not have", "SCAN is refused", "for all its callers",
		"allow -use to UNLINK"} {
		for _, c := range commands() {
			if strings.Contains(strings.Join(strings.Fields(usageOf(c.name)+c.summary), " "), wrong) {
				t.Errorf("help %s: %q is wrong", c.name, wrong)
			}
		}
	}
}
