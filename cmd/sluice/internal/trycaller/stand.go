package trycaller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/faultproxy"
	"github.com/sluice-redis/sluice/internal/localredis"
)

// node is a server behind a proxy.
type node struct {
	server *localredis.Server // nil if it is somebody else's
	proxy  *faultproxy.Proxy
	rdb    *redis.Client // past the proxy
}

// stand is what COMMAND is tried on.
type stand struct {
	dir         string
	scripts     string // their folder
	nodes       []*node
	environment []string // of COMMAND, beside the folder of scripts
	prefix      string   // of keys: no other trial on the same server has it
	failed      error    // of a proxy
}

func newStand(o Options) (s *stand, err error) {
	s = &stand{prefix: fmt.Sprintf("sluice:try-caller/%x", time.Now().UnixMicro())}
	if s.dir, err = os.MkdirTemp("", "sluice-try-"); err != nil {
		return s, err
	}
	s.scripts = filepath.Join(s.dir, "scripts")
	at, start := "SLUICE_REDIS=", s.startServer
	switch {
	case o.Redis != "":
		start = func(string) (string, error) { return s.useServer(o.Redis) }
	case o.Cluster:
		at, start = "SLUICE_CLUSTER=", s.startCluster
	}
	addr, err := start(o.Binary)
	s.environment = []string{at + addr}
	return s, errors.Join(err, s.writeScripts())
}

// writeScripts writes the scripts into a folder, as COMMAND finds them.
func (s *stand) writeScripts() error {
	err, sums := os.Mkdir(s.scripts, 0o755), ""
	for _, script := range sluice.All() {
		sums += script.SHA1 + "  " + script.File + "\n"
		err = errors.Join(err, os.WriteFile(filepath.Join(s.scripts, script.File), []byte(script.Source), 0o644))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(s.scripts, "SHA1SUMS"), []byte(sums), 0o644))
}

func (s *stand) useServer(text string) (string, error) {
	options, err := redis.ParseURL(text)
	if err != nil {
		return "", err
	}
	n, err := s.add(nil, redis.NewClient(options))
	if err != nil {
		return "", err
	}
	at, _ := url.Parse(text)
	at.Host = n.proxy.Addr
	return at.String(), n.rdb.Ping(context.Background()).Err()
}

// startServer starts a server. The stand has a user of its own: the default user, COMMAND's, gets few rights.
func (s *stand) startServer(binary string) (string, error) {
	const admin = "try-caller"
	server, err := localredis.Start(binary, s.dir, nil, "--user", admin, "on", ">"+admin, "~*", "&*", "+@all")
	if err != nil {
		return "", err
	}
	n, err := s.add(server, redis.NewClient(&redis.Options{Addr: server.Addr, Username: admin, Password: admin}))
	return "redis://" + n.proxy.Addr, err
}

// startCluster starts a cluster whose nodes say that they are where their proxies are.
func (s *stand) startCluster(binary string) (string, error) {
	var addrs []string
	_, err := localredis.StartCluster(binary, s.dir, 3, 1, func(server *localredis.Server) error {
		n, err := s.add(server, localredis.Client(server.Addr))
		if err != nil {
			return err
		}
		addrs = append(addrs, n.proxy.Addr)
		_, port, _ := net.SplitHostPort(n.proxy.Addr)
		return n.rdb.ConfigSet(context.Background(), "cluster-announce-port", port).Err()
	}, "--cluster-node-timeout", "2000")
	return strings.Join(addrs[:min(3, len(addrs))], ","), err
}

func (s *stand) add(server *localredis.Server, rdb *redis.Client) (*node, error) {
	proxy, err := faultproxy.Start(rdb.Options().Addr, func(err error) { s.failed = err })
	n := &node{server, proxy, rdb}
	s.nodes = append(s.nodes, n)
	return n, err
}

func (s *stand) close() {
	for _, n := range s.nodes {
		if n.proxy != nil {
			n.proxy.Close()
		}
		_ = n.rdb.Close()
		if n.server != nil {
			n.server.Kill()
		}
	}
	_ = os.RemoveAll(s.dir)
}

