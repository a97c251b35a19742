// Package grpclimit limits the gRPC calls that a server receives or a client makes.
//
//	limit := grpclimit.New(limits.ListLog("api", loader.PerMinute(60)), grpclimit.KeyByIP())
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.UnaryServer),
//		grpc.ChainStreamInterceptor(limit.StreamServer))
//
// On a server a call over the limit is RESOURCE_EXHAUSTED. Its details are a google.rpc.RetryInfo and a
// google.rpc.QuotaFailure with a violation for each limit that denied. On a client a call waits until it may be made,
// so that a partner's quota is kept:
//
//	quota := grpclimit.New(limits.ListLog("acme", loader.PerSecond(5)), grpclimit.KeyOf("acme"))
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(quota.UnaryClient),
//		grpc.WithChainStreamInterceptor(quota.StreamClient))
//
// A call that is refused has one of these codes:
//
//	RESOURCE_EXHAUSTED   over the limit; without RetryInfo it never comes free: the limit is 0, or the cost above it
//	DEADLINE_EXCEEDED    the call ended before the answer; on a client also: the permits come free after its deadline
//	CANCELED             the call ended before the answer
//	UNAVAILABLE          Redis did not decide, and the limiter has no fallback (FailOpen, FailLocal)
//	INVALID_ARGUMENT     the call has no value for the key: see Key.IfEmpty
//	INTERNAL             a limiter, key or option is wrong: Check finds most of that at start
//	ABORTED              a slot was lost, and the call ended because of it
//
// Put an Interceptor behind interceptors that authenticate callers if its key is what they find, and before expensive
// ones. It is a separate module, so that the loader does not depend on gRPC. Its names are the same as in package
// httplimit.
package grpclimit
