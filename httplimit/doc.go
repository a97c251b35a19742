// Package httplimit limits the requests of net/http handlers.
//
//	limits := loader.New(rdb)
//	login := limits.ListLog("login", loader.PerMinute(5))
//	http.Handle("POST /login", httplimit.New(login, httplimit.KeyByIP())(handler))
package httplimit
