package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/clientaddr"
	"github.com/sluice-redis/sluice/policy"
)

// denialStatus is the status of a denial, by the first part of the path. nginx's auth_request passes on a 403, not a 429.
var denialStatus = map[string]int{"auth": http.StatusTooManyRequests, "auth403": http.StatusForbidden}

// isAuth reports whether a path is one of forward auth.
func isAuth(path string) bool {
	first, _, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return found && denialStatus[first] != 0
}

// auth answers proxies that ask with a request of their own whether they may let a client's request through: /auth/NAME
// by the policy file NAME.yaml. What follows NAME is the client's path, of proxies that append it. If it cannot tell
// what the request is, it returns why, and the reason for the metric.
func (l *limits) auth(w http.ResponseWriter, r *http.Request) (refusal string, err error) {
	if r.ContentLength != 0 { // proxies may name a body and not send it: the answer does not wait for it
		w.Header().Set("Connection", "close")
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(cmp.Or(r.URL.RawPath, r.URL.EscapedPath()), "/"), "/")
	name, asked, _ := strings.Cut(rest, "/")
	set := l.current.Load()
	file, known := set.auth[first+"/"+name]
	if !known {
		err := fmt.Errorf("no policy file %.100q: there are %q", name, set.names)
		http.Error(w, "no policy file of this name", http.StatusNotFound)
		return "no_file", err
	}
	if header := forwarded(r.Header); header != "" && !file.proxies.Trusts(r.RemoteAddr) {
		err := fmt.Errorf("%s sends %s and is not in proxies of %s.yaml: add it, or no limit knows the client's request",
			r.RemoteAddr, header, name)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return "untrusted_proxy", err
	}
	client, err := clientRequest(r, "/"+asked)
	if addr, peerErr := file.proxies.Find(r.RemoteAddr, r.Header); !addr.IsValid() && peerErr == nil {
		err = errors.Join(err, errors.New("X-Forwarded-For: want an address where a proxy wrote the last one"))
	}
	if err != nil {
		err = fmt.Errorf("what %s says of the client's request cannot be read: %w", r.RemoteAddr, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return "unreadable", err
	}
	file.handler.ServeHTTP(w, client)
	return "", nil
}

// authFile is a policy file, as proxies ask about it.
type authFile struct {
	handler http.Handler
	proxies *clientaddr.Finder
}

// newAuth returns the handler of a policy file: 200 if the request is granted.
func (l *limits) newAuth(denied int, policies *policy.Policies) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, result httplimit.Result) {
		if result.Outcome == httplimit.Denied {
			result.Status = denied
		}
		l.headers.rename(w.Header())
		httplimit.WriteProblem(w, r, result)
	}
	return policies.Middleware(nil, httplimit.Headers(l.headers.HeaderSet), httplimit.Refuse(refuse)).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			l.headers.rename(w.Header())
			w.WriteHeader(http.StatusOK)
		}))
}

// What proxies say of the client's request, the more usual header first.
var (
	methodHeaders = []string{"X-Forwarded-Method", "X-Original-Method"}
	uriHeaders    = []string{"X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url"}
	hostHeaders   = []string{"X-Forwarded-Host", "X-Original-Host"}
)

// forwarded names a header by which a proxy says what the client's request was, "" if there is none.
func forwarded(h http.Header) string {
	for _, name := range slices.Concat(methodHeaders, uriHeaders, hostHeaders, []string{"X-Forwarded-For"}) {
		if len(h.Values(name)) > 0 {
			return name
		}
	}
	return ""
}

// clientRequest returns the request of the client that a proxy asks about: what the headers say, or else the request
// line without the prefix. It is an error if one of them cannot be read, or if two of them differ: the application may
// go by the other one.
func clientRequest(r *http.Request, asked string) (*http.Request, error) {
	client := r.Clone(r.Context())
	client.Body, client.ContentLength = http.NoBody, 0
	var errOfMethod, errOfHost error
	client.Method, errOfMethod = readHeaders(r.Header, methodHeaders, client.Method, readMethod)
	client.Host, errOfHost = readHeaders(r.Header, hostHeaders, client.Host, readHost)
	byLine, errOfLine := readTarget(asked + "?" + r.URL.RawQuery)
	found, err := readHeaders(r.Header, uriHeaders, byLine, readTarget)
	client.URL = &url.URL{Path: found.path, RawQuery: found.query}
	return client, errors.Join(errOfMethod, errOfHost, errOfLine, err)
}

// readHeaders returns what headers of these names say, all of them the same, or the default if there is none.
func readHeaders[T comparable](h http.Header, names []string, value T, read func(string) (T, error)) (T, error) {
	found := false
	for _, name := range names {
		for _, text := range h.Values(name) {
			next, err := read(text)
			if err == nil && found && next != value {
				err = errors.New("another header says something else")
			}
			if err != nil {
				return value, fmt.Errorf("%s: %.100q: %w", name, text, err)
			}
			value, found = next, true
		}
	}
	return value, nil
}

func readMethod(text string) (string, error) {
	if !httpguts.ValidHeaderFieldName(text) { // both are tokens
		return "", errors.New("want a method")
	}
	return strings.ToUpper(text), nil
}

func readHost(text string) (string, error) {
	u, err := url.Parse("//" + text)
	if err != nil || text == "" || u.Host != text || strings.Contains(text, ",") {
		return "", errors.New("want one host")
	}
	return strings.ToLower(text), nil
}

// target is what a request asks for.
type target struct{ path, query string }

// readTarget reads a path and a query, or a URL. What follows a # is not sent to applications, but may be in a header.
func readTarget(text string) (target, error) {
	text, _, _ = strings.Cut(text, "#")
	text, query, _ := strings.Cut(text, "?")
	u, err := url.ParseRequestURI(text)
	if err != nil || u.Opaque != "" {
		return target{}, errors.New("want a path that begins with /, or a URL")
	}
	return target{cleaned(u.Path), query}, nil
}

// cleaned is a path as an application may read it: of //login and /x/../login it is /login.
func cleaned(asked string) string {
	clean := path.Clean("/" + asked)
	if strings.HasSuffix(asked, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
