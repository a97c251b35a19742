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

// targetUsage explains targetFlags.
const targetUsage = `  --redis URL       a server: redis://[user:password@]host:port[/db], rediss://
                    for TLS, or unix://; default $SLUICE_REDIS, else
                    redis://localhost:6379
  --cluster LIST    a cluster, by some of its nodes: host:port,host:port
  --sentinel LIST   what sentinels watch: name@host:port,host:port
                    Both LISTs may begin with rediss:// and user:password@
                    In users and passwords these are written %XX: / %2F ? %3F
                    # %23 @ %40 : %3A , %2C % %25. No message repeats a URL
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

// isName reports whether a text is what sentinels take for the name of a master.
func isName(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// listTarget reads the addresses behind --cluster or --sentinel; the scheme, the user and the password before the first
// hold for all.
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

// parseServer reads a URL or a bare host:port. Its errors show nothing of the text: whatever stands in it may belong to
// a password.
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

// parseURL is redis.ParseURL with errors of our own, for bare addresses too. It refuses what could make a part of a
// password an address or a path, which messages show.
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
	switch {
	case scheme == "unix://" && u.Host != "":
		return nil, errors.New("want a path that begins with / behind unix:// or behind the @")
	case !isHost(u.Hostname()):
		return nil, errors.New("the host is no name and no address: want host:port")
	}
	options, err := redis.ParseURL(scheme + rest)
	if err != nil {
		return nil, optionProblem(err)
	}
	return options, nil
}

// isHost reports whether a text can be a name or an address; an empty one is this machine.
func isHost(text string) bool {
	return isName(text) || text == "" || net.ParseIP(text) != nil
}

// urlProblem says what is wrong with a URL by the kind of the parser's error, without its text.
func urlProblem(err error) error {
	var escape url.EscapeError
	switch text := err.Error(); {
	case errors.As(err, &escape):
		return errors.New("a % without two hexadecimal digits behind it: in a password % is written %25")
	case strings.Contains(text, "invalid port"):
		return errors.New("the port is no number; in a user or a password / is written %2F, : is %3A, @ is %40")
	case strings.Contains(text, "invalid userinfo"):
		return errors.New("a user or a password holds what a URL cannot: write it as %XX")
	}
	return errors.New("it is no URL: want redis://user:password@host:port, other characters written as %XX")
}

var errOption = errors.New("an option behind the ? is not known or has a wrong value; " +
	"a password stands before the host, as in redis://:password@host:port")

// optionProblem says what is wrong with the parts of a URL, as urlProblem does.
func optionProblem(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "invalid database number"), strings.Contains(text, "invalid URL path"):
		return errors.New("want the number of a database behind the host, or nothing")
	case strings.Contains(text, "unix socket path"):
		return errors.New("want a path behind unix://")
	}
	return errOption
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

// cutUser splits a text at its last @, which stays with what is before it.
func cutUser(text string) (user, rest string) {
	at := strings.LastIndex(text, "@") + 1
	return text[:at], text[at:]
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

// connect is a client of one node. It sends nothing twice.
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

// client is one that finds the right node for every key.
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
