package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sluice-redis/sluice/internal/redistest"
)

// slowDial is how long a Dialer takes that is slow.
const slowDial = 3 * time.Second

// manyConnections is a pool in which no call waits for another's connection.
const manyConnections = 1000

// unlikelyFailover is longer than any server is frozen here.
const unlikelyFailover = 10 * time.Minute

// stage is one deployment of each kind. Clients reach every server through a proxy.
type stage struct {
	single    *redistest.Server
	cluster   []*redistest.Server
	sentinels *redistest.Sentinels
	data      map[string]*redistest.Proxy // by the address of the server
	watch     map[string]*redistest.Proxy // of the sentinels
	dialer    atomic.Pointer[dialer]
}

// dialer connects to an address.
type dialer func(ctx context.Context, addr string) (net.Conn, error)

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{data: map[string]*redistest.Proxy{}, watch: map[string]*redistest.Proxy{}}
	s.single = redistest.Start(t)
	s.cluster = redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", fmt.Sprint(unlikelyFailover.Milliseconds()))
	s.sentinels = redistest.StartSentinels(t, unlikelyFailover)
	for _, server := range s.servers() {
		s.data[server.Addr] = redistest.StartProxy(t, server.Addr)
	}
	for _, addr := range s.sentinels.Addrs {
		s.watch[addr] = redistest.StartProxy(t, addr)
	}
	s.dialAs(s.direct)
	return s
}

// servers are those that decide.
func (s *stage) servers() []*redistest.Server {
	return append([]*redistest.Server{s.single, s.sentinels.Master}, s.cluster...)
}

// proxies are those in front of the servers, and those in front of the sentinels if all of the network is meant.
func (s *stage) proxies(all bool) []*redistest.Proxy {
	var proxies []*redistest.Proxy
	for _, p := range s.data {
		proxies = append(proxies, p)
	}
	for _, p := range s.watch {
		if all {
			proxies = append(proxies, p)
		}
	}
	return proxies
}

func (s *stage) dialAs(d dialer) { s.dialer.Store(&d) }

// direct connects to the proxy of a server.
func (s *stage) direct(ctx context.Context, addr string) (net.Conn, error) {
	p := s.data[addr]
	if p == nil {
		p = s.watch[addr]
	}
	if p == nil {
		return nil, fmt.Errorf("%s is no server of this test", addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", p.Addr)
}

// dial is the Dialer of all clients.
func (s *stage) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	return (*s.dialer.Load())(ctx, addr)
}

// boundClients are the kinds of clients. A pool of 0 is one of many connections.
var boundClients = []struct {
	name string
	make func(s *stage, pool int, keepsDeadlines bool) redis.UniversalClient
}{
	{"Client", func(s *stage, pool int, keepsDeadlines bool) redis.UniversalClient {
		return redis.NewClient(&redis.Options{
			Addr: s.single.Addr, Dialer: s.dial, DisableIdentity: true, ContextTimeoutEnabled: keepsDeadlines,
			PoolSize:         poolSize(pool),
			PipelinePoolSize: pipelinePoolSize(pool), MaintNotificationsConfig: noNotices(),
		})
	}},
	{"ClusterClient", func(s *stage, pool int, keepsDeadlines bool) redis.UniversalClient {
		var addrs []string
		for _, node := range s.cluster {
			addrs = append(addrs, node.Addr)
		}
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Dialer: s.dial, DisableIdentity: true, ContextTimeoutEnabled: keepsDeadlines, PoolSize: poolSize(pool),
			PipelinePoolSize: pipelinePoolSize(pool), MaintNotificationsConfig: noNotices(),
		})
	}},
	{"Ring", func(s *stage, pool int, keepsDeadlines bool) redis.UniversalClient {
		return redis.NewRing(&redis.RingOptions{
			Addrs:  map[string]string{"a": s.single.Addr, "b": s.sentinels.Master.Addr},
			Dialer: s.dial, DisableIdentity: true, ContextTimeoutEnabled: keepsDeadlines, PoolSize: poolSize(pool),
			PipelinePoolSize: pipelinePoolSize(pool),
		})
	}},
	{"Sentinel", func(s *stage, pool int, keepsDeadlines bool) redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: s.sentinels.Name, SentinelAddrs: s.sentinels.Addrs, Dialer: s.dial, DisableIdentity: true,
			ContextTimeoutEnabled: keepsDeadlines,
			PoolSize:              poolSize(pool), PipelinePoolSize: pipelinePoolSize(pool),
		})
	}},
}

