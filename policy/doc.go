// Package policy reads rate limits from a file and applies them: to HTTP requests, to gRPC calls (package policygrpc),
// and to whatever else a program asks about.
//
//	limits:
//	  send-code:
//	    when: request.method == "POST" && request.path == "/code"
//	    by: ip(request.ip, 64)
//	    rates: [3/1m, 20/24h]
//
//	policies, err := policy.Load(limits, "limits.yaml")
//	http.Handle("/", policies.Middleware(nil).Handler(handler))
//
// Use it if limits are changed without a release, or if there are many of them. For one limit on one handler use
// package httplimit. docs/policy.md explains every word of the file. A limit with several rates is a slice_ring, in
// which a minute is 60.3 s, and in which each window counts by itself. Give all plans of a limit the same windows: a
// window that a subject has not had begins empty, so a change of plan may grant up to its rate again.
//
// The expressions are CEL. They are compiled, type-checked and bounded in cost when the file is read. If something is
// wrong, the error is [Mistakes], each with its place and what would be right.
//
// All limits that match a call are charged or none. The file is read again when it changes; a wrong one keeps the old
// limits. Tools that only read files use [Parse], [File.Match] and [Match.Limiter].
package policy
