// Package frameworks limits the same three routes with net/http, chi, gin and echo. Each file shows what one of them
// needs.
package frameworks

import (
	"net/http"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// middleware limits the routes:
//
//	GET /hello        3 a minute for each client, which calls through a proxy on this machine
//	GET /orders/{id}  2 a minute for each order
//	POST /login       2 failures a minute for each account
type middleware struct {
	hello, order, login func(http.Handler) http.Handler
}

func newMiddleware(limits *loader.Loader) middleware {
	failed := func(status int) bool { return status >= 400 }
	client := httplimit.KeyByIP(httplimit.TrustXForwardedFor("127.0.0.0/8", "::1"))
	return middleware{
		hello: httplimit.New(limits.ListLog("hello", loader.PerMinute(3)), client).Handler,
		order: httplimit.New(limits.ListLog("order", loader.PerMinute(2)), httplimit.KeyByPathValue("id")).Handler,
		login: httplimit.New(limits.ListLog("login", loader.PerMinute(2)), httplimit.KeyByUser(), httplimit.CountIf(failed)).Handler,
	}
}

// known reports whether the password is right.
func known(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	return password == "secret"
}
