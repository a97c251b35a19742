package examples_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/redistest"
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
		cmd.Dir = filepath.Join("..", "scripts")
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
	for _, line := range strings.Split(readFile(t, "../scripts/README.md"), "\n") {
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
	_, rest, found := strings.Cut(readFile(t, "../scripts/README.md"), "    ACL SETUSER ")
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
