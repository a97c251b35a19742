package trycaller

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
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
	return strings.Contains(n.rdb.Info(context.Background(), "replication").Val(), "role:master")
}

// startStand starts what COMMAND is tried on. It writes files in a folder.
func (t *trial) startStand(dir string) error {
	t.scripts = dir
	sums, err := "", error(nil)
	for _, script := range sluice.All() {
		sums += script.SHA1 + "  " + script.File + "\n"
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, script.File), []byte(script.Source), 0o644))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "SHA1SUMS"), []byte(sums), 0o644))
	if t.Redis != "" {
		t.kind = theirServer
		return errors.Join(err, t.add(&localredis.Server{}, t.Redis))
	}
	programs, missing := localredis.Programs()
	if err = errors.Join(err, missing); err != nil {
		return err
	}
	// The trial has a user of its own: the default user, COMMAND's, gets few rights.
	args := []string{"--user", "trial", "on", ">pass", "~*", "&*", "+@all"}
	if t.Cluster {
		t.kind = ownCluster
		_, err = localredis.StartCluster(programs[0], dir, masters, 1, t.addOwn, args...)
		return err
	}
	t.kind = ownServer
	server, err := localredis.Start(programs[0], dir, nil, args...)
	if err != nil {
		return err
	}
	return t.addOwn(server)
}

// addOwn adds a server. In a cluster it says that it is where its proxy is.
func (t *trial) addOwn(server *localredis.Server) error {
	if err := t.add(server, "redis://trial:pass@"+server.Addr); err != nil {
		return err
	}
	n := t.nodes[len(t.nodes)-1]
	_, port, _ := net.SplitHostPort(n.proxy.Addr)
	return n.rdb.ConfigSet(t.ctx, "cluster-announce-port", port).Err()
}

// add puts a proxy in front of a server.
func (t *trial) add(server *localredis.Server, address string) error {
	options, err := redis.ParseURL(address)
	if err != nil {
		return err
	}
	options.MaxRetries, options.DialerRetries = -1, 1 // a dead server is noticed at once
	p, err := faultproxy.Start(options.Addr, t.must)
	if err != nil {
		server.Kill()
		return err
	}
	t.nodes = append(t.nodes, &node{server, p, redis.NewClient(options)})
	return nil
}

// environment tells COMMAND where the servers are, through their proxies, and the scripts.
func (t *trial) environment() []string {
	var addrs []string
	for _, n := range t.nodes {
		addrs = append(addrs, n.proxy.Addr)
	}
	at, _ := url.Parse(cmp.Or(t.Redis, "redis:"))
	at.Host = addrs[0]
	where := "SLUICE_REDIS=" + at.String()
	if t.Cluster {
		where = "SLUICE_CLUSTER=" + strings.Join(addrs, ",")
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
