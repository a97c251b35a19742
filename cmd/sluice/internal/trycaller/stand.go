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
	nodes       []*node // of a cluster the masters first
	environment []string
	failed      error // of a proxy
}

// admin is the user of the stand itself on its own single server: the default user, COMMAND's, gets few rights.
const admin, adminPassword = "try-caller", "try-caller"

func newStand(o Options) (s *stand, err error) {
	s = &stand{}
	if s.dir, err = os.MkdirTemp("", "sluice-try-"); err != nil {
		return s, err
	}
	switch {
	case o.Redis != "":
		err = s.useServer(o.Redis)
	case o.Cluster:
		err = s.startCluster(o.Binary)
	default:
		err = s.startServer(o.Binary)
	}
	if err != nil {
		return s, err
	}
	return s, s.writeScripts()
}

// writeScripts writes the scripts into a folder, as COMMAND finds them.
func (s *stand) writeScripts() error {
	folder, sums := filepath.Join(s.dir, "scripts"), ""
	s.environment = append(s.environment, "SLUICE_SCRIPTS="+folder)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for _, script := range sluice.All() {
		sums += script.SHA1 + "  " + script.File + "\n"
		if err := os.WriteFile(filepath.Join(folder, script.File), []byte(script.Source), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "SHA1SUMS"), []byte(sums), 0o644)
}

func (s *stand) useServer(text string) error {
	options, err := redis.ParseURL(text)
	if err != nil {
		return err
	}
	at, _ := url.Parse(text)
	n, err := s.add(nil, redis.NewClient(options))
	if err != nil {
		return err
	}
	at.Host = n.proxy.Addr
	s.environment = []string{"SLUICE_REDIS=" + at.String()}
	return n.rdb.Ping(context.Background()).Err()
}

func (s *stand) startServer(binary string) error {
	server, err := localredis.Start(binary, s.dir, nil)
	if err != nil {
		return err
	}
	plain := localredis.Client(server.Addr)
	defer plain.Close()
	options := *plain.Options()
	options.Username, options.Password = admin, adminPassword
	n, err := s.add(server, redis.NewClient(&options))
	if err != nil {
		return err
	}
	s.environment = []string{"SLUICE_REDIS=redis://" + n.proxy.Addr}
	return s.addAdmin(plain)
}

// addAdmin makes the user of the stand, also after a restart.
func (s *stand) addAdmin(plain *redis.Client) error {
	return plain.Do(context.Background(), "ACL", "SETUSER", admin, "on", ">"+adminPassword, "~*", "&*", "+@all").Err()
}

// startCluster starts a cluster whose nodes say that they are where their proxies are.
func (s *stand) startCluster(binary string) error {
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
	s.environment = []string{"SLUICE_CLUSTER=" + strings.Join(addrs[:min(3, len(addrs))], ",")}
	return err
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

// each sends a command to all servers that answer.
func (s *stand) each(ctx context.Context, words ...any) {
	for _, n := range s.nodes {
		_ = n.rdb.Do(ctx, words...).Err()
	}
}

// charged returns what each of the logs holds, on the node that has it: others answer with a redirection.
func (s *stand) charged(ctx context.Context, keys []string) ([]int64, error) {
	lengths, answered := make([]int64, len(keys)), false
	for _, n := range s.nodes {
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
		return nil, fmt.Errorf("no server of the stand answers")
	}
	return lengths, nil
}

// restart kills the server and starts it again.
func (s *stand) restart() error {
	n := s.nodes[0]
	n.server.Kill()
	if err := n.server.Restart(); err != nil {
		return err
	}
	plain := localredis.Client(n.server.Addr)
	defer plain.Close()
	return s.addAdmin(plain)
}

// moveSlot gives the slot of a key to the next master, keys and all.
func (s *stand) moveSlot(ctx context.Context, key string) error {
	masters := s.masters(ctx)
	slot := s.nodes[0].rdb.ClusterKeySlot(ctx, key).Val()
	i := slices.IndexFunc(masters, func(n *node) bool { return n.rdb.LLen(ctx, key).Err() == nil })
	if i < 0 || len(masters) != 3 {
		return errors.New("the cluster has not three masters")
	}
	from, to := masters[i], masters[(i+1)%3]
	id := func(n *node) string { return fmt.Sprint(n.rdb.Do(ctx, "CLUSTER", "MYID").Val()) }
	host, port, _ := net.SplitHostPort(to.server.Addr)
	steps := []*redis.Cmd{
		to.rdb.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from)),
		from.rdb.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to)),
	}
	time.Sleep(200 * time.Millisecond) // calls meet a slot that is moving
	for keys := from.rdb.ClusterGetKeysInSlot(ctx, int(slot), 1000).Val(); len(keys) > 0; {
		words := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, key := range keys {
			words = append(words, key)
		}
		steps = append(steps, from.rdb.Do(ctx, words...))
		keys = from.rdb.ClusterGetKeysInSlot(ctx, int(slot), 1000).Val()
		if len(steps) > 100 {
			return fmt.Errorf("slot %d does not get empty", slot)
		}
	}
	for _, n := range []*node{to, from, masters[(i+2)%3]} {
		steps = append(steps, n.rdb.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id(to)))
	}
	for _, step := range steps {
		if step.Err() != nil {
			return step.Err()
		}
	}
	return nil
}

// masters returns the nodes that are masters now: a busy machine may have had others take over.
func (s *stand) masters(ctx context.Context) []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool {
		role, _ := n.rdb.Do(ctx, "ROLE").Slice()
		return len(role) == 0 || role[0] != "master"
	})
}

// killMaster kills a master, and calls of its keys fail until its replica takes over.
func (t *trial) killMaster() error {
	if masters := t.masters(t.ctx); len(masters) > 0 {
		masters[0].server.Kill()
	}
	return nil
}

// awaitFailover waits until there are three masters that know it.
func (t *trial) awaitFailover() error {
	return localredis.Await("the replica takes over", func() bool {
		masters := t.masters(t.ctx)
		return t.ctx.Err() != nil || len(masters) == 3 && !slices.ContainsFunc(masters, func(n *node) bool {
			return !strings.Contains(n.rdb.ClusterInfo(t.ctx).Val(), "cluster_state:ok")
		})
	})
}
