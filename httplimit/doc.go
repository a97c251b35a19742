// Package httplimit limits the requests of net/http handlers.
//
//	limits := loader.New(rdb)
//	login := limits.ListLog("login", loader.PerMinute(5))
//	http.Handle("POST /login", httplimit.New(login, httplimit.KeyByIP()).Handler(handler))
//
// A request over the limit gets status 429 with Retry-After, and RateLimit headers say what is left.
// Handler is a func(http.Handler) http.Handler, which routers take as middleware. The program in examples/api is a
// service for production: limits by plan, wrong passwords, proxies, an outage of Redis, shutdown.
//
// # Which constructor
//
//   - [New], for one limiter; with [LimiterBy] its limit follows the customer's plan.
//   - [AllOf], for several limiters at once, charged all or none: an address, an account and the whole service.
//   - [PerRequest], if which limiters are charged differs between requests.
//
// # Keys
//
// A [Key] makes the subject of a limiter from a request. Most callers should use [KeyByIP]. Behind a proxy, name the
// proxies:
//
//	httplimit.KeyByIP(httplimit.TrustXForwardedFor("10.0.0.0/8"))
//
// [KeyByHeader] takes an API key, behind the handler that checks it; [KeyBy] what a function returns.
// [Join] counts by several values together: by address and account. A request that has no value for its key is refused
// with status 400, unless [Key.IfEmpty] says otherwise.
//
// # What the client is told
//
//	RateLimit-Policy: "login";q=5;w=60           the limit: 5 in 60 seconds
//	RateLimit: "login";r=3;t=42                  3 are left; in 42 s none counts any more
//	RateLimit: "login";r=0;t=5                   of a 429: in 5 s the request may come again
//	Retry-After: 5                               of a 429: whole seconds, rounded up
//
// The first two are those of draft-ietf-httpapi-ratelimit-headers-11. A ring of several windows has an item for
// each, such as "api-1m";q=1000;w=61: a permit counts there for up to a slice longer.
// [Headers] chooses X-RateLimit-* or none. The limiter's name is in them: [Charge] has another one if clients should
// not see it. Bodies are application/problem+json; [Refuse] sets your own.
//
// # When Redis fails
//
// The limiter's fallback decides. Without one the request is refused with status 503, without
// Retry-After. With loader.FailOpen or loader.FailLocal it answers, and the [Result] that [Observe] is told of is marked
// Degraded. While Redis does not decide, no header says what is left.
//
// # Before and after the handler
//
// [CountIf] counts only what the response says, as failed logins. [Slots] holds a slot of a concurrency limiter while
// the handler runs. [Shadow] decides and tells the observers, and never refuses: use it to try a limit.
//
// The ResponseWriter is passed on as it is, unless CountIf or Slots have to see the response. Then it is wrapped, and
// keeps its optional interfaces: http.Flusher, http.Hijacker, io.ReaderFrom, http.Pusher and what
// http.ResponseController finds. Only http.MaxBytesReader does not close the connection then, because net/http asks its
// own writer: put http.MaxBytesHandler around the middleware.
//
// # Browsers and WebSockets
//
// Put the middleware for CORS around this one, as in the example: then preflights are not counted, and scripts of other
// origins can read a 429. They see only the headers that Access-Control-Expose-Headers names: RateLimit,
// RateLimit-Policy and Retry-After; with [XRateLimit] also X-RateLimit-Limit, X-RateLimit-Remaining and
// X-RateLimit-Reset, with [Draft03] RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
//
// A WebSocket is one request: its handshake is limited, its messages are not. For those call Allow or Wait for each
// message. With Slots, a connection holds its slot until the handler returns.
//
// A panic of the handler goes on to the server. The request keeps its charge, and its slot is released.
package httplimit
