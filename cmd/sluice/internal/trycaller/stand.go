package trycaller

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/faultproxy"
	"github.com/sluice-redis/sluice/internal/localredis"
)

// The kinds of stands on which rows are tried.
const (
	theirServer = "--redis"
	ownServer   = "server"
	ownCluster  = "cluster"
)

type proxy = faultproxy.Proxy

// node is a server behind a proxy.
type node struct {
	server *localredis.Server
	proxy  *proxy
	rdb    *redis.Client // past the proxy
}

func (n *node) isMaster() bool {
	return n.rdb.InfoMap(context.Background(), "replication").Item("Replication", "role") == "master"
}

// startStand starts what COMMAND is tried on. It writes files in a folder.
func (t *trial) startStand(dir string) error {
	t.scripts = dir
	err := t.writeScripts(nil)
	if t.Redis != "" {
		t.kind = theirServer
		return errors.Join(err, t.add(&localredis.Server{}))
	}
	programs, missing := localredis.Programs()
	if err = errors.Join(err, missing); err != nil {
		return err
	}
	if t.Cluster {
		t.kind = ownCluster
		_, err = localredis.StartCluster(programs[0], dir, masters, 1, t.add)
		return err
	}
	t.kind = ownServer
	server, err := localredis.Start(programs[0], dir, nil)
	if err != nil {
		return err
	}
	return t.add(server)
}

// writeScripts writes the scripts, with other texts in place of some, and their sums.
func (t *trial) writeScripts(texts map[string]string) (err error) {
	sums := ""
	for _, script := range sluice.All() {
		for old, text := range texts {
			script.Source = strings.ReplaceAll(script.Source, old, text)
		}
		sums += redis.NewScript(script.Source).Hash() + "  " + script.File + "\n"
		err = errors.Join(err, os.WriteFile(filepath.Join(t.scripts, script.File), []byte(script.Source), 0o644))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(t.scripts, "SHA1SUMS"), []byte(sums), 0o644))
}

// add puts a proxy in front of a server. In a cluster it says that it is where its proxy is.
func (t *trial) add(server *localredis.Server) error {
	options, err := redis.ParseURL(cmp.Or(t.Redis, "redis://"+server.Addr))
	if err != nil {
		return err
	}
	options.MaxRetries, options.DialerRetries = -1, 1 // a dead server is noticed at once
	p, err := faultproxy.Start(options.Addr, t.must)
	if err != nil {
		server.Kill()
		return err
	}
	n := &node{server, p, redis.NewClient(options)}
	t.nodes = append(t.nodes, n)
	t.addrs = append(t.addrs, p.Addr)
	if t.Cluster {
		_, port, _ := net.SplitHostPort(p.Addr)
		return n.rdb.ConfigSet(t.ctx, "cluster-announce-port", port).Err()
	}
	return n.rdb.Ping(t.ctx).Err()
}

// environment tells COMMAND where the servers are, through their proxies, and the scripts.
func (t *trial) environment() []string {
	at, _ := url.Parse(cmp.Or(t.Redis, "redis:"))
	at.Host = t.addrs[0]
	where := "SLUICE_REDIS=" + at.String()
	if t.Cluster {
		where = "SLUICE_CLUSTER=" + strings.Join(t.addrs, ",")
	}
	return []string{where, "SLUICE_SCRIPTS=" + t.scripts}
}

func (t *trial) close() {
	for _, n := range t.nodes {
		n.proxy.Close()
		_ = n.rdb.Close()
		n.server.Kill()
	}
}

// must ends the trial if there is an error: what it waits for is called off.
func (t *trial) must(err error) {
	if err != nil {
		t.cancel(err)
	}
}

// each sends a command to all nodes. In a cluster, one node has its key.
func (t *trial) each(words ...word) {
	var args []any
	for _, w := range words {
		args = append(args, w.bytes())
	}
	for _, n := range t.nodes {
		_ = n.rdb.Do(t.ctx, args...).Err()
	}
}

// count looks how much each call has charged.
func (t *trial) count(answers []answer) {
	for i := range answers {
		for _, n := range t.nodes {
			answers[i].charged += n.rdb.LLen(t.ctx, string(answers[i].key)).Val() // 0 where the key is not
		}
	}
}

// asks reports what an ACL must allow: what COMMAND sends from its start on, and what the script calls.
func (t *trial) asks() []Row {
	t.stop()
	if t.kind != theirServer {
		t.each("SCRIPT", "FLUSH")
	}
	t.each("CONFIG", "RESETSTAT")
	t.startWell()
	t.calls(atOnce)
	needed := strings.Fields(strings.ToLower(strings.Join(sluice.ListLogV1().Commands, " ")))
	// They need no right, or are of replicas, or have reset the statistics.
	others := strings.Fields("hello auth quit reset replconf psync config config|resetstat")
	for _, n := range t.nodes[:min(masters, len(t.nodes))] {
		for stat := range n.rdb.InfoMap(t.ctx, "commandstats").Val()["Commandstats"] {
			name := strings.TrimPrefix(stat, "cmdstat_")
			if !slices.Contains(slices.Concat(others, needed), name) {
				needed = append(needed, name)
			}
		}
	}
	slices.Sort(needed)
	rules := "app on >secret resetchannels ~sluice:* +" + strings.Join(needed, " +")
	row := Row{"asks for little", "ACL SETUSER", rules, ""}
	if slices.Contains(needed, "eval") || slices.Contains(needed, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	return []Row{row}
}

// request is a call of a script in the folder of scripts.
func (t *trial) request(name string, keys []word, args ...word) request {
	t.last++
	path := filepath.Join(t.scripts, name+".lua")
	source, err := os.ReadFile(path)
	t.must(err)
	return request{t.last, name, redis.NewScript(string(source)).Hash(), path, keys, args}
}
