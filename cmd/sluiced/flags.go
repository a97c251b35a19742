package main

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/http/httpguts"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/loader"
)

// settings is what the flags of serve and the environment say.
type settings struct {
	paths []string

	grpc, http, admin string // addresses to listen at; "" of http and admin: not at all

	redis        dial.Flags
	passwordFile string
	embedded     bool
	breaker      bool
	prefix       string
	fail         string
	timeout      time.Duration // of calls by gRPC and JSON
	authTimeout  time.Duration

	cert, key, clientCA string

	headers     string
	headerNames string
	metadata    bool

	reload, drain, maxAge    time.Duration
	maxCalls, maxConnections int
}

func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// environmentPrefix is before the name of a flag in the environment: --max-calls is SLUICED_MAX_CALLS.
const environmentPrefix = "SLUICED_"

func (a app) parseServe(args []string) (s settings, err error) {
	flags := newFlags("serve")
	s.redis.Register(flags)
	flags.StringVar(&s.grpc, "grpc", ":8081", "")
	flags.StringVar(&s.http, "http", ":8080", "")
	flags.StringVar(&s.admin, "admin", ":9090", "")
	flags.StringVar(&s.passwordFile, "redis-password-file", "", "")
	flags.BoolVar(&s.embedded, "embedded", false, "")
	flags.StringVar(&s.prefix, "prefix", "sluice", "")
	flags.StringVar(&s.fail, "fail", "closed", "")
	flags.BoolVar(&s.breaker, "breaker", true, "")
	flags.DurationVar(&s.timeout, "timeout", 15*time.Millisecond, "")
	flags.DurationVar(&s.authTimeout, "auth-timeout", 250*time.Millisecond, "")
	flags.StringVar(&s.cert, "tls-cert", "", "")
	flags.StringVar(&s.key, "tls-key", "", "")
	flags.StringVar(&s.clientCA, "tls-client-ca", "", "")
	flags.StringVar(&s.headers, "headers", "none", "")
	flags.StringVar(&s.headerNames, "header-names", draft03Names, "")
	flags.BoolVar(&s.metadata, "dynamic-metadata", false, "")
	flags.DurationVar(&s.reload, "reload", time.Second, "")
	flags.DurationVar(&s.drain, "drain", 5*time.Second, "")
	flags.DurationVar(&s.maxAge, "max-connection-age", time.Hour, "")
	flags.IntVar(&s.maxCalls, "max-calls", 4096, "")
	flags.IntVar(&s.maxConnections, "max-connections", 4096, "")
	if err := a.fromEnvironment(flags); err != nil {
		return s, err
	}
	fromEnvironment := s.redis
	if err := flags.Parse(args); err != nil {
		return s, flagError(flags, err)
	}
	if late := slices.IndexFunc(flags.Args(), func(arg string) bool { return strings.HasPrefix(arg, "-") }); late >= 0 {
		return s, usagef("a flag after the files: want all flags before them")
	}
	s.paths = flags.Args()
	if len(s.paths) == 0 {
		s.paths = strings.Fields(a.getenv(environmentPrefix + "FILES"))
	}
	t, err := dial.Find(s.redis, func(string) string { return "" })
	if err == nil && s.redis != fromEnvironment && t.Options.Password != "" {
		err = usagef("a password on the command line is seen by everyone on this machine: " +
			"want it in SLUICED_REDIS, SLUICED_REDIS_PASSWORD or --redis-password-file")
	}
	if err != nil {
		return s, err
	}
	return s, s.check()
}

// fromEnvironment sets the flags that the environment has.
func (a app) fromEnvironment(flags *flag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *flag.Flag) {
		name := environmentPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := a.getenv(name); value != "" && f.Value.Set(value) != nil {
			errs = append(errs, usagef("%s in the environment: not a value of --%s", name, f.Name))
		}
	})
	return errors.Join(errs...)
}

// flagError is an error of package flag. It shows no value, because that may be a password.
func flagError(flags *flag.FlagSet, err error) error {
	text := err.Error()
	if _, name, found := strings.Cut(text, " for flag -"); found {
		name, _, _ = strings.Cut(name, ":")
		return usagef("not a value of --%s: want one such as its default, %s", name, flags.Lookup(name).DefValue)
	}
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return usagef("%s", text)
}

