package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

type service struct {
	pb.UnimplementedTestServiceServer
	unary func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
}

func (s *service) UnaryCall(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, nil
}

func TestServerFirst(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer rdb.Close()
	limits := loader.New(rdb)
	limit := grpclimit.New(limits.ListLog("api", loader.PerMinute(2)), grpclimit.KeyByIP())
	if err := limit.Check(); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.UnaryServer), grpc.ChainStreamInterceptor(limit.StreamServer))
	pb.RegisterTestServiceServer(server, &service{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(lis)
	defer server.Stop()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pb.NewTestServiceClient(conn)
	for n := range 3 {
		_, err = client.UnaryCall(context.Background(), &pb.SimpleRequest{})
		t.Log(n, err)
	}
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted {
		t.Fatal(err)
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			t.Log(d.RetryDelay.AsDuration() > 59*time.Second)
		default:
			t.Log(d)
		}
	}
}
