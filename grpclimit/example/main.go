// Command example is a gRPC server that each address may call 10 times a minute.
package main

import (
	"flag"
	"log"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/loader"
)

func main() {
	url := flag.String("redis", "redis://localhost:6379", "the Redis to share the limit through")
	listen := flag.String("listen", "localhost:9090", "the address to serve on")
	flag.Parse()
	options, err := redis.ParseURL(*url)
	if err != nil {
		log.Fatalf("-redis: %v", err)
	}
	limits := loader.New(redis.NewClient(options), loader.Timeout(250*time.Millisecond), loader.Logger(slog.Default()))
	limit := grpclimit.New(limits.ListLog("api", loader.PerMinute(10)), grpclimit.KeyByIP())
	if err := limit.Check(); err != nil { // wrong limits are found here, not by the first customer
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.UnaryServer), grpc.ChainStreamInterceptor(limit.StreamServer))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	log.Fatal(server.Serve(listener))
}