// check returns what is wrong with the settings.
func (s settings) check() error {
	switch {
	case len(s.paths) == 0:
		return usagef("no files: want policy files, files of envoyproxy/ratelimit, or directories of them")
	case s.grpc == "" && s.http == "":
		return usagef("neither --grpc nor --http: want an address such as :8081")
	case s.timeout < time.Millisecond || s.timeout > 10*time.Second:
		return usagef("--timeout is %v: want 1ms to 10s", s.timeout)
	case s.authTimeout < time.Millisecond || s.authTimeout > 10*time.Second:
		return usagef("--auth-timeout is %v: want 1ms to 10s", s.authTimeout)
	case s.reload < 100*time.Millisecond:
		return usagef("--reload is %v: want 100ms or more", s.reload)
	case s.drain < 0 || s.drain > 5*time.Minute:
		return usagef("--drain is %v: want 0 to 5m", s.drain)
	case s.maxAge < time.Second:
		return usagef("--max-connection-age is %v: want 1s or more", s.maxAge)
	case s.maxCalls < 1 || s.maxCalls > 1_000_000:
		return usagef("--max-calls is %d: want 1 to 1000000", s.maxCalls)
	case s.maxConnections < 1 || s.maxConnections > 1_000_000:
		return usagef("--max-connections is %d: want 1 to 1000000", s.maxConnections)
	case (s.cert == "") != (s.key == ""):
		return usagef("want --tls-cert and --tls-key together")
	case s.clientCA != "" && s.cert == "":
		return usagef("--tls-client-ca wants --tls-cert and --tls-key")
	case s.embedded && s.redis != dial.Flags{}:
		return usagef("--embedded and a Redis: want one of them")
	}
	if _, err := loader.Key(s.prefix, "limit", "subject", "state"); err != nil {
		return usagef("--prefix %.40q: want letters, digits, dot, underscore and dash", s.prefix)
	}
	_, err := s.headerSet()
	if err == nil {
		_, err = s.failOption()
	}
	return err
}

// headers is what --headers and --header-names say.
type headers struct {
	httplimit.HeaderSet
	names map[string]string // other names of headers
}

// draft03Names is the headers of draft-03, which may have other names.
const draft03Names = "RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset"

func (s settings) headerSet() (h headers, err error) {
	switch s.headers {
	case "none":
	case "draft-11":
		h.HeaderSet = httplimit.Draft11
	case "x-ratelimit":
		h.HeaderSet = httplimit.XRateLimit
	case "both":
		h.HeaderSet = httplimit.Draft11 | httplimit.XRateLimit
	case "draft-03":
		h.HeaderSet = httplimit.Draft03
	default:
		return h, usagef("--headers %.40q: want none, draft-11, x-ratelimit, both or draft-03", s.headers)
	}
	names, usual := strings.Split(s.headerNames, ","), strings.Split(draft03Names, ",")
	isWrong := func(name string) bool { return !httpguts.ValidHeaderFieldName(name) }
	if len(names) != len(usual) || slices.ContainsFunc(names, isWrong) {
		return h, usagef("--header-names %.100q: want three, as %s", s.headerNames, draft03Names)
	}
	if s.headerNames != draft03Names {
		if h.HeaderSet != httplimit.Draft03 {
			return h, usagef("--header-names: want --headers draft-03")
		}
		h.names = map[string]string{}
		for i, name := range usual {
			h.names[http.CanonicalHeaderKey(name)] = names[i]
		}
	}
	return h, nil
}

// rename gives headers their other names.
func (h headers) rename(header http.Header) {
	for usual, name := range h.names {
		if values := header[usual]; values != nil {
			delete(header, usual)
			header[name] = values
		}
	}
}

// failOption is what happens to the limits in files of envoyproxy/ratelimit while Redis does not decide; nil: closed.
func (s settings) failOption() (loader.LimiterOption, error) {
	usage := usagef("--fail %.40q: want closed, open, or a share such as local 1/8", s.fail)
	share, isLocal := strings.CutPrefix(s.fail, "local ")
	switch {
	case s.fail == "closed":
		return nil, nil
	case s.fail == "open":
		return loader.FailOpen(), nil
	case !isLocal:
		return nil, usage
	}
	numerator, denominator, isFraction := strings.Cut(strings.TrimSpace(share), "/")
	value, err := strconv.ParseFloat(numerator, 64)
	if isFraction && err == nil {
		var divisor float64
		divisor, err = strconv.ParseFloat(denominator, 64)
		value /= divisor
	}
	if err != nil || !(value > 0 && value <= 1) {
		return nil, usage
	}
	return loader.FailLocal(value), nil
}

// maxAge is how long a connection to Redis is used. go-redis keeps those that answer MASTERDOWN, also if the name of the
// server leads to another one by then.
const maxAge = time.Minute

// client connects to Redis.
func (a app) client(s settings) (redis.UniversalClient, string, error) {
	t, err := dial.Find(s.redis, func(name string) string {
		switch name {
		case "REDISCLI_AUTH":
			if s.passwordFile == "" {
				return strings.TrimRight(a.getenv("SLUICED_REDIS_PASSWORD"), "\r\n") // of a secret made by hand
			}
		case "SENTINEL_AUTH":
			return strings.TrimRight(a.getenv("SLUICED_SENTINEL_PASSWORD"), "\r\n")
		}
		return ""
	})
	if err == nil && s.passwordFile != "" {
		err = t.SetPasswordFile(s.passwordFile)
	}
	if err != nil {
		return nil, "", err
	}
	if t.Options.ConnMaxLifetime == 0 { // it may be in the URL
		t.Options.ConnMaxLifetime, t.Options.ConnMaxLifetimeJitter = maxAge, maxAge/8
	}
	rdb := t.Client()
	if single, ok := rdb.(*redis.Client); ok {
		single.AddHook(loader.Redial(single))
	}
	return rdb, t.String(), nil
}
