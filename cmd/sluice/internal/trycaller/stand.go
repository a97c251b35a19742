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
	server *localredis.Server
	proxy  *proxy
	rdb    *redis.Client // past the proxy
}

// stand is what COMMAND is tried on.
type stand struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	kind    string
	scripts string // their folder
	nodes   []*node
	addrs   []string // of the proxies
	at      string   // where COMMAND finds them: a variable of its environment
	prefix  string   // of keys: no other trial on the same server has it
	endMove func() error
}

// newStand starts a stand, which has files in a folder.
func newStand(ctx context.Context, o Options, dir string) (s *stand, err error) {
	s = &stand{kind: ownServer, scripts: dir, prefix: fmt.Sprintf("sluice:try-caller/%x", time.Now().UnixMicro())}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	sums := ""
	for _, script := range sluice.All() {
		sums += script.SHA1 + "  " + script.File + "\n"
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, script.File), []byte(script.Source), 0o644))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "SHA1SUMS"), []byte(sums), 0o644))
	if o.Redis != "" {
		s.kind = theirServer
		return s, errors.Join(err, s.useTheirs(o.Redis))
	}
	programs, missing := localredis.Programs()
	if err = errors.Join(err, missing); err != nil {
		return s, err
	}
	// The stand has a user of its own: the default user, COMMAND's, gets few rights.
	args := []string{"--user", "stand", "on", ">pass", "~*", "&*", "+@all", "--cluster-node-timeout", "2000"}
	if o.Cluster {
		s.kind = ownCluster
		_, err = localredis.StartCluster(programs[0], dir, 3, 1, s.addOwn, args...)
		s.at = "SLUICE_CLUSTER=" + strings.Join(s.addrs, ",")
		return s, err
	}
	server, err := localredis.Start(programs[0], dir, nil, args...)
	if err == nil {
		err = s.addOwn(server)
	}
	s.at = "SLUICE_REDIS=redis://" + strings.Join(s.addrs, ",")
	return s, err
}

// useTheirs puts a proxy in front of a server. COMMAND is the user in the address.
func (s *stand) useTheirs(address string) error {
	options, err := redis.ParseURL(address)
	if err != nil {
		return err
	}
	at, _ := url.Parse(address)
	at.Host, err = s.add(&localredis.Server{}, options)
	s.at = "SLUICE_REDIS=" + at.String()
	return errors.Join(err, s.nodes[0].rdb.Ping(s.ctx).Err())
}

// addOwn adds a server. In a cluster it says that it is where its proxy is.
func (s *stand) addOwn(server *localredis.Server) error {
	options := redis.Options{Addr: server.Addr, Username: "stand", Password: "pass"}
	options.MaxRetries, options.DialerRetries = -1, 1 // a dead server is noticed at once
	addr, err := s.add(server, &options)
	s.addrs = append(s.addrs, addr)
	_, port, _ := net.SplitHostPort(addr)
	return errors.Join(err, s.nodes[len(s.nodes)-1].rdb.ConfigSet(s.ctx, "cluster-announce-port", port).Err())
}

// add adds a node and returns the address of its proxy.
func (s *stand) add(server *localredis.Server, options *redis.Options) (addr string, err error) {
	n := &node{server: server, rdb: redis.NewClient(options)}
	s.nodes = append(s.nodes, n)
	if n.proxy, err = faultproxy.Start(options.Addr, s.must); err != nil {
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
		n.server.Kill()
	}
}

// must ends the trial if there is an error: what it waits for is called off.
func (s *stand) must(err error) {
	if err != nil {
		s.cancel(err)
	}
}

// proxies calls a method of all proxies.
func (s *stand) proxies(do func(*proxy)) {
	for _, n := range s.nodes {
		do(n.proxy)
	}
}

// each sends a command to all nodes. In a cluster, one node has its key.
func (s *stand) each(words ...word) {
	var args []any
	for _, w := range words {
		args = append(args, string(w))
	}
	for _, n := range s.nodes {
		_ = n.rdb.Do(s.ctx, args...).Err()
	}
}

// count looks how much each call has charged.
func (s *stand) count(answers []answer) {
	for i := range answers {
		for _, n := range s.nodes {
			answers[i].charged += n.rdb.LLen(s.ctx, string(answers[i].key)).Val() // 0 where the key is not
		}
	}
}

// masters returns the nodes that are masters now: a busy machine may have had others take over.
func (s *stand) masters() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool {
		return !strings.Contains(n.rdb.Info(s.ctx, "replication").Val(), "role:master")
	})
}

// moveSlot has the slot of {mover} on its way to the next master: calls of a key that is not there yet get ASK. At the
// end of the move, calls of the old master get MOVED.
func (t *trial) moveSlot() {
	masters := t.masters()
	t.endMove = func() error { return errors.New("no master has the slot") }
	for i, n := range masters {
		if n.rdb.LLen(t.ctx, "{mover}").Err() == nil {
			t.endMove = localredis.MoveSlot("mover", n.rdb, masters[(i+1)%len(masters)].rdb)
		}
	}
}

// failOver kills a master.
func (t *trial) failOver() {
	if masters := t.masters(); len(masters) > 0 {
		masters[0].server.Kill()
	}
}

// awaitMasters waits until a replica has taken over.
func (t *trial) awaitMasters() error {
	return localredis.Await("three masters", func() bool { return len(t.masters()) == 3 })
}
