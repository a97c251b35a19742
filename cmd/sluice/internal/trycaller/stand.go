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

// The kinds of stands, as in row.where.
const (
	theirServer = "--redis"
	ownServer   = "server"
	ownCluster  = "cluster"
)

type proxy = faultproxy.Proxy

// node is a server behind a proxy.
type node struct {
	server *localredis.Server // nil: theirs
	proxy  *proxy
	rdb    *redis.Client // past the proxy
}

// stand is what COMMAND is tried on.
type stand struct {
	ctx     context.Context
	kind    string
	dir     string
	scripts string // their folder
	nodes   []*node
	at      string // where COMMAND finds the nodes: a variable of its environment
	prefix  string // of keys: no other trial on the same server has it
	failed  error  // of a proxy
}

func newStand(ctx context.Context, o Options) (s *stand, err error) {
	s = &stand{ctx: ctx, kind: ownServer, prefix: fmt.Sprintf("sluice:try-caller/%x", time.Now().UnixMicro())}
	if s.dir, err = os.MkdirTemp("", "sluice-try-"); err != nil {
		return s, err
	}
	s.scripts = filepath.Join(s.dir, "scripts")
	err, sums := os.Mkdir(s.scripts, 0o755), ""
	for _, script := range sluice.All() {
		sums += script.SHA1 + "  " + script.File + "\n"
		err = errors.Join(err, os.WriteFile(filepath.Join(s.scripts, script.File), []byte(script.Source), 0o644))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(s.scripts, "SHA1SUMS"), []byte(sums), 0o644))
	if o.Redis != "" {
		s.kind = theirServer
		return s, errors.Join(err, s.useServer(nil, o.Redis))
	}
	programs, missing := localredis.Programs()
	if err = errors.Join(err, missing); err != nil {
		return s, err
	}
	if o.Cluster {
		s.kind = ownCluster
		return s, s.startCluster(programs[0])
	}
	// The stand has a user of its own: the default user, COMMAND's, gets few rights.
	server, err := localredis.Start(programs[0], s.dir, nil, "--user", "stand", "on", ">pass", "~*", "&*", "+@all")
	if err != nil {
		return s, err
	}
	return s, s.useServer(server, "redis://stand:pass@"+server.Addr)
}

// useServer puts a proxy in front of a server. COMMAND is the user in the address, or the default user of an own one.
func (s *stand) useServer(own *localredis.Server, address string) error {
	options, err := redis.ParseURL(address)
	if err != nil {
		return err
	}
	at, _ := url.Parse(address)
	if at.Host, err = s.add(own, options); err != nil {
		return err
	}
	if own != nil {
		at.User = nil
	}
	s.at = "SLUICE_REDIS=" + at.String()
	return s.nodes[0].rdb.Ping(s.ctx).Err()
}

// startCluster starts a cluster whose nodes say that they are where their proxies are.
func (s *stand) startCluster(binary string) error {
	var addrs []string
	_, err := localredis.StartCluster(binary, s.dir, 3, 1, func(server *localredis.Server) error {
		addr, err := s.add(server, &redis.Options{Addr: server.Addr})
		if err != nil {
			return err
		}
		addrs = append(addrs, addr)
		_, port, _ := net.SplitHostPort(addr)
		return s.nodes[len(s.nodes)-1].rdb.ConfigSet(s.ctx, "cluster-announce-port", port).Err()
	}, "--cluster-node-timeout", "2000")
	s.at = "SLUICE_CLUSTER=" + strings.Join(addrs[:min(3, len(addrs))], ",")
	return err
}

// add adds a node and returns the address of its proxy.
func (s *stand) add(server *localredis.Server, options *redis.Options) (addr string, err error) {
	n := &node{server: server, rdb: redis.NewClient(options)}
	s.nodes = append(s.nodes, n)
	if n.proxy, err = faultproxy.Start(options.Addr, func(err error) { s.failed = err }); err != nil {
		return "", err
	}
	return n.proxy.Addr, nil
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
func (s *stand) proxies(do func(*proxy)) {
	for _, n := range s.nodes {
		do(n.proxy)
	}
}

// alive returns the nodes that answer.
func (s *stand) alive() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool { return n.server != nil && !n.server.Answers() })
}

// each sends a command to all nodes that answer. In a cluster, one node has its key.
func (s *stand) each(words ...string) {
	for _, n := range s.alive() {
		_ = n.rdb.Do(s.ctx, each(words, anyOf)...).Err()
	}
}

// count looks how much each call has charged.
func (s *stand) count(answers []answer) error {
	err := errors.New("no server of the stand answers")
	for _, n := range s.alive() {
		for i, a := range answers {
			charged, failed := n.rdb.LLen(s.ctx, a.key).Result()
			answers[i].charged = max(a.charged, charged)
			if failed == nil {
				err = nil
			}
		}
	}
	return err
}

// masters returns the nodes that are masters now: a busy machine may have had others take over.
func (s *stand) masters() []*node {
	return slices.DeleteFunc(s.alive(), func(n *node) bool {
		return !strings.Contains(n.rdb.Info(s.ctx, "replication").Val(), "role:master")
	})
}

// moveSlot has the slot of {mover} on its way to the next master: calls of a key that is not there yet get ASK. At the
// end of the move, calls of the old master get MOVED.
func (s *stand) moveSlot() (end func() error) {
	masters := s.masters()
	i := slices.IndexFunc(masters, func(n *node) bool { return n.rdb.LLen(s.ctx, "{mover}").Err() == nil })
	if i < 0 || len(masters) != 3 {
		return func() error { return errors.New("the cluster has not three masters") }
	}
	return localredis.MoveSlot("mover", masters[i].rdb, masters[(i+1)%3].rdb)
}

// failOver kills a master. In the end its replica has taken over.
func (s *stand) failOver() (end func() error) {
	s.masters()[0].server.Kill()
	return func() error {
		return localredis.Await("a replica takes over", func() bool { return len(s.masters()) == 3 })
	}
}