// proxies calls a method of all proxies.
func (s *stand) proxies(do func(*faultproxy.Proxy)) {
	for _, n := range s.nodes {
		do(n.proxy)
	}
}

// accepted is how many connections the proxies have accepted.
func (s *stand) accepted() (count int64) {
	s.proxies(func(p *proxy) { count += p.Counts().Accepted })
	return count
}

// pass ends what the proxies do.
func (s *stand) pass() error {
	s.proxies((*proxy).Pass)
	return nil
}

// flushScripts is a fault that needs no end.
func (t *trial) flushScripts() (end func() error, err error) {
	t.each(t.ctx, "SCRIPT", "FLUSH")
	return t.pass, nil
}

// alive returns the nodes that answer.
func (s *stand) alive() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool { return n.server != nil && !n.server.Answers() })
}

// each sends a command to all nodes that answer.
func (s *stand) each(ctx context.Context, words ...any) {
	for _, n := range s.alive() {
		_ = n.rdb.Do(ctx, words...).Err()
	}
}

// charged returns what each of the logs holds, on the node that has it: others answer with a redirection.
func (s *stand) charged(ctx context.Context, keys []string) ([]int64, error) {
	lengths, answered := make([]int64, len(keys)), false
	for _, n := range s.alive() {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		found, err := n.rdb.Pipelined(asked, func(pipe redis.Pipeliner) error {
			for _, key := range keys {
				pipe.LLen(asked, key)
			}
			return nil
		})
		cancel()
		answered = answered || err == nil || redis.HasErrorPrefix(err, "MOVED")
		for i, reply := range found {
			lengths[i] = max(lengths[i], reply.(*redis.IntCmd).Val())
		}
	}
	if !answered {
		return nil, errors.New("no server of the stand answers")
	}
	return lengths, nil
}

// moveSlot has the slot of a key on its way to the next master: calls of a key that is not there yet get ASK. What it
// returns ends the move: calls of the old master get MOVED.
func (s *stand) moveSlot(ctx context.Context, key string) (end func() error, err error) {
	masters := s.masters(ctx)
	i := slices.IndexFunc(masters, func(n *node) bool { return n.rdb.LLen(ctx, key).Err() == nil })
	if i < 0 || len(masters) != 3 {
		return nil, errors.New("the cluster has not three masters")
	}
	from, to, third := masters[i], masters[(i+1)%3], masters[(i+2)%3]
	slot := from.rdb.ClusterKeySlot(ctx, key).Val()
	set := func(n *node, state string, other *node) {
		id := other.rdb.ClusterMyID(ctx).Val()
		err = errors.Join(err, n.rdb.Do(ctx, "CLUSTER", "SETSLOT", slot, state, id).Err())
	}
	set(to, "IMPORTING", from)
	set(from, "MIGRATING", to)
	return func() error {
		host, port, _ := net.SplitHostPort(to.server.Addr)
		for _, key := range from.rdb.ClusterGetKeysInSlot(ctx, int(slot), 1000).Val() {
			err = errors.Join(err, from.rdb.Migrate(ctx, host, port, key, 0, 5*time.Second).Err())
		}
		for _, n := range []*node{to, from, third} {
			set(n, "NODE", to)
		}
		return err
	}, err
}

// masters returns the nodes that are masters now: a busy machine may have had others take over.
func (s *stand) masters(ctx context.Context) []*node {
	return slices.DeleteFunc(s.alive(), func(n *node) bool {
		role, _ := n.rdb.Do(ctx, "ROLE").Slice()
		return len(role) == 0 || role[0] != "master"
	})
}

// awaitFailover waits until there are three masters that know it.
func (s *stand) awaitFailover(ctx context.Context) error {
	return localredis.Await("the replica takes over", func() bool {
		masters := s.masters(ctx)
		return ctx.Err() != nil || len(masters) == 3 && !slices.ContainsFunc(masters, func(n *node) bool {
			return !strings.Contains(n.rdb.ClusterInfo(ctx).Val(), "cluster_state:ok")
		})
	})
}
