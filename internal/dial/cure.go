package dial

import (
	"context"
	"errors"
	"io"
	"strings"
)

// Cure returns what to do about an error of a deployment that does not fit the flags, "" if nothing more can be said.
func Cure(err error) string {
	for _, cure := range []struct{ word, text string }{
		{"MOVED", "the server is a node of a cluster: name it with --cluster host:port"},
		{"cluster support disabled", "the server is not a cluster: name it with --redis redis://host:port"},
		{"READONLY", "the server is a replica: name its master, or use --sentinel"},
		{"first record does not look like a TLS handshake", "the server speaks no TLS: use redis:// in place of rediss://"},
		{"after non deterministic commands", "the server is too old: the scripts want Redis 5.0 or later"},
		{"WRONGPASS", "check the user and the password"},
		{"NOREPLICAS", "too few replicas are connected: see min-replicas-to-write"},
		{"OOM command not allowed", "raise maxmemory, or find out what fills the server: MEMORY STATS, redis-cli --bigkeys"},
	} {
		if strings.Contains(err.Error(), cure.word) {
			return cure.text
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return "the server hung up: if its port is for TLS, use rediss:// in place of redis://"
	case errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer: if its port is not for TLS, use redis:// in place of rediss://"
	}
	return ""
}
