package loader_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

// An error of a client that does not fit the server says what is probably wrong, and is no unknown outcome.
func TestReasons(t *testing.T) {
	server := real(t)
	must(t, server.ConfigSet(background, "maxmemory", "1").Err())
	answering := func(answer string) redis.UniversalClient {
		proxy, rdb, _ := lossy(t)
		proxy.next(fault{answer: answer + "\r\n"})
		return rdb
	}
	hangsUp := listen(t, func(conn net.Conn) {
		_, _ = io.ReadAtLeast(conn, make([]byte, 64), 1)
		_ = conn.Close() // as a port for TLS does
	})
	byTLS := options(server.Options().Addr)
	byTLS.TLSConfig = &tls.Config{ServerName: "localhost"}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Options().Addr}})
	for want, rdb := range map[string]redis.UniversalClient{
		"its memory is full":          server,
		"the server is in no cluster": cluster,
		"the server is a node":        answering("-MOVED 5938 127.0.0.1:7001"),
		"lacks a right: `sluice acl`": answering("-NOPERM User app has no permissions to run the 'evalsha' command"),
		"older than Redis 5.0": answering("-ERR Error running script (call to f_9): @user_script:1: @user_script: 1: " +
			"Write commands not allowed after non deterministic commands."),
		"if the port is for TLS, the":     redis.NewClient(options(hangsUp)),
		"if the port is not for TLS, the": redis.NewClient(byTLS),
	} {
		_, err := loader.New(rdb).ListLog("x", loader.PerHour(5)).Allow(background, "s")
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, loader.ErrOutcomeUnknown) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
