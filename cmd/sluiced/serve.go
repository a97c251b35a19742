package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/internal/watch"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
	"github.com/sluice-redis/sluice/policy"
)

// server is sluiced while it serves.
type server struct {
	settings
	log     *slog.Logger
	rdb     redis.UniversalClient
	limits  *limits
	metrics *metrics
	health  *health.Server
	ready   atomic.Bool // scripts are loaded and Redis answers
	ending  atomic.Bool

	grpcServer *grpc.Server
	closers    []func()
	failed     chan error // of a listener
}

// serve runs the service until the context ends.
func (a app) serve(ctx context.Context, args []string) error {
	settings, err := a.parseServe(args)
	if err != nil {
		return err
	}
	s := &server{settings: settings, failed: make(chan error, 3)}
	s.log = slog.New(slog.NewJSONHandler(a.stderr, nil))
	defer s.close()
	if err := s.start(ctx, a); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		s.shutDown()
		return nil
	case err := <-s.failed:
		return err
	}
}

func (s *server) start(ctx context.Context, a app) error {
	applied, err := readFiles(s.paths)
	if err != nil {
		return err
	}
	if err := s.connect(a); err != nil {
		return err
	}
	if s.metrics, err = newMetrics(); err != nil {
		return err
	}
	s.newLimits()
	watcher := watch.New(func() watch.Content { return contentOf(s.paths) }, func(sources map[string][]byte) error {
		next, err := parseFiles(sources)
		if err == nil {
			err = s.limits.apply(next)
		}
		if err == nil {
			applied = next
		}
		return err
	})
	if err := watcher.Apply(); err != nil {
		return err
	}
	s.noteReload(applied, nil)
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(garbage)
		debug.SetMemoryLimit(memory)
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	go watcher.Run(ctx.Done(), s.reload, func(err error) { s.noteReload(applied, err) })
	go s.probe(ctx)
	return nil
}

// noteReload logs and counts what became of the files.
func (s *server) noteReload(applied files, err error) {
	before := s.metrics.reloaded(applied.hashes, err)
	if err != nil {
		s.log.Error("the files are wrong: the limits stay as they were", "error", err)
		return
	}
	s.log.Info("files applied", "files", applied.hashes.since(before))
	for _, remark := range applied.remarks() {
		s.log.Warn(remark)
	}
}

// connect connects to Redis, or starts one in this process.
func (s *server) connect(a app) error {
	if s.embedded {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		s.closers = append(s.closers, server.Close)
		s.rdb = server.Client()
		s.log.Warn("the Redis is embedded: nothing is kept or shared; for trying out only")
		return nil
	}
	rdb, at, err := a.client(s.settings)
	if err != nil {
		return err
	}
	s.rdb = rdb
	s.log.Info("connecting to Redis", "redis", at)
	return nil
}

// timeoutOfRedis is how long Redis may take in a call: the rest is for what decides without it.
func timeoutOfRedis(call time.Duration) time.Duration { return max(call*9/10, time.Millisecond) }

func (s *server) newLimits() {
	headers, _ := s.headerSet() // checked before
	fail, _ := s.failOption()
	newLoader := func(timeout time.Duration) *loader.Loader {
		opts := []loader.Option{loader.Prefix(s.prefix), loader.Observe(s.metrics.observer), loader.Timeout(timeout),
			loader.Logger(s.log)}
		if !s.breaker {
			opts = append(opts, loader.WithoutBreaker())
		}
		return loader.New(s.rdb, opts...)
	}
	s.limits = &limits{
		loader: newLoader(timeoutOfRedis(s.timeout)), authLoader: newLoader(timeoutOfRedis(s.authTimeout)),
		fail: fail, headers: headers, opts: []policy.Option{policy.Logger(s.log)}, metrics: s.metrics,
		log: s.log,
	}
	s.metrics.loaders.Store(&[]*loader.Loader{s.limits.loader, s.limits.authLoader})
}

