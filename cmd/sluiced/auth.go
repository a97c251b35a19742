package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice/httplimit"
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
// by the policy file NAME.yaml. What follows NAME is the client's path, of proxies that append it. It returns why it
// cannot tell what the request is.
func (l *limits) auth(w http.ResponseWriter, r *http.Request) error {
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	name, asked, _ := strings.Cut(rest, "/")
	set := l.current.Load()
	handler := set.auth[first+"/"+name]
	if handler == nil {
		http.Error(w, "no policy file of this name", http.StatusNotFound)
		return nil
	}
	proxies := set.requests[name].File().Proxies
	if header := forwarded(r.Header); header != "" && !trusts(proxies, r.RemoteAddr) {
		err := fmt.Errorf("%s sends %s and is not in proxies of %s.yaml: add it, or no limit knows the client's request",
			r.RemoteAddr, header, name)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return err
	}
	handler.ServeHTTP(w, clientRequest(r, "/"+asked))
	return nil
}

// newAuth returns the handler of a policy file: 200 if the request is granted.
func (l *limits) newAuth(denied int, policies *policy.Policies) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, result httplimit.Result) {
		if result.Outcome == httplimit.Denied {
			w.WriteHeader(denied)
			return
		}
		httplimit.WriteProblem(w, r, result)
	}
	return policies.Middleware(nil, httplimit.Headers(l.headers), httplimit.Refuse(refuse)).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
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
		if h.Get(name) != "" {
			return name
		}
	}
	return ""
}

// clientRequest returns the request of the client that a proxy asks about: what the headers say, or else the request
// line without the prefix.
func clientRequest(r *http.Request, asked string) *http.Request {
	said := func(names []string) string {
		for _, name := range names {
			if value := r.Header.Get(name); value != "" {
				return value
			}
		}
		return ""
	}
	of := r.Clone(r.Context())
	of.Body, of.ContentLength = http.NoBody, 0
	of.Method = strings.ToUpper(cmp.Or(said(methodHeaders), of.Method))
	of.Host = cmp.Or(said(hostHeaders), of.Host)
	of.URL = &url.URL{Path: asked, RawQuery: r.URL.RawQuery}
	if decoded, err := url.PathUnescape(asked); err == nil {
		of.URL.Path = decoded
	}
	if u, err := url.ParseRequestURI(said(uriHeaders)); err == nil {
		of.URL = u
	}
	of.URL.Path, of.URL.RawPath = cleaned(of.URL.Path), ""
	return of
}

// cleaned is a path as an application may read it: of //login, /x/../login and /login#x it is /login.
func cleaned(asked string) string {
	asked, _, _ = strings.Cut(asked, "#")
	clean := path.Clean("/" + asked)
	if strings.HasSuffix(asked, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// trusts reports whether a peer is one of the proxies.
func trusts(proxies []string, peer string) bool {
	if peer == "" || peer == "@" {
		return slices.Contains(proxies, "unix")
	}
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	addr := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(proxies, func(text string) bool {
		if one, err := netip.ParseAddr(text); err == nil {
			return one.Unmap() == addr
		}
		network, err := netip.ParsePrefix(text)
		return err == nil && network.Contains(addr)
	})
}
