package main

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/policy"
)

const authPrefix = "/auth/"

// auth answers proxies that ask with a request of their own whether they may let a client's request through: /auth/NAME
// by the policy file NAME.yaml. What follows NAME is the client's path, of proxies that append it.
func (l *limits) auth(w http.ResponseWriter, r *http.Request) {
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), authPrefix)
	name, path, _ := strings.Cut(rest, "/")
	set := l.current.Load()
	if set.auth[name] == nil {
		http.Error(w, "no policy file of this name", http.StatusNotFound)
		return
	}
	proxies := set.policies[name].File().Proxies
	set.auth[name].ServeHTTP(w, clientRequest(r, proxies, "/"+path))
}

// newAuth returns the handler of a policy file: 200 if the request is granted.
func (l *limits) newAuth(name string, policies *policy.Policies) http.Handler {
	denied := cmp.Or(l.statuses[name], http.StatusTooManyRequests)
	refuse := func(w http.ResponseWriter, r *http.Request, result httplimit.Result) {
		if result.Outcome == httplimit.Denied {
			w.WriteHeader(denied)
			return
		}
		httplimit.WriteProblem(w, r, result)
	}
	return policies.Middleware(nil, httplimit.Headers(l.headers), httplimit.Refuse(refuse))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
}

// clientRequest returns the request of the client that a proxy asks about: what the headers say, if the peer is one of
// the file's proxies, or else the request line without the prefix.
func clientRequest(r *http.Request, proxies []string, path string) *http.Request {
	of := r.Clone(r.Context())
	of.Body, of.ContentLength = http.NoBody, 0
	of.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	if decoded, err := url.PathUnescape(path); err == nil {
		of.URL.Path = decoded
	}
	if !trusts(proxies, r.RemoteAddr) {
		return of
	}
	said := func(names ...string) string {
		for _, name := range names {
			if value := r.Header.Get(name); value != "" {
				return value
			}
		}
		return ""
	}
	of.Method = strings.ToUpper(cmp.Or(said("X-Forwarded-Method", "X-Original-Method"), of.Method))
	of.Host = cmp.Or(said("X-Forwarded-Host", "X-Original-Host"), of.Host)
	if uri := said("X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url"); uri != "" {
		if u, err := url.ParseRequestURI(uri); err == nil {
			of.URL = u
		}
	}
	return of
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
