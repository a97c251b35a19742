package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// exampleLimits are limits on a Redis for the examples, whose clock stands still.
func exampleLimits() (limits *loader.Loader, stop func()) {
	redis, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	redis.SetTime(time.Unix(1_800_000_000, 0))
	return loader.New(redis.Client()), redis.Close
}

// exampleClient serves health checks, and returns a client of them.
func exampleClient(server *grpc.Server, options ...grpc.DialOption) (c pb.HealthClient, stop func()) {
	pb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(listener.Addr().String(), options...)
	if err != nil {
		log.Fatal(err)
	}
	return pb.NewHealthClient(conn), func() { _ = conn.Close(); server.Stop() }
}

// Each address may call twice a minute. A client reads from the refusal when to come back.
func ExampleNew() {
	limits, stop := exampleLimits()
	defer stop()

	limit := grpclimit.New(limits.ListLog("api", loader.PerMinute(2)), grpclimit.KeyByIP())
	if err := limit.Check(); err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.UnaryServer), grpc.ChainStreamInterceptor(limit.StreamServer))

	c, stop := exampleClient(server)
	defer stop()
	for range 3 {
		_, err := c.Check(context.Background(), &pb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("again in", retry.RetryDelay.AsDuration())
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// again in 1m0s
}

// A partner allows 2 calls an hour. The third one would be too late, which is known at once.
func ExampleInterceptor_UnaryClient() {
	limits, stop := exampleLimits()
	defer stop()

	quota := grpclimit.New(limits.ListLog("partner", loader.PerHour(2)), grpclimit.KeyOf("acme"))
	c, stop := exampleClient(grpc.NewServer(),
		grpc.WithChainUnaryInterceptor(quota.UnaryClient), grpc.WithChainStreamInterceptor(quota.StreamClient))
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		_, err := c.Check(ctx, &pb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// DeadlineExceeded
}

// A caller may make 1 call, all callers together 100. A caller who is refused does not use up what all have.
func ExampleAllOf() {
	limits, stop := exampleLimits()
	defer stop()

	whole := limits.ListLog("whole", loader.PerMinute(100))
	limit := grpclimit.AllOf(limits, []grpclimit.Charge{
		{Limiter: limits.ListLog("caller", loader.PerMinute(1)), Key: grpclimit.KeyByIP()},
		{Limiter: whole, Key: grpclimit.KeyOf("all")},
	})
	c, stop := exampleClient(grpc.NewServer(grpc.ChainUnaryInterceptor(limit.UnaryServer)))
	defer stop()
	for range 5 {
		_, err := c.Check(context.Background(), &pb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	_ = limits.Flush(context.Background())
	d, _ := whole.Peek(context.Background(), "all")
	fmt.Println(d.Remaining, "left for all")
	// Output:
	// OK
	// ResourceExhausted
	// ResourceExhausted
	// ResourceExhausted
	// ResourceExhausted
	// 99 left for all
}

// Each method has a limiter, whose name is the method's.
func ExamplePerMethod() {
	limits, stop := exampleLimits()
	defer stop()

	byMethod := grpclimit.PerMethod(func(method string) loader.Limiter {
		if method == pb.Health_List_FullMethodName {
			return limits.ListLog(method, loader.PerMinute(1))
		}
		return limits.ListLog(method, loader.PerMinute(60))
	})
	limit := grpclimit.New(limits.ListLog("methods", loader.PerMinute(60)), grpclimit.KeyByIP(),
		grpclimit.LimiterBy(byMethod))
	c, stop := exampleClient(grpc.NewServer(grpc.ChainUnaryInterceptor(limit.UnaryServer)))
	defer stop()
	for range 2 {
		_, check := c.Check(context.Background(), &pb.HealthCheckRequest{})
		_, list := c.List(context.Background(), &pb.HealthListRequest{})
		fmt.Println(status.Code(check), status.Code(list))
	}
	// Output:
	// OK OK
	// OK ResourceExhausted
}
