package main

import (
	"cmp"
	"errors"
	"flag"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// targetFlags are the flags that name a deployment.
type targetFlags struct{ redis, cluster, sentinel string }

// serverFlags are the flags of every command that asks servers.
type serverFlags struct{ target targetFlags }

// register returns a command's flag set with these flags.
func (f *serverFlags) register(command string) *flag.FlagSet {
	flags := newFlags(command)
	flags.StringVar(&f.target.redis, "redis", "", "")
	flags.StringVar(&f.target.cluster, "cluster", "", "")
	flags.StringVar(&f.target.sentinel, "sentinel", "", "")
	return flags
}

// target is a Redis deployment and how to connect to it.
type target struct {
	flag         string   // the flag that names it: "redis", "cluster" or "sentinel"
	master       string   // its name at the sentinels
	addrs        []string // the server, or nodes to ask for the others
	options      *redis.Options
	sentinelAuth string
}

// target reads the flags and the environment.
func (a app) target(f targetFlags) (target, error) {
	switch {
	case f.redis != "" && f.cluster+f.sentinel != "", f.cluster != "" && f.sentinel != "":
		return target{}, usagef("want one of --redis, --cluster and --sentinel")
	case f.cluster != "":
		return a.listTarget("cluster", f.cluster)
	case f.sentinel != "":
		return a.sentinelTarget(f.sentinel)
	}
	if f.redis != "" {
		return a.serverTarget("--redis", f.redis)
	}
	return a.serverTarget("SLUICE_REDIS in the environment", cmp.Or(a.getenv("SLUICE_REDIS"), "redis://localhost:6379"))
}

func (a app) serverTarget(name, text string) (target, error) {
	options, err := a.parseServer(name, text)
	if err != nil {
		return target{}, err
	}
	return target{flag: "redis", addrs: []string{options.Addr}, options: options}, nil
}

func (a app) sentinelTarget(text string) (target, error) {
	scheme, rest := cutScheme(text)
	user, hosts := cutUser(rest)
	before, master := cutUser(strings.TrimSuffix(user, "@"))
	if !isName(master) {
		return target{},
			usagef("--sentinel: want name@host:port,host:port, the name of letters, digits, dot, underscore and dash")
	}
	t, err := a.listTarget("sentinel", scheme+before+hosts)
	t.master, t.sentinelAuth = master, a.getenv("SENTINEL_AUTH")
	return t, err
}

// open returns the screen on standard output and the deployment that the flags name.
func (a app) open(f serverFlags) (screen, target, error) {
	t, err := a.target(f.target)
	return newScreen(a.stdout), t, err
}

// isName reports whether sentinels accept a text as the name of a master.
func isName(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// listTarget parses the addresses of --cluster or --sentinel. Scheme, user and password before the first apply to all.
func (a app) listTarget(flag, text string) (target, error) {
	scheme, rest := cutScheme(text)
	user, hosts := cutUser(rest)
	if strings.Contains(user, ",") {
		return target{}, usagef("--%s: want user:password@ once, before the first host; in a password , is written %%2C",
			flag)
	}
	t := target{flag: flag}
	for host := range strings.SplitSeq(hosts, ",") {
		options, err := a.parseServer("--"+flag, scheme+user+host)
		if err != nil {
			return target{}, err
		}
		if t.options == nil {
			t.options = options
		}
		t.addrs = append(t.addrs, options.Addr)
	}
	return t, nil
}

// parseServer parses a URL or host:port. Its errors show nothing of the text: any part may belong to a password.
func (a app) parseServer(name, text string) (*redis.Options, error) {
	options, err := parseURL(text)
	if err != nil {
		return nil, usagef("%s: %v", name, err)
	}
	if options.Password == "" {
		options.Password = a.getenv("REDISCLI_AUTH")
	}
	return quiet(options), nil
}

// parseURL is redis.ParseURL with our own errors, and takes host:port too. Messages show addresses and paths: so it
// refuses URLs in which a part of a password could be taken for one.
func parseURL(text string) (*redis.Options, error) {
	scheme, rest := cutScheme(text)
	scheme = cmp.Or(strings.ToLower(scheme), "redis://")
	if scheme != "redis://" && scheme != "rediss://" && scheme != "unix://" {
		return nil, errors.New("want redis://, rediss:// or unix:// before the address")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if strings.Contains(rest[end:], "@") || strings.Contains(rest, "#") || strings.Count(rest, "@") > 1 {
		return nil, errors.New("in a user or a password / is written %2F, ? is %3F, # is %23, @ is %40, % is %25")
	}
	u, err := url.Parse(scheme + rest)
	if err != nil {
		return nil, urlProblem(err)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, errOption
	}
	host := u.Hostname() // "" is this machine
	switch {
	case scheme == "unix://" && u.Host != "":
		return nil, errors.New("want a path that begins with / after unix:// or after the @")
	case host != "" && !isName(host) && net.ParseIP(host) == nil:
		return nil, errors.New("the host is not a name or an address: want host:port")
	}
	options, err := redis.ParseURL(scheme + rest)
	if err != nil {
		return nil, optionProblem(err)
	}
	return options, nil
}

// urlProblem describes the parser's error without the URL's text.
func urlProblem(err error) error {
	switch text := err.Error(); {
	case errors.As(err, new(url.EscapeError)):
		return errors.New("a % without two hexadecimal digits after it: in a password % is written %25")
	case strings.Contains(text, "invalid port"):
		return errors.New("the port is not a number; in a user or a password / is written %2F, : is %3A, @ is %40")
	case strings.Contains(text, "invalid userinfo"):
		return errors.New("a user or a password has a character that a URL cannot hold: write it as %XX")
	}
	return errors.New("it is not a URL: want redis://user:password@host:port, with other characters written as %XX")
}

var errOption = errors.New("an option after the ? is unknown or has a wrong value; " +
	"a password stands before the host, as in redis://:password@host:port")

// optionProblem describes an error in the parts of a URL without their text.
func optionProblem(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "invalid database number"), strings.Contains(text, "invalid URL path"):
		return errors.New("want a database number after the host, or nothing")
	case strings.Contains(text, "unix socket path"):
		return errors.New("want a path after unix://")
	}
	return errOption
}

// quiet returns options for a program that makes few calls and reports errors itself.
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

// cutUser splits a text after its last @.
func cutUser(text string) (user, rest string) {
	at := strings.LastIndex(text, "@") + 1
	return text[:at], text[at:]
}

// String returns the target as on the command line, without passwords.
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

// connect returns a client for one node. It sends no command twice.
func (t target) connect(addr string) *redis.Client {
	options := *t.options
	options.Addr = addr
	options.MaxRetries = -1
	return newClient(&options)
}

func newClient(options *redis.Options) *redis.Client {
	rdb := redis.NewClient(options)
	rdb.AddHook(authHook{})
	return rdb
}

// client returns a client that finds the node of every key.
func (t target) client() redis.UniversalClient {
	switch t.flag {
	case "cluster":
		return t.clusterClient()
	case "sentinel":
		return t.failoverClient()
	}
	options := *t.options
	return newClient(&options)
}

func (t target) clusterClient() *redis.ClusterClient {
	o := t.options
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: t.addrs, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
		DialTimeout: o.DialTimeout, DialerRetries: o.DialerRetries, ContextTimeoutEnabled: true,
	})
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(authHook{}) })
	return rdb
}

func (t target) failoverClient() *redis.Client {
	o := t.options
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: t.master, SentinelAddrs: t.addrs, SentinelPassword: t.sentinelAuth,
		Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
		DisableIdentity: true,
		DialTimeout:     o.DialTimeout, DialerRetries: o.DialerRetries, ContextTimeoutEnabled: true,
	})
	rdb.AddHook(authHook{})
	return rdb
}
