package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/internal/dial"
)

// node is one server of a deployment.
type node struct {
	addr string
	role string // "master", "replica", or "server" if it is not known

	empty bool // a master without slots, such as one that came back after a failover
}

// nodes returns every server of the deployment, replicas too: after a failover a replica has only the scripts that
// were loaded on it. Remarks are for the user.
func (t target) nodes(ctx context.Context) (all []node, remarks []string, err error) {
	switch t.Kind {
	case "cluster":
		all, err = t.firstToAnswer(ctx, t.clusterNodes)
	case "sentinel":
		all, err = t.firstToAnswer(ctx, t.sentinelNodes)
	default:
		return t.singleNode(ctx)
	}
	slices.SortFunc(all, func(a, b node) int { return strings.Compare(a.addr, b.addr) })
	return all, nil, err
}

// firstToAnswer asks the addresses in turn and returns the first answer.
func (t target) firstToAnswer(ctx context.Context, ask func(context.Context, string) ([]node, error)) ([]node, error) {
	var errs []error
	for _, addr := range t.Addrs {
		all, err := ask(ctx, addr)
		if err == nil && len(all) == 0 {
			err = errors.New("the reply names no node")
		}
		if err == nil {
			return all, nil
		}
		errs = append(errs, fmt.Errorf("asking %s for the nodes: %w", addr, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (t target) clusterNodes(ctx context.Context, addr string) ([]node, error) {
	rdb := t.Connect(addr)
	defer rdb.Close()
	text, err := rdb.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	return parseClusterNodes(text, addr, t.Options.TLSConfig != nil), nil
}

// parseClusterNodes parses the reply to CLUSTER NODES. A node without a host is the one that was asked. With
// hostNames it uses the announced host names, because certificates are issued for those.
func parseClusterNodes(text, asked string, hostNames bool) []node {
	var all []node
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		flags := strings.Split(fields[2], ",")
		if slices.Contains(flags, "noaddr") || slices.Contains(flags, "handshake") {
			continue
		}
		n := node{addr: clusterAddr(fields[1], asked, hostNames), role: "replica"}
		if slices.Contains(flags, "master") {
			const slots = 8 // the first field of slots, where there are any
			n.role, n.empty = "master", len(fields) <= slots
		}
		all = append(all, n)
	}
	return all
}

// clusterAddr returns the host:port of "ip:port@busport,hostname".
func clusterAddr(field, asked string, hostNames bool) string {
	field, rest, _ := strings.Cut(field, ",")
	name, _, _ := strings.Cut(rest, ",")
	addr, _, _ := strings.Cut(field, "@")
	colon := strings.LastIndex(addr, ":")
	if colon < 0 {
		return addr
	}
	host, port := addr[:colon], addr[colon+1:]
	if hostNames && name != "" {
		host = name
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, port)
}

func (t target) sentinelNodes(ctx context.Context, addr string) ([]node, error) {
	options := *t.Options
	options.Addr, options.Username, options.Password, options.DB = addr, "", t.SentinelAuth, 0
	options.MaxRetries = -1
	sentinel := redis.NewSentinelClient(&options)
	sentinel.AddHook(dial.AuthHook{})
	defer sentinel.Close()
	master, err := sentinel.GetMasterAddrByName(ctx, t.Master).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, errors.New("it watches no master with that name")
	case err != nil:
		return nil, notASentinel(err)
	case len(master) != 2:
		return nil, errors.New("it knows no address of that master")
	}
	replicas, err := sentinel.Replicas(ctx, t.Master).Result()
	if err != nil {
		return nil, notASentinel(err)
	}
	all := []node{{addr: net.JoinHostPort(master[0], master[1]), role: "master"}}
	for _, replica := range replicas {
		all = append(all, node{addr: net.JoinHostPort(replica["ip"], replica["port"]), role: "replica"})
	}
	return all, nil
}

// notASentinel is the error for a server that is not a sentinel. It keeps only the code of the server's reply: the
// rest may repeat the name of the master, and if the user left that out, a part of the password stands there.
func notASentinel(err error) error {
	if !stored.IsReply(err) || errors.As(err, new(dial.AuthError)) {
		return err
	}
	code, _, _ := strings.Cut(err.Error(), " ")
	if !slices.Contains([]string{"NOAUTH", "WRONGPASS", "NOPERM", "LOADING"}, code) {
		return errNoSentinel
	}
	return errors.New("it answered SENTINEL with " + code)
}

var errNoSentinel = errors.New("it does not answer like a sentinel")

const remarkUnknown = "this user may not call INFO: it is not known whether the server has replicas"

// belongsToCluster reports whether a server sends some calls elsewhere. A call of a script that nobody has loaded needs
// no right but the one that programs have.
func belongsToCluster(ctx context.Context, rdb *redis.Client) bool {
	for range 32 { // of three masters each sends two thirds of them
		err := rdb.EvalSha(ctx, strings.Repeat("0", 40), []string{rand.Text()}).Err()
		if stored.IsReply(err) && strings.HasPrefix(err.Error(), "MOVED") {
			return true
		}
	}
	return false
}

// singleNode returns the named server, with a remark if it has replicas or belongs to a cluster.
func (t target) singleNode(ctx context.Context) ([]node, []string, error) {
	rdb := t.Connect(t.Addrs[0])
	defer rdb.Close()
	single := []node{{addr: t.Addrs[0], role: "server"}}
	text, err := rdb.Info(ctx).Result()
	if stored.IsReply(err) && strings.HasPrefix(err.Error(), "NOPERM") {
		if belongsToCluster(ctx, rdb) {
			return single, remarksOn(map[string]string{"cluster_enabled": "1"}), nil
		}
		return single, []string{remarkUnknown}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s: %w", t.Addrs[0], err)
	}
	info := parseInfo(text)
	switch info["role"] {
	case "master":
		single[0].role = "master"
	case "slave":
		single[0].role = "replica"
	}
	if info["redis_mode"] == "sentinel" {
		return nil, nil, usagef("this server is a sentinel: want --sentinel name@host:port")
	}
	return single, remarksOn(info), nil
}

func remarksOn(info map[string]string) []string {
	if info["redis_mode"] == "cluster" || info["cluster_enabled"] == "1" {
		return []string{"this server is a node of a cluster; the other nodes were left out: use --cluster for all"}
	}
	if n := info["connected_slaves"]; n != "" && n != "0" {
		return []string{"this server has " + n + " replica(s), and scripts (not functions) must be loaded on each: " +
			"name each with --redis, or use --sentinel"}
	}
	return nil
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}
