package repo_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/localredis"
	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/internal/rights"
	"github.com/sluice-redis/sluice/loader"
)

// subjects is how many decisions a client makes: enough for each node of a cluster.
const subjects = 12

// A decider makes that many decisions with a client, as user sluice-use, and says what went wrong.
type decider func(ctx context.Context, addr string, cluster bool) error

// deciders returns each client of package rights.
func deciders(t *testing.T) map[string]decider {
	python := exampletest.Interpreter(t, "Debian: apt-get install python3-redis",
		[]string{"python3", "/usr/bin/python3"}, "-c", "import redis")
	node := exampletest.Interpreter(t, "cd examples/node && npm ci", []string{"node"}, "--input-type=module", "-e",
		"await import('"+exampletest.Absolute(t, "../../../examples/node/node_modules/ioredis/package.json")+
			"', {with: {type: 'json'}})")
	return map[string]decider{
		"go-redis":   decideInGo,
		"redis-py":   decideBy(python, "testdata/rights.py"),
		"node-redis": decideBy(node, "../../../examples/node/rights.mjs", "redis"),
		"ioredis":    decideBy(node, "../../../examples/node/rights.mjs", "ioredis"),
	}
}

func decideBy(words ...string) decider {
	return func(ctx context.Context, addr string, cluster bool) error {
		kind := map[bool]string{true: "cluster", false: "single"}[cluster]
		args := append(slices.Clone(words[1:]), kind, addr, sluice.ListLogV1().SHA1, fmt.Sprint(subjects))
		cmd := exec.CommandContext(ctx, words[0], args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err == nil && strings.TrimSpace(string(out)) != fmt.Sprint(subjects) {
			err = fmt.Errorf("it granted not %d", subjects)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s%.2000s", err, out, &stderr)
		}
		return nil
	}
}

func decideInGo(ctx context.Context, addr string, cluster bool) error {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{addr}, IsClusterMode: cluster, Username: "sluice-use", Password: "toothpaste",
	})
	defer rdb.Close()
	codes := loader.New(rdb, loader.PreloadedOnly()).ListLog("codes", loader.PerMinute(3))
	for i := range subjects {
		if d, err := codes.Allow(ctx, fmt.Sprint("s", i)); err != nil || !d.Granted {
			return fmt.Errorf("%+v, %w", d, err)
		}
	}
	return nil
}

// TestServerRights has each client decide as the user that sluice acl makes for it, on one server and on a cluster of
// three masters where a slot is moving. Without any of the client's rights the server refuses something.
func TestServerRights(t *testing.T) {
	sluiceProgram := exampletest.Build(t, ".", "../../../cmd/sluice")
	single := []*redis.Client{redistest.Start(t).Client(t)}
	var cluster []*redis.Client
	for _, server := range redistest.StartCluster(t, 3, 0) {
		cluster = append(cluster, server.Client(t))
	}
	moveSlot(t, cluster)
	all := deciders(t)
	for _, client := range rights.Clients() {
		if client.Name == "jedis" || client.Name == "lettuce" {
			continue // the test would need Java
		}
		t.Run(client.Name, func(t *testing.T) {
			wantRights(t, sluiceProgram, client.Name, all[client.Name], single, client.Single, "--redis")
			wantRights(t, sluiceProgram, client.Name, all[client.Name], cluster, client.Cluster, "--cluster")
		})
	}
}

// wantRights wants that a client needs exactly these rights.
func wantRights(
	t *testing.T, binary, name string, decide decider, nodes []*redis.Client, commands []string, flag string,
) {
	t.Helper()
	addr, cluster := nodes[0].Options().Addr, flag == "--cluster"
	users := exampletest.Output(t, binary, "acl", "--client", name, "--cluster="+strconv.FormatBool(cluster), "list_log")
	for line := range strings.Lines(strings.ReplaceAll(users, "#SHA256-OF-ITS-PASSWORD", ">toothpaste")) {
		var words []any
		for _, word := range strings.Fields(line) {
			words = append(words, word)
		}
		everywhere(t, nodes, words...)
	}
	exampletest.Output(t, binary, "load", flag, addr, "list_log")
	everywhere(t, nodes, "FLUSHALL")
	inTime, cancel := context.WithTimeout(t.Context(), time.Minute) // without a right some clients try for ever
	defer cancel()
	if err := decide(inTime, addr, cluster); err != nil {
		t.Errorf("%s: %v", flag, err)
	}
	if refused := refusals(t, nodes); len(refused) > 0 {
		t.Errorf("%s: the server refused %s", flag, refused)
	}
	for _, command := range commands {
		if command == "ping" { // sent by pools and heartbeats, if they are asked for
			continue
		}
		everywhere(t, nodes, "FLUSHALL")
		everywhere(t, nodes, "ACL", "SETUSER", "sluice-use", "-"+command)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- decide(ctx, addr, cluster) }()
		redistest.Await(t, name+" sends "+command, func() bool { return slices.Contains(refusals(t, nodes), command) })
		stop()
		<-ended
		everywhere(t, nodes, "ACL", "SETUSER", "sluice-use", "+"+command)
		everywhere(t, nodes, "ACL", "LOG", "RESET")
	}
}

// moveSlot begins to move the slot of a subject to another node: who asks for it is redirected there by ASK.
func moveSlot(t *testing.T, nodes []*redis.Client) {
	t.Helper()
	slot := nodes[0].ClusterKeySlot(t.Context(), "s0").Val()
	from := nodes[slot*int64(len(nodes))/redistest.Slots]
	to := nodes[0]
	if to == from {
		to = nodes[1]
	}
	localredis.MoveSlot("s0", from, to)
}

func everywhere(t *testing.T, nodes []*redis.Client, words ...any) {
	t.Helper()
	for _, node := range nodes {
		must(t, node.Do(t.Context(), words...).Err())
	}
}

// refusals is what the nodes refused: the ACL LOG of all.
func refusals(t *testing.T, nodes []*redis.Client) (found []string) {
	t.Helper()
	for _, node := range nodes {
		entries, err := node.ACLLog(t.Context(), 100).Result()
		must(t, err)
		for _, entry := range entries {
			found = append(found, entry.Object)
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
