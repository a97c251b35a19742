//go:build unix

package soak

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// subjectsAServer is how many subjects are known whose keys are on a server.
const subjectsAServer = 200

// site is one deployment.
type site struct {
	name     string
	servers  []*redistest.Server
	replicas []*redistest.Server // of each server, if there are any
	proxies  []*redistest.Proxy  // of each server, if there are any
	admins   []*redis.Client
	honest   *limits    // past the proxies, which are not what is attacked
	subjects [][]string // of each server
	cluster  bool
	trio     *redistest.Sentinels // that watch its server, or nil
	shards   map[string]string    // of a Ring: the servers' addresses
	rings    []*redis.Ring        // its clients
	clock    *redistest.Clock     // of a single server
}

// newSite starts one server or a cluster of three masters, puts a proxy in front of each server and finds the subjects
// of each. The servers keep across a kill what they have answered: they write that to a file before they answer. To have
// the disk sync it would be of use only where the machine fails, and would make every call as slow as the disk.
func newSite(t *testing.T, cluster bool) *site {
	t.Helper()
	durable := []string{"--appendonly", "yes", "--appendfsync", "no"}
	s := &site{name: "cluster", cluster: cluster}
	if cluster {
		s.servers = redistest.StartCluster(t, 3, 0, durable...)
	} else {
		server, clock := redistest.StartWithClock(t, redistest.Servers(t)[0], durable...)
		s.name, s.servers, s.clock = "single", []*redistest.Server{server}, clock
	}
	s.prepare(t)
	for _, server := range s.servers {
		s.proxies = append(s.proxies, redistest.StartProxy(t, server.Addr))
	}
	return s
}

// prepare makes the clients that go past the proxies, and finds the subjects of each server.
func (s *site) prepare(t *testing.T) {
	t.Helper()
	for _, server := range s.servers {
		s.admins = append(s.admins, server.Client(t))
	}
	s.honest = loader.New(s.client(t, clientKinds[0]), loader.Timeout(30*time.Second))
	s.subjects = make([][]string, len(s.servers))
	lacks := func(subjects []string) bool { return len(subjects) < subjectsAServer }
	for i := 0; slices.ContainsFunc(s.subjects, lacks); i++ {
		subject, server := fmt.Sprint("s", i), 0
		if s.cluster {
			server = s.slot(subject) * len(s.servers) / redistest.Slots
		}
		if s.shards != nil {
			shard, err := s.rings[0].GetShardClientForKey(subject)
			must(t, err)
			server = slices.IndexFunc(s.servers, func(r *redistest.Server) bool { return r.Addr == shard.Options().Addr })
		}
		s.subjects[server] = append(s.subjects[server], subject)
	}
}

// slot is the slot of a subject's keys.
func (s *site) slot(subject string) int {
	return int(s.admins[0].ClusterKeySlot(context.Background(), subject).Val())
}

// clientKind is a way in which clients are set up in production.
type clientKind struct {
	name        string
	contexts    bool          // ContextTimeoutEnabled
	readTimeout time.Duration // 0: go-redis's default
}

var clientKinds = []clientKind{
	{"contexts", true, 0},
	{"ReadTimeout 1s", false, time.Second},
	{"contexts, ReadTimeout -1", true, endless},
}

// endless is a ReadTimeout that never ends.
const endless = -1

// The clients' pools and buffers are small: what they hold is no concern of the test.
const (
	poolSize   = 16
	bufferSize = 4 << 10
)

// client makes a client that reaches the servers through their proxies only, if they have any. It is closed when the
// test ends.
func (s *site) client(t *testing.T, kind clientKind) redis.UniversalClient {
	rdb := s.newClient(kind)
	t.Cleanup(func() { must(t, rdb.Close()) })
	return rdb
}

func (s *site) newClient(kind clientKind) redis.UniversalClient {
	if s.shards != nil {
		s.rings = append(s.rings, redis.NewRing(&redis.RingOptions{
			Addrs: s.shards, HeartbeatFrequency: heartbeat, DisableIdentity: true,
			ContextTimeoutEnabled: kind.contexts, ReadTimeout: kind.readTimeout, PoolSize: poolSize,
		}))
		return s.rings[len(s.rings)-1]
	}
	options := redis.UniversalOptions{
		IsClusterMode: s.cluster, Dialer: s.dialer(), DisableIdentity: true,
		ContextTimeoutEnabled: kind.contexts, ReadTimeout: kind.readTimeout,
		PoolSize: poolSize, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		PipelineReadBufferSize: bufferSize, PipelineWriteBufferSize: bufferSize,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, server := range s.servers {
		options.Addrs = append(options.Addrs, server.Addr)
	}
	if s.trio != nil {
		options.MasterName, options.Addrs = s.trio.Name, s.trio.Addrs
	}
	return redis.NewUniversalClient(&options)
}

// dialer connects to the proxy of a server in place of the server, whose address is what a cluster tells.
func (s *site) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	proxyOf := map[string]string{}
	for i, proxy := range s.proxies {
		proxyOf[s.servers[i].Addr] = proxy.Addr
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute} // as go-redis's own
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, cmp.Or(proxyOf[addr], addr))
	}
}

// whole reports whether all servers answer and, in a cluster, say that it is whole.
func (s *site) whole() bool {
	for _, admin := range s.admins {
		if admin.Ping(context.Background()).Err() != nil {
			return false
		}
		if s.cluster && !strings.Contains(admin.ClusterInfo(context.Background()).Val(), "cluster_state:ok") {
			return false
		}
	}
	return true
}

// everythingExpires steps the clock and waits until no key is left.
func (s *site) everythingExpires(t *testing.T) {
	t.Helper()
	keys := func() int64 { return s.admins[0].DBSize(context.Background()).Val() }
	t.Logf("%d keys at the end", keys())
	s.clock.Step(366 * day)
	redistest.Await(t, "a year later no key is left", func() bool { return keys() == 0 })
}