func noNotices() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func poolSize(pool int) int {
	if pool == 0 {
		return manyConnections
	}
	return pool
}

// pipelinePoolSize leaves pipelines no pool of their own where the size of the pool matters.
func pipelinePoolSize(pool int) int {
	if pool == 0 {
		return 0
	}
	return -1
}

// boundFault is a fault that makes calls wait.
type boundFault struct {
	name   string
	cold   bool // the clients have never connected: all of the network fails, sentinels too
	passes bool // some calls may find a connection that works
	pool   int  // connections of a client; 0: many
	begin  func(t *testing.T, s *stage, f boundFault, cells []*cell)
}

// boundFaults is all of them. Each ends with its test. New clients come last: of theirs nothing was sent, while a
// ZSetLog gives back in the background what a lost Wait may have booked, for almost as long as TestMain waits for
// goroutines.
var boundFaults = []boundFault{
	{name: "closed port", begin: closedPort},
	{name: "frozen server", begin: frozen},
	{name: "full backlog", begin: fullBacklog},
	{name: "live connections swallowed", passes: true, begin: swallowedLive},
	{name: "slow dial", begin: slowDialer},
	{name: "full pool", pool: 1, begin: fullPool},
	{name: "closed port", cold: true, begin: closedPort},
	{name: "frozen server", cold: true, begin: frozen},
	{name: "full backlog", cold: true, begin: fullBacklog},
	{name: "slow dial", cold: true, begin: slowDialer},
}

// unsent reports whether no call finds a connection to send anything on.
func (f boundFault) unsent() bool { return f.cold || f.pool > 0 }

func (f boundFault) String() string {
	if f.cold {
		return f.name + ", new client"
	}
	return f.name
}

func closedPort(t *testing.T, s *stage, f boundFault, _ []*cell) {
	for _, p := range s.proxies(f.cold) {
		p.Refuse()
		p.Disconnect()
		t.Cleanup(p.Pass)
	}
}

// swallowedLive swallows the data of open connections, of which there are as many as calls.
func swallowedLive(t *testing.T, s *stage, f boundFault, cells []*cell) {
	each(cells, func(c *cell) {
		nodes := keysOfNodes(t, c.rdb)
		for node := range nodes {
			openConnections(t, node, len(c.calls)/len(nodes))
		}
	})
	for _, p := range s.proxies(f.cold) {
		before := p.Counts().Silenced
		p.SwallowLive()
		t.Cleanup(func() {
			if p.Counts().Silenced == before {
				t.Errorf("%s has swallowed nothing", p.Addr)
			}
			p.Pass()
		})
	}
}

// openConnections makes a pool hold n unused connections.
func openConnections(t *testing.T, node *redis.Client, n int) {
	var conns []*redis.Conn
	for range n {
		conn := node.Conn()
		conns = append(conns, conn)
		if err := conn.Ping(context.Background()).Err(); err != nil {
			t.Errorf("opening %d connections to %s: %v", n, node.Options().Addr, err)
			break
		}
	}
	for _, conn := range conns {
		_ = conn.Close() // back into the pool
	}
	if idle := int(node.PoolStats().IdleConns); idle < n {
		t.Errorf("%d connections to %s are idle, want %d", idle, node.Options().Addr, n)
	}
}

