// Empty is a rate limit service that grants every call at once: what gRPC alone costs.
package main

import (
	"context"
	"log"
	"net"
	"os"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

type service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

func (service) ShouldRateLimit(
	_ context.Context, r *ratelimitv3.RateLimitRequest,
) (*ratelimitv3.RateLimitResponse, error) {
	statuses := make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(r.Descriptors))
	for i := range statuses {
		statuses[i] = &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_OK}
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK, Statuses: statuses}, nil
}

func main() {
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(s, service{})
	log.Fatal(s.Serve(l))
}
