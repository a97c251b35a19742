package repo_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
		reply := strings.Split(run(strings.ReplaceAll(command, shownNow, now)), "\n")
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
	const ring, id = "sluice:x:{s}:sr1:300000x201", "sluice:x:{s}:bg1:r"
	steps := []struct {
		script sluice.Script
		call   string // the keys, then the arguments
		works  bool   // of a full server
	}{
		{sluice.ListLogV1(), "sluice:x:{s}:ll1 3 60000000 1 0", false},
		{sluice.ListLogV1(), "sluice:x:{s}:ll1 3 60000000 0 0", true},
		{sluice.ListLogV1(), "sluice:x:{s}:ll1 1 60000000 1 0", true}, // denied
		{sluice.ZSetLogV1(), "sluice:x:{s}:zl1 3 60000000 1 0 repeated", true},
		{sluice.ZSetLogReturnV1(), "sluice:x:{s}:zl1 repeated 1", true},
		{sluice.GCRAV1(), "sluice:x:{new}:gcra1 5 1000000 10 1 0", false},
		{sluice.BudgetV1(), ring + " " + id + " 3600000000 4 300000 201 100", true},
		{sluice.BudgetSettleV1(), ring + " " + id + " 3600000000 2 0 300000 201", false},
		{sluice.ConcurrencyV1(), "sluice:x:{s}:cc1 2 30000000 1 holder", false},
		{sluice.ConcurrencyReleaseV1(), "sluice:x:{s}:cc1 holder", true},
		{sluice.TokenBucketSetV1(), "sluice:x:{s}:tb1 50 1000000 0", false},
	}
	call := func(script sluice.Script, words []string) error {
		keys := len(script.Keys)
		args := make([]any, 0, len(words))
		for _, word := range words[keys:] {
			args = append(args, word)
		}
		return rdb.Eval(t.Context(), script.Source, words[:keys], args...).Err()
	}
	must(t, call(sluice.ConcurrencyV1(), strings.Fields("sluice:x:{s}:cc1 2 30000000 0 holder")))
	for _, step := range steps[:7] {
		must(t, call(step.script, strings.Fields(step.call)))
	}
	must(t, call(sluice.ZSetLogV1(), strings.Fields("sluice:x:{s}:zl1 3 60000000 1 0 repeated")))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, step := range steps {
		err := call(step.script, strings.Fields(step.call))
		if works := err == nil; works != step.works || !works && !strings.HasPrefix(err.Error(), "OOM ") {
			t.Errorf("%s %s: %v", step.script.Name, step.call, err)
		}
	}
}
