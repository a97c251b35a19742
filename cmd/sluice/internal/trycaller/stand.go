package trycaller

import (
	"cmp"
	"fmt"
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

const theirServer, ownServer, ownCluster = "--redis", "server", "cluster" // the kinds of stands

type proxy = faultproxy.Proxy

// node is a server behind a proxy.
type node struct {
	server *localredis.Server
	proxy  *proxy
	rdb    *redis.Client // past the proxy
}

// startStand starts what COMMAND is tried on.
func (t *trial) startStand() error {
	t.writeScripts(nil)
	if t.Redis != "" {
		t.kind = theirServer
		return t.add(&localredis.Server{})
	}
	programs, err := localredis.Programs()
	if err != nil {
		return fmt.Errorf("%w, or give --redis URL", err)
	}
	if t.Cluster {
		t.kind = ownCluster
		_, err = localredis.StartCluster(programs[0], t.scripts, masters, 1, t.add)
		return err
	}
	t.kind = ownServer
	server, err := localredis.Start(programs[0], t.scripts, nil)
	if err != nil {
		return err
	}
	return t.add(server)
}

// writeScripts writes the scripts, with other texts in place of some, and their sums.
func (t *trial) writeScripts(texts map[string]string) {
	sums := ""
	for _, script := range sluice.All() {
		for old, text := range texts {
			script.Source = strings.ReplaceAll(script.Source, old, text)
		}
		t.sha1s[script.File] = redis.NewScript(script.Source).Hash()
		sums += t.sha1s[script.File] + "  " + script.File + "\n"
		t.must(os.WriteFile(filepath.Join(t.scripts, script.File), []byte(script.Source), 0o644))
	}
	t.must(os.WriteFile(filepath.Join(t.scripts, "SHA1SUMS"), []byte(sums), 0o644))
}

// add puts a proxy in front of a server. In a cluster it says that it is where its proxy is.
func (t *trial) add(server *localredis.Server) error {
	at := cmp.Or(t.Redis, "redis://"+server.Addr)
	options, err := redis.ParseURL(at)
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
	if t.Cluster {
		t.addrs = append(t.addrs, p.Addr)
		t.where = "SLUICE_CLUSTER=" + strings.Join(t.addrs, ",")
		_, port, _ := net.SplitHostPort(p.Addr)
		return n.rdb.ConfigSet(t.ctx, "cluster-announce-port", port).Err()
	}
	proxied, _ := url.Parse(at)
	proxied.Host = p.Addr
	t.where = "SLUICE_REDIS=" + proxied.String()
	return n.rdb.Ping(t.ctx).Err()
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

// request is a call of a script in the folder of scripts.
func (t *trial) request(script string, keys []word, args ...word) request {
	t.last++
	file := script + ".lua"
	return request{t.last, script, t.sha1s[file], filepath.Join(t.scripts, file), keys, args}
}
