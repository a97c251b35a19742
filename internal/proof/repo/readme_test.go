package repo_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// The commands of scripts/README.md, as they stand there, on a server that has the scripts.
func TestServerScriptsReadme(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		if cli, err = exec.LookPath("valkey-cli"); err != nil {
			t.Fatal("no redis-cli or valkey-cli on PATH: it comes with the server that `make test` installs")
		}
	}
	_, port, _ := net.SplitHostPort(redistest.Start(t).Addr)
	run := func(command string) string {
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "redis-cli", cli+" -p "+port))
		cmd.Dir = filepath.Join("../../..", "scripts")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	for _, script := range sluice.All() {
		if loaded := run("redis-cli -x SCRIPT LOAD < " + script.File); strings.TrimSpace(loaded) != script.SHA1 {
			t.Errorf("%s is loaded as %s, want %s", script.File, loaded, script.SHA1)
		}
	}
	// What is given back was granted when the reply before says, not when the one that is shown says.
	const shownNow = "1795190573204223"
	now := shownNow
	commands, scripts := 0, map[string]bool{}
	for _, line := range strings.Split(readFile(t, "../../../scripts/README.md"), "\n") {
		command, isCommand := strings.CutPrefix(line, "    $ ")
		if !isCommand {
			continue
		}
		commands++
		if _, rest, called := strings.Cut(command, "sha1sum < "); called {
			scripts[strings.Fields(rest)[0]] = true
		}
		reply := strings.Split(run(years.Replace(strings.ReplaceAll(command, shownNow, now))), "\n")
		if len(reply) > 5 {
			now = reply[4]
		}
		first := reply[0]
		if first == "0" || first == "" || strings.ContainsAny(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("%s: %s, want a grant", command, first)
		}
	}
	for _, script := range sluice.All() {
		if !scripts[script.File] {
			t.Errorf("scripts/README.md has no example of %s among its %d commands", script.File, commands)
		}
	}
}

// years replaces the years on the page by those around today.
var years = func() *strings.Replacer {
	var pairs []string
	for i, today := 0, time.Now().UTC().Year(); i < 4; i++ {
		for _, year := range []int{2025 + i, today - 1 + i} {
			pairs = append(pairs, strconv.FormatInt(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), 10))
		}
	}
	return strings.NewReplacer(pairs...)
}()

// The smallest ACL in scripts/README.md names all that list_log calls.
func TestReadmeACL(t *testing.T) {
	_, rest, found := strings.Cut(readFile(t, "../../../scripts/README.md"), "    ACL SETUSER ")
	rule, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("scripts/README.md shows no ACL SETUSER")
	}
	for _, command := range sluice.ListLogV1().Commands {
		if !strings.Contains(rule+" ", " +"+strings.ToLower(command)+" ") {
			t.Errorf("the rule %q lacks +%s", rule, strings.ToLower(command))
		}
	}
}

// TestServerFull has what scripts/README.md says of a server without memory.
func TestServerFull(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	type step struct{ script, call string } // the keys, then the arguments; T is when the script has granted
	const (
		ring    = "sluice:x:{s}:sr1:3600000000x2"
		windows = " 3600000000 2 "
		periods = " 1735689600000000 1767225600000000 1798761600000000 1830297600000000"
	)
	granted := map[string]string{}
	call := func(step step) error {
		source := readFile(t, "../../../scripts/"+step.script+"_v1.lua")
		moment := granted[strings.TrimSuffix(step.script, "_return")]
		words := strings.Fields(years.Replace(strings.ReplaceAll(step.call, " T ", " "+moment+" ")))
		keys := strings.Count(step.call, "sluice:")
		args := make([]any, 0, len(words))
		for _, word := range words[keys:] {
			args = append(args, word)
		}
		reply, err := rdb.Eval(t.Context(), source, words[:keys], args...).Int64Slice()
		if len(reply) > 4 && reply[0] > 0 {
			granted[step.script] = strconv.FormatInt(reply[4], 10)
		}
		return err
	}
	stored := []step{
		{"list_log", "sluice:x:{s}:ll1 3 60000000 1 0"},
		{"zset_log", "sluice:x:{s}:zl1 3 60000000 1 0 repeated"},
		{"gcra", "sluice:x:{s}:gcra1 5 1000000 10 1 0"},
		{"slice_ring", ring + " 1 0" + windows + "100"},
		{"budget", ring + " sluice:x:{s}:bg1:r 3600000000 4" + windows + "100"},
		{"quota", "sluice:x:{s}:qt1 100 1 0" + periods},
		{"token_bucket", "sluice:x:{s}:tb1 sluice:x:{s}:tb1:all sluice:x:{s}:tb1:by:a 100 60000000 0 1 0"},
		{"concurrency", "sluice:x:{s}:cc1 2 30000000 0 holder"},
	}
	for _, step := range stored {
		must(t, call(step))
	}
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	fails := []step{
		stored[0], stored[2], stored[5], // under a key that exists
		{"zset_log", "sluice:x:{s}:zl1 3 60000000 1 0 other"},
		{"concurrency", "sluice:x:{s}:cc1 2 30000000 1 holder"},
		{"slice_ring_return", ring + " T 1" + windows},
		{"quota_return", "sluice:x:{s}:qt1 1767225600000000 1"},
		{"budget_settle", ring + " sluice:x:{s}:bg1:r 3600000000 2 0" + windows},
		{"token_bucket_set", "sluice:x:{s}:tb1 50 1000000 0"},
	}
	for _, step := range stored {
		step.call = strings.ReplaceAll(step.call, "{s}", "{new}")
		fails = append(fails, step)
	}
	for _, step := range fails {
		if err := call(step); err == nil || !strings.HasPrefix(err.Error(), "OOM ") {
			t.Errorf("%s %s: %v, want OOM", step.script, step.call, err)
		}
	}
	for _, step := range []step{
		{"list_log", "sluice:x:{s}:ll1 3 60000000 0 0"}, // a look
		{"list_log", "sluice:x:{s}:ll1 1 60000000 1 0"}, // denied
		stored[1], stored[4], // an id is repeated
		{"list_log_return", "sluice:x:{s}:ll1 T 1"},
		{"zset_log_return", "sluice:x:{s}:zl1 repeated 1"},
		{"concurrency_release", "sluice:x:{s}:cc1 holder"},
	} {
		if err := call(step); err != nil {
			t.Errorf("%s %s: %v", step.script, step.call, err)
		}
	}
}
