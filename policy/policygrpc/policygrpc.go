// Package policygrpc limits the calls of a gRPC server by a policy file.
//
//	policies, err := policy.Load(limits, "limits.yaml")
//	limit := policygrpc.New(policies, nil)
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.UnaryServer),
//		grpc.ChainStreamInterceptor(limit.StreamServer))
//
// Expressions see a call as in HTTP/2: request.method is "POST", request.path the full method
// ("/shop.Orders/Place"), request.host the authority, request.header the metadata, request.ip the peer's address. In a
// `count`, response.status is the status that belongs to the result's code: see Status.
//
// For the codes of refused calls see package grpclimit. This is a package of its own, so that programs without gRPC do
// not link it.
package policygrpc

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/policy"
)

// Interceptor limits the calls of a server. New makes it; the zero Interceptor refuses everything. It is safe for
// concurrent use.
type Interceptor struct{ limit *grpclimit.Interceptor }

// New returns the Interceptor of a policy file. The function returns what the application knows of a call, from its
// context: "user.key", "user.plan" and the names in the file's attributes. It may be nil. The options are
// grpclimit's, except Observe: see Observe of package policy. Call Check when the program starts.
//
// Cost: a microsecond for each expression, and what grpclimit.PerRequest costs.
func New(
	policies *policy.Policies, values func(ctx context.Context) map[string]string, opts ...grpclimit.Option,
) *Interceptor {
	opts = append(opts[:len(opts):len(opts)], grpclimit.Observe(func(c *grpclimit.Call, result grpclimit.Result) {
		policies.Observed(c.Context(), result.Result)
	}))
	return &Interceptor{grpclimit.PerRequest(policies.Loader(), func(c *grpclimit.Call) ([]grpclimit.Charge, error) {
		ctx := c.Context()
		if values == nil {
			return chargesOf(policies.Charges(requestOf(ctx, c.Method), nil))
		}
		return chargesOf(policies.Charges(requestOf(ctx, c.Method), values(ctx)))
	}, opts...)}
}

// chargesOf returns the charges of a request as those of a call.
func chargesOf(charges []httplimit.Charge, err error) ([]grpclimit.Charge, error) {
	calls := make([]grpclimit.Charge, len(charges))
	for i, c := range charges {
		calls[i] = grpclimit.Charge{
			Limiter: c.Limiter, N: c.N, Subject: c.Subject, Name: c.Name, Shadow: c.Shadow, Ban: c.Ban,
			Delay: c.Delay, Err: c.Err,
		}
		if c.CountIf != nil {
			calls[i].CountIf = func(code codes.Code) bool { return c.CountIf(Status(code)) }
		}
	}
	return calls, err
}

// Check returns what is wrong with the options: one of a single limiter, say. Call it once, when the program starts.
// Otherwise every call is refused with INTERNAL. Cost: nothing is sent.
func (i *Interceptor) Check() error { return i.made().Check() }

func (i *Interceptor) made() *grpclimit.Interceptor {
	return cmp.Or(i.limit, new(grpclimit.Interceptor))
}

// UnaryServer limits the unary calls of a server: see grpc.ChainUnaryInterceptor.
func (i *Interceptor) UnaryServer(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	return i.made().UnaryServer(ctx, req, info, handler)
}

// StreamServer limits the streams of a server: see grpc.ChainStreamInterceptor. With grpclimit.PerMessage the file is
// asked about each message.
func (i *Interceptor) StreamServer(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	return i.made().StreamServer(srv, stream, info, handler)
}

// requestOf is a call as the HTTP request that it is.
func requestOf(ctx context.Context, method string) *http.Request {
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: method}, Header: http.Header{}}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		r.RemoteAddr = p.Addr.String()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := md.Get(":authority"); len(host) > 0 {
		r.Host = host[0]
	}
	return r
}

// statuses is the statuses of codes in HTTP, as google.rpc.Code lists them.
var statuses = map[codes.Code]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// Status returns the response.status of a code: the HTTP status that google.rpc.Code gives it, so that
// `count: response.status == 401` counts UNAUTHENTICATED. A code that is not known is 500.
func Status(code codes.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}
