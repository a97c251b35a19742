package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// explain adds to an error what is probably wrong with the server or the client, if that can be said.
func (c *Client) explain(err error) error {
	if reason := c.reason(err); reason != "" {
		return fmt.Errorf("%w: %s", err, reason)
	}
	return err
}

func (c *Client) reason(err error) string {
	text, code := err.Error(), CodeOf(err)
	_, ofCluster := c.unwrapped.(clusterClient)
	switch {
	case code == "MOVED" && !ofCluster:
		return "the server is a node of a cluster: want a redis.ClusterClient"
	case strings.Contains(text, "cluster support disabled"):
		return "the server is in no cluster: want a redis.Client"
	case strings.Contains(text, "after non deterministic commands"):
		return "the server is older than Redis 5.0"
	case code == "OOM":
		return "its memory is full: raise maxmemory, or find out what fills it"
	case code == "NOPERM", strings.Contains(text, "user executing the script can't"):
		return "the Redis user lacks a right: `sluice acl` prints users that have all"
	case c.answered.Load():
	case errors.Is(err, io.EOF) && !c.usesTLS():
		return "no connection has worked: if the port is for TLS, the client's options want a TLSConfig"
	case errors.Is(err, context.DeadlineExceeded) && c.usesTLS():
		return "no connection has worked: if the port is not for TLS, the client's options want no TLSConfig"
	}
	return ""
}

// refusal is in Redis's errors for commands of scripts: of old servers, of an ACL, of rename-command.
var refusal = regexp.MustCompile("after non deterministic commands|user executing the script can't|" +
	"Unknown Redis command")

// refusedInScript reports whether the server refused a command of a script, which then took back what it had written.
func refusedInScript(err error) bool {
	switch CodeOf(err) {
	case "OOM", "NOPERM", "MISCONF":
		return true
	}
	return refusal.MatchString(err.Error())
}

// usesTLS reports whether the client connects by TLS, as far as its options say.
func (c *Client) usesTLS() bool {
	switch client := c.unwrapped.(type) {
	case singleClient:
		return client.Options().TLSConfig != nil
	case interface{ Options() *redis.ClusterOptions }:
		return client.Options().TLSConfig != nil
	}
	return false
}
