// Package dial connects the programs of this module to a Redis deployment that is named by flags or the environment:
// one server, a cluster, or a master behind Sentinels. No message shows a part of a password.
package dial

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Flags are the flags that name a deployment.
type Flags struct{ Redis, Cluster, Sentinel, CA, Cert, Key string }

// Register adds the flags to a flag set.
func (f *Flags) Register(flags *flag.FlagSet) {
	flags.StringVar(&f.Redis, "redis", "", "")
	flags.StringVar(&f.Cluster, "cluster", "", "")
	flags.StringVar(&f.Sentinel, "sentinel", "", "")
	flags.StringVar(&f.CA, "redis-ca", "", "")
	flags.StringVar(&f.Cert, "redis-cert", "", "")
	flags.StringVar(&f.Key, "redis-key", "", "")
}

// Target is a Redis deployment and how to connect to it.
type Target struct {
	Kind         string   // the flag that names it: "redis", "cluster" or "sentinel"
	Master       string   // its name at the sentinels
	Addrs        []string // the server, or nodes to ask for the others
	Options      *redis.Options
	SentinelAuth string
}

// environment is where passwords come from.
type environment func(string) string

// UsageError says what is wrong with a flag or a variable of the environment, without its text.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Find reads the flags and the environment. Without flags it is the server in SLUICE_REDIS, or localhost. Passwords may
// come from REDISCLI_AUTH and SENTINEL_AUTH. Its error is a *UsageError.
func Find(f Flags, getenv func(string) string) (Target, error) {
	t, err := environment(getenv).find(f)
	if err == nil {
		err = f.secure(t.Options.TLSConfig)
	}
	if err != nil {
		return Target{}, err
	}
	return t, nil
}

func (a environment) find(f Flags) (Target, error) {
	switch {
	case f.Redis != "" && f.Cluster+f.Sentinel != "", f.Cluster != "" && f.Sentinel != "":
		return Target{}, usagef("want one of --redis, --cluster and --sentinel")
	case f.Cluster != "":
		return a.listTarget("cluster", f.Cluster)
	case f.Sentinel != "":
		return a.sentinelTarget(f.Sentinel)
	}
	if f.Redis != "" {
		return a.serverTarget("--redis", f.Redis)
	}
	return a.serverTarget("SLUICE_REDIS in the environment", cmp.Or(a("SLUICE_REDIS"), "redis://localhost:6379"))
}

func (a environment) serverTarget(name, text string) (Target, error) {
	options, err := a.parseServer(name, text)
	if err != nil {
		return Target{}, err
	}
	return Target{Kind: "redis", Addrs: []string{options.Addr}, Options: options}, nil
}

func (a environment) sentinelTarget(text string) (Target, error) {
	scheme, rest := cutScheme(text)
	user, hosts := cutUser(rest)
	before, master := cutUser(strings.TrimSuffix(user, "@"))
	if !IsName(master) {
		return Target{},
			usagef("--sentinel: want name@host:port,host:port, the name of letters, digits, dot, underscore and dash")
	}
	t, err := a.listTarget("sentinel", scheme+before+hosts)
	t.Master, t.SentinelAuth = master, a("SENTINEL_AUTH")
	return t, err
}

// IsName reports whether sentinels accept a text as the name of a master.
func IsName(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// listTarget parses the addresses of --cluster or --sentinel. Scheme, user and password before the first apply to all,
// and so do the database and the options behind the last.
func (a environment) listTarget(flag, text string) (Target, error) {
	scheme, rest := cutScheme(text)
	user, hosts := cutUser(rest)
	if strings.Contains(user, ",") {
		return Target{}, usagef("--%s: want user:password@ once, before the first host; in a password , is written %%2C",
			flag)
	}
	end := len(hosts)
	if at := strings.IndexAny(hosts, "/?#"); at >= 0 {
		end = at
	}
	hosts, behind := hosts[:end], hosts[end:]
	if strings.Contains(behind, ",") {
		return Target{}, usagef("--%s: want the database and the options once, behind the last host", flag)
	}
	t := Target{Kind: flag}
	for host := range strings.SplitSeq(hosts, ",") {
		options, err := a.parseServer("--"+flag, scheme+user+host+behind)
		if err != nil {
			return Target{}, err
		}
		if t.Options == nil {
			t.Options = options
		}
		t.Addrs = append(t.Addrs, options.Addr)
	}
	if flag == "cluster" && t.Options.DB != 0 {
		return Target{}, usagef("--cluster: a cluster has database 0 only")
	}
	return t, nil
}

// parseServer parses a URL or host:port. Its errors show nothing of the text: any part may belong to a password.
func (a environment) parseServer(name, text string) (*redis.Options, error) {
	options, err := parseURL(text)
	if err != nil {
		return nil, usagef("%s: %v", name, err)
	}
	if options.Password == "" {
		options.Password = a("REDISCLI_AUTH")
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
	case host != "" && !IsName(host) && net.ParseIP(host) == nil:
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
	options.DialTimeout = cmp.Or(options.DialTimeout, 3*time.Second)
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
func (t Target) String() string {
	scheme := ""
	switch {
	case t.Options.Network == "unix":
		scheme = "unix://"
	case t.Options.TLSConfig != nil:
		scheme = "rediss://"
	case t.Kind == "redis":
		scheme = "redis://"
	}
	if t.Kind == "sentinel" {
		scheme += t.Master + "@"
	}
	text := scheme + strings.Join(t.Addrs, ",")
	if t.Options.DB != 0 {
		text += "/" + strconv.Itoa(t.Options.DB)
	}
	return text
}

// Connect returns a client for one node. It sends no command twice.
func (t Target) Connect(addr string) *redis.Client {
	options := *t.Options
	options.Addr = addr
	options.MaxRetries = -1
	return newClient(&options)
}

func newClient(options *redis.Options) *redis.Client {
	rdb := redis.NewClient(options)
	rdb.AddHook(AuthHook{})
	return rdb
}

// Client returns a client that finds the node of every key.
func (t Target) Client() redis.UniversalClient {
	switch t.Kind {
	case "cluster":
		return t.ClusterClient()
	case "sentinel":
		return t.failoverClient()
	}
	options := *t.Options
	return newClient(&options)
}

// ClusterClient returns a client of a cluster.
func (t Target) ClusterClient() *redis.ClusterClient {
	options := redis.ClusterOptions{Addrs: t.Addrs}
	t.optionsFor(&options)
	rdb := redis.NewClusterClient(&options)
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(AuthHook{}) })
	return rdb
}

func (t Target) failoverClient() *redis.Client {
	options := redis.FailoverOptions{MasterName: t.Master, SentinelAddrs: t.Addrs, SentinelPassword: t.SentinelAuth}
	t.optionsFor(&options)
	rdb := redis.NewFailoverClient(&options)
	rdb.AddHook(AuthHook{})
	return rdb
}

// optionsFor sets every option of another kind of client that a client of one server has too, by its name.
func (t Target) optionsFor(other any) {
	from, to := reflect.ValueOf(*t.Options), reflect.ValueOf(other).Elem()
	for _, field := range reflect.VisibleFields(to.Type()) {
		if value := from.FieldByName(field.Name); value.IsValid() && field.IsExported() {
			to.FieldByIndex(field.Index).Set(value)
		}
	}
}
