package main

import (
	"cmp"
	"errors"
	"flag"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// targetUsage explains targetFlags.
const targetUsage = `  --redis URL       a server: redis://[user:password@]host:port[/db], rediss://
                    for TLS, or unix://; default $SLUICE_REDIS, else
                    redis://localhost:6379
  --cluster LIST    a cluster, by some of its nodes: host:port,host:port
  --sentinel LIST   what sentinels watch: name@host:port,host:port
                    Both LISTs may begin with rediss:// and user:password@
  $REDISCLI_AUTH    the password, where the URL has none
  $SENTINEL_AUTH    the password of the sentinels themselves
`

// targetFlags say which deployment is meant.
type targetFlags struct{ redis, cluster, sentinel string }

func (f *targetFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.redis, "redis", "", "")
	flags.StringVar(&f.cluster, "cluster", "", "")
	flags.StringVar(&f.sentinel, "sentinel", "", "")
}

// target is a deployment of Redis, and how to get into it.
type target struct {
	flag         string   // that names it: "redis", "cluster" or "sentinel"
	master       string   // the name that the sentinels know it by
	addrs        []string // the server, or those to ask for the others
	options      *redis.Options
	sentinelAuth string
}

// target reads the flags and the environment.
func (a app) target(f targetFlags) (target, error) {
	given := 0
	for _, value := range []string{f.redis, f.cluster, f.sentinel} {
		if value != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return target{}, usagef("want one of --redis, --cluster and --sentinel")
	case f.cluster != "":
		return a.listTarget("cluster", f.cluster)
	case f.sentinel != "":
		return a.sentinelTarget(f.sentinel)
	}
	return a.serverTarget(cmp.Or(f.redis, a.getenv("SLUICE_REDIS"), "redis://localhost:6379"))
}

func (a app) serverTarget(text string) (target, error) {
	options, err := a.parseURL("redis", text)
	if err != nil {
		return target{}, err
	}
	return target{flag: "redis", addrs: []string{options.Addr}, options: options}, nil
}

func (a app) sentinelTarget(text string) (target, error) {
	scheme, rest := cutScheme(text)
	at := strings.LastIndex(rest, "@")
	if at <= 0 {
		return target{}, usagef("--sentinel is %q: want name@host:port,host:port", withoutSecrets(text))
	}
	head, hosts := rest[:at], rest[at+1:]
	user, master := "", head
	if i := strings.LastIndex(head, "@"); i >= 0 {
		user, master = head[:i+1], head[i+1:]
	}
	t, err := a.listTarget("sentinel", scheme+user+hosts)
	t.master, t.sentinelAuth = master, a.getenv("SENTINEL_AUTH")
	return t, err
}

// listTarget reads the addresses behind --cluster or --sentinel; what the first says of users and TLS
// holds for all.
func (a app) listTarget(flag, text string) (target, error) {
	hosts := strings.Split(text, ",")
	options, err := a.parseURL(flag, hosts[0])
	if err != nil {
		return target{}, err
	}
	t := target{flag: flag, addrs: []string{options.Addr}, options: options}
	for _, host := range hosts[1:] {
		other, err := a.parseURL(flag, host)
		if err != nil {
			return target{}, err
		}
		t.addrs = append(t.addrs, other.Addr)
	}
	return t, nil
}

// parseURL reads a URL or a bare host:port. Its errors do not show passwords.
func (a app) parseURL(flag, text string) (*redis.Options, error) {
	scheme, rest := cutScheme(text)
	options, err := redis.ParseURL(cmp.Or(scheme, "redis://") + rest)
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err
	}
	if err != nil {
		return nil, usagef("--%s is %q: %v", flag, withoutSecrets(text), err)
	}
	if options.Password == "" {
		options.Password = a.getenv("REDISCLI_AUTH")
	}
	return quiet(options), nil
}

// quiet are options for a program that makes few calls and reports errors itself.
func quiet(options *redis.Options) *redis.Options {
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.DialerRetries = 1
	options.DialTimeout = 3 * time.Second
	options.ContextTimeoutEnabled = true
	return options
}

func cutScheme(text string) (scheme, rest string) {
	if i := strings.Index(text, "://"); i >= 0 {
		return text[:i+3], text[i+3:]
	}
	return "", text
}

// withoutSecrets is a URL or a list of hosts without what stands before its last @.
func withoutSecrets(text string) string {
	scheme, rest := cutScheme(text)
	if at := strings.LastIndex(rest, "@"); at >= 0 && strings.Contains(rest[:at], ":") {
		rest = "***" + rest[at:]
	}
	return scheme + rest
}

// String is the target as it would be given on the command line, without passwords.
func (t target) String() string {
	scheme := ""
	switch {
	case t.options.Network == "unix":
		scheme = "unix://"
	case t.options.TLSConfig != nil:
		scheme = "rediss://"
	case t.flag == "redis":
		scheme = "redis://"
	}
	if t.flag == "sentinel" {
		scheme += t.master + "@"
	}
	text := scheme + strings.Join(t.addrs, ",")
	if t.options.DB != 0 {
		text += "/" + strconv.Itoa(t.options.DB)
	}
	return text
}

// connect is a client of one node.
func (t target) connect(addr string) *redis.Client {
	options := *t.options
	options.Addr = addr
	options.MaxRetries = -1
	return redis.NewClient(&options)
}

// client is one that finds the right node for every key.
func (t target) client() redis.UniversalClient {
	o := t.options
	switch t.flag {
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.addrs, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
			DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
			DialTimeout: o.DialTimeout, DialerRetries: o.DialerRetries, ContextTimeoutEnabled: true,
		})
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.master, SentinelAddrs: t.addrs, SentinelPassword: t.sentinelAuth,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
			DisableIdentity: true,
			DialTimeout:     o.DialTimeout, DialerRetries: o.DialerRetries, ContextTimeoutEnabled: true,
		})
	}
	options := *o
	return redis.NewClient(&options)
}
