package repo_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const operations = "../../../docs/operations.md"

var commandPattern = regexp.MustCompile(`(?m)^    (.+)$`)

// section is what a text has between two others.
func section(text, begins, ends string) string {
	_, rest, _ := strings.Cut(text, begins)
	part, _, _ := strings.Cut(rest, ends)
	return part
}

// An operator runs commands that a page shows, in a folder with the files that they name.
type operator struct {
	folder, path string
	replace      *strings.Replacer
	environment  []string
}

// newOperator has sluice on the path. replaced are names of the pages and what is there in their place.
func newOperator(t *testing.T, replaced ...string) operator {
	t.Helper()
	binary := exampletest.Build(t, ".", "../../../cmd/sluice")
	o := operator{folder: t.TempDir(), path: filepath.Dir(binary) + ":" + os.Getenv("PATH")}
	o.replace = strings.NewReplacer(replaced...)
	must(t, os.Symlink(exampletest.Absolute(t, "../../../scripts"), filepath.Join(o.folder, "scripts")))
	line := `2001:db8:1:2:3::4 - - [26/Nov/2026:03:00:00 +0000] "POST /login HTTP/1.1" 200 5` + "\n"
	limits := "limits:" + section(readFile(t, operations), "```yaml\nlimits:", "```")
	v2 := strings.Replace(sluice.ListLogV1().Source, "-- list_log v1", "-- list_log v2", 1)
	for name, text := range map[string]string{
		"limits.yaml": limits, "access.log.2.gz": line, "access.log": line, "list_log_v2.lua": v2,
	} {
		must(t, os.WriteFile(filepath.Join(o.folder, name), []byte(text), 0o600))
	}
	return o
}

// run runs commands and returns what they print, with the error of the first that fails.
func (o operator) run(commands string) (string, error) {
	cmd := exec.Command("sh", "-ec", o.replace.Replace(commands))
	cmd.Dir = o.folder
	cmd.Env = append(append(os.Environ(), "PATH="+o.path), o.environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// grantAll grants what the pages look at.
func grantAll(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	limits, ctx := loader.New(rdb, loader.Timeout(10*time.Second)), context.Background()
	hour := loader.Limit{Permits: 1000, Window: time.Hour}
	for _, grant := range []struct {
		limiter loader.Limiter
		subject string
	}{
		{limits.ListLog("send-code", loader.PerMinute(3)), "ada@example.com"},
		{limits.ListLog("login", loader.PerMinute(10)), "2001:db8:1:2::/64"},
		{limits.SliceRing("api", []loader.Limit{loader.PerMinute(100), hour}), "acme"},
		{limits.TokenBucket("sms", loader.PerMinute(10)), "acme"},
	} {
		if d, err := grant.limiter.Allow(ctx, grant.subject); err != nil || !d.Granted {
			t.Fatalf("%s: %+v, %v", grant.subject, d, err)
		}
	}
}

// The commands that README and two pages show to operators work, as they stand there. Those of the runbook have a test
// of their own, and cmd/sluice runs the loop of the one block.
func TestServerOperatorsCommands(t *testing.T) {
	server := redistest.Start(t)
	host, port, _ := net.SplitHostPort(server.Addr)
	o := newOperator(t, "redis://localhost", "redis://"+server.Addr, "redis-cli", "redis-cli -h "+host+" -p "+port)
	o.environment = []string{"SLUICE_REDIS=redis://" + server.Addr}
	page := readFile(t, operations)
	page = strings.Replace(page, section(page, "## Runbook", "\n## "), "", 1)
	for name, text := range map[string]string{
		"README.md":          section(readFile(t, "../../../README.md"), "## For DBAs", "\n## "),
		"docs/operations.md": regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, ""),
		"docs/versions.md":   readFile(t, "../../../docs/versions.md"),
	} {
		grantAll(t, server.Client(t))
		commands := commandPattern.FindAllStringSubmatch(text, -1)
		if len(commands) < 4 {
			t.Errorf("%s shows only %d commands", name, len(commands))
		}
		for _, command := range commands {
			if out, err := o.run(command[1]); err != nil {
				t.Errorf("%s: %s: %v\n%s", name, command[1], err, out)
			}
		}
	}
}

// Each event of the runbook happens to a cluster. Then verify finds a fault, if there is one, and the commands of the
// runbook mend it, as they stand there.
func TestServerRunbook(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users.acl")
	must(t, os.WriteFile(users, nil, 0o600))
	nodes := append(redistest.StartCluster(t, 3, 1, "--aclfile", users),
		redistest.StartClusterNode(t, "--aclfile", users))
	var replaced []string
	for i, node := range nodes {
		host, port, _ := net.SplitHostPort(node.Addr)
		name := string(rune('0' + i))
		replaced = append(replaced, "cache:700"+name, node.Addr, "-h cache -p 700"+name, "-h "+host+" -p "+port)
	}
	o := newOperator(t, replaced...)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := context.Background()
	await := func(node int, what string) {
		redistest.Await(t, what, func() bool {
			client := nodes[node].Client(t)
			defer client.Close()
			return strings.Contains(client.ClusterInfo(ctx).Val()+client.Info(ctx, "replication").Val(), what)
		})
	}
	events := map[string]func() (faulty bool){
		"Restart": func() bool {
			for _, node := range nodes[:6] {
				node.Kill()
			}
			for _, node := range nodes[:6] {
				node.Restart(t)
			}
			for i := range nodes[:6] {
				await(i, "cluster_state:ok")
			}
			return true
		},
		"Failover": func() bool {
			nodes[0].Kill()
			must(t, nodes[3].Client(t).Do(ctx, "cluster", "failover", "takeover").Err())
			await(3, "role:master")
			nodes[0].Restart(t)
			await(0, "master_link_status:up")
			return true
		},
		"New node": func() bool { // once the last failover is over
			_, err := o.run("until redis-cli --cluster check cache:7000; do sleep 1; done")
			must(t, err)
			return false
		},
		"FLUSHALL, SCRIPT FLUSH": func() bool {
			must(t, rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
				return errors.Join(node.FlushAll(ctx).Err(), node.ScriptFlush(ctx).Err())
			}))
			return true
		},
		"Upgrade, rollback":             func() bool { return false },
		"Why was she denied at 3 a.m.?": func() bool { grantAll(t, rdb); return false },
	}
	parts := strings.Split(section(readFile(t, operations), "## Runbook", "\n## "), "\n### ")
	commands := func(text string) (all string) {
		for _, command := range commandPattern.FindAllStringSubmatch(text, -1) {
			all += command[1] + "\n"
		}
		return all
	}
	on := commands(parts[0])
	for _, part := range parts[1:] {
		name, text, _ := strings.Cut(part, "\n")
		event := events[name]
		if delete(events, name); event == nil {
			t.Fatalf("no event is for %q", name)
		}
		if event() {
			if out, err := o.run(on + "sluice verify --try $on"); err == nil {
				t.Errorf("%s: verify finds no fault\n%s", name, out)
			}
		}
		out, err := o.run(on + "set -x\n" + commands(text))
		if t.Logf("%s\n%s", name, out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "New node" && strings.Count(out, "  loaded, tried\n") != 4 {
			t.Errorf("the new node is not tried: it has no slots")
		}
	}
	if len(events) > 0 {
		t.Errorf("the runbook lacks %v", events)
	}
}