// frozen stops the servers, and has the sentinels' proxies do as if those were stopped.
func frozen(t *testing.T, s *stage, f boundFault, _ []*cell) {
	for _, server := range s.servers() {
		must(t, syscall.Kill(server.PID, syscall.SIGSTOP))
		t.Cleanup(func() { must(t, syscall.Kill(server.PID, syscall.SIGCONT)) })
	}
	for _, p := range s.watch {
		if f.cold {
			p.Swallow()
			t.Cleanup(p.Pass)
		}
	}
}

// slowDialer has every connection take slowDial, whatever the context says, until the fault ends.
func slowDialer(t *testing.T, s *stage, f boundFault, _ []*cell) {
	ended := make(chan struct{})
	s.redial(t, f, func(ctx context.Context, addr string) (net.Conn, error) {
		select {
		case <-ended:
			return nil, errors.New("the test is over")
		case <-time.After(slowDial):
			return s.direct(ctx, addr)
		}
	})
	t.Cleanup(func() { close(ended) })
}

// fullBacklog has every connection go to a port whose backlog is full: the server's side does not answer at all.
func fullBacklog(t *testing.T, s *stage, f boundFault, _ []*cell) {
	full := newFullListener(t)
	ended, end := context.WithCancel(context.Background())
	s.redial(t, f, func(ctx context.Context, _ string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		return (&net.Dialer{}).DialContext(ctx, "tcp", full)
	})
	t.Cleanup(end)
}

// redial makes clients connect by another dialer, and ends their connections.
func (s *stage) redial(t *testing.T, f boundFault, replacement dialer) {
	s.dialAs(func(ctx context.Context, addr string) (net.Conn, error) {
		if s.watch[addr] != nil && !f.cold {
			return s.direct(ctx, addr)
		}
		return replacement(ctx, addr)
	})
	t.Cleanup(func() { s.dialAs(s.direct) })
	for _, p := range s.proxies(f.cold) {
		p.Disconnect()
	}
}

// newFullListener returns the address of a port whose owner never accepts, and whose backlog is full.
func newFullListener(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, syscall.Listen(fd, 1))
	name, err := syscall.Getsockname(fd)
	must(t, err)
	addr := fmt.Sprint("127.0.0.1:", name.(*syscall.SockaddrInet4).Port)
	for range 100 {
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatalf("%s takes any number of connections", addr)
	return ""
}

// fullPool has the only connection of each pool held by a BLPOP.
func fullPool(t *testing.T, s *stage, _ boundFault, cells []*cell) {
	var holders sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		for _, p := range s.proxies(false) {
			p.Disconnect() // a BLPOP does not hear of its context
		}
		holders.Wait()
	})
	var held int
	for _, c := range cells {
		for node, key := range keysOfNodes(t, c.rdb) {
			held++
			holders.Go(func() { node.BLPop(ctx, 0, key) })
		}
	}
	redistest.Await(t, "all connections wait for a BLPOP", func() bool { return s.blocked(t) == held })
}

// keysOfNodes are the nodes of a client, each with a key that it has.
func keysOfNodes(t *testing.T, client redis.UniversalClient) map[*redis.Client]string {
	t.Helper()
	if single, ok := client.(*redis.Client); ok {
		return map[*redis.Client]string{single: "hold"}
	}
	keys := map[*redis.Client]string{}
	for i := range 100 {
		key := fmt.Sprint("hold", i)
		node, err := nodeOf(client, key)
		must(t, err)
		keys[node] = key
	}
	return keys
}

func nodeOf(client redis.UniversalClient, key string) (*redis.Client, error) {
	if ring, ok := client.(*redis.Ring); ok {
		return ring.GetShardClientForKey(key)
	}
	return client.(*redis.ClusterClient).MasterForKey(context.Background(), key)
}

// blocked is how many connections of the servers are in a BLPOP.
func (s *stage) blocked(t *testing.T) int {
	var n int
	for _, server := range s.servers() {
		list, err := server.Client(t).ClientList(context.Background()).Result()
		must(t, err)
		n += strings.Count(list, "cmd=blpop")
	}
	return n
}