// listen starts the listeners.
func (s *server) listen(ctx context.Context) error {
	config, err := s.serverTLS()
	if err != nil {
		return err
	}
	service := &service{
		limits: s.limits, timeout: s.timeout, authTimeout: s.authTimeout, headers: s.limits.headers, metadata: s.metadata,
		metrics: s.metrics, calls: make(chan struct{}, s.maxCalls), log: rarelog.New(s.log),
	}
	if err := s.listenHTTP("http", s.http, service.handler(), config); err != nil {
		return err
	}
	admin := http.NewServeMux()
	admin.Handle("/metrics", s.metrics.handler())
	admin.HandleFunc("/subjects", s.metrics.serveSubjects)
	admin.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	admin.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() || s.ending.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "OK")
	})
	if err := s.listenHTTP("admin", s.admin, admin, nil); err != nil {
		return err
	}
	return s.listenGRPC(service, config)
}

// Bounds of connections.
const (
	exchangeTime = 10 * time.Second
	idleTime     = 5 * time.Minute
	maxHeader    = 64 << 10
	drainTime    = 10 * time.Second // for calls in flight
	flowWindow   = 64 << 10         // bytes of a call that are not read yet
)

// What the process keeps to be fast: goroutines whose stacks have grown already, and garbage while there is memory.
const (
	streamWorkers = 256
	garbage       = 400       // percent; GOGC changes it
	memory        = 128 << 20 // above it, less garbage; GOMEMLIMIT changes it
	readBuffer    = 8 << 10   // of each connection
)

func (s *server) listenHTTP(name, addr string, handler http.Handler, config *tls.Config) error {
	if addr == "" {
		return nil
	}
	bound, err := s.bind(name, addr)
	if err != nil {
		return err
	}
	l := net.Listener(newIdleLimiter(bound, s.maxConnections))
	if config != nil {
		l = tls.NewListener(l, config)
	}
	h := &http.Server{
		Handler: handler, ReadHeaderTimeout: exchangeTime, ReadTimeout: exchangeTime, WriteTimeout: exchangeTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	limitIdle(h)
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		_ = h.Shutdown(ctx)
		_ = h.Close()
	})
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return nil
}

func (s *server) bind(name, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", name, addr, err)
	}
	s.log.Info("listening", "for", name, "at", l.Addr().String())
	return l, nil
}

func (s *server) listenGRPC(service *service, config *tls.Config) error {
	s.health = health.NewServer()
	s.health.SetServingStatus(ratelimitv3.RateLimitService_ServiceDesc.ServiceName,
		grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if s.grpc == "" {
		return nil
	}
	l, err := s.bind("grpc", s.grpc)
	if err != nil {
		return err
	}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeader), grpc.ConnectionTimeout(exchangeTime),
		grpc.InitialWindowSize(flowWindow), grpc.InitialConnWindowSize(4 * flowWindow),
		grpc.NumStreamWorkers(streamWorkers), grpc.ReadBufferSize(readBuffer),
		grpc.MaxConcurrentStreams(uint32(min(2*s.maxCalls, 1<<20))),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTime, MaxConnectionAge: s.maxAge, MaxConnectionAgeGrace: drainTime,
			Time: time.Minute, Timeout: exchangeTime,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	if config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
	}
	s.grpcServer = grpc.NewServer(opts...)
	ratelimitv3.RegisterRateLimitServiceServer(s.grpcServer, service)
	grpc_health_v1.RegisterHealthServer(s.grpcServer, s.health)
	reflection.Register(s.grpcServer)
	go func() {
		if err := s.grpcServer.Serve(netutil.LimitListener(l, s.maxConnections)); err != nil {
			s.failed <- err
		}
	}()
	return nil
}

func (s *server) setHealth(ready bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(ratelimitv3.RateLimitService_ServiceDesc.ServiceName, status)
}

// shutDown says that the server is not ready, waits until that is known, and ends when the calls in flight have.
func (s *server) shutDown() {
	s.ending.Store(true)
	s.health.Shutdown()
	s.log.Info("draining", "seconds", s.drain.Seconds())
	time.Sleep(s.drain)
	if s.grpcServer == nil {
		return
	}
	late := time.AfterFunc(drainTime, s.grpcServer.Stop)
	defer late.Stop()
	s.grpcServer.GracefulStop()
}

func (s *server) close() {
	for _, closer := range s.closers {
		closer()
	}
	if s.limits != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		s.limits.close(ctx)
	}
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
}
