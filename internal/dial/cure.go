package dial

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/sluice-redis/sluice/loader"
)

// Cure returns what to do about an error of a deployment that does not fit the flags, "" if nothing more can be said.
func Cure(err error) string {
	if errors.Is(err, loader.ErrNotLoaded) {
		return "run sluice load with the same --redis, --cluster or --sentinel, " +
			"as a user with the right to load (see sluice help acl)"
	}
	for _, cure := range []struct{ word, text string }{
		{"MOVED", "the server is a node of a cluster: name it with --cluster host:port"},
		{"cluster support disabled", "the server is not a cluster: name it with --redis redis://host:port"},
		{"READONLY", "the server is a replica: name its master, or use --sentinel"},
		{"first record does not look like a TLS handshake", "the server speaks no TLS: use redis:// in place of rediss://"},
		{"signed by unknown authority", "name the file with the server's certificate authority by --redis-ca"},
		{"certificate required", "give a certificate that the server trusts by --redis-cert and --redis-key"},
		{"after non deterministic commands", "the server is too old: the scripts want Redis 5.0 or later"},
		{"NOAUTH", "give the password"},
		{"unauthenticated", "give the password"}, // a long call
		{"WRONGPASS", "check the user and the password"},
		{"NOPERM", "grant this user the command that the error names, or the keys: ACL SETUSER <name> +<command> " +
			"~<pattern>; keys that are only read as %R~<pattern>"},
		{RefusedInScript, "grant this user the commands that the script calls; sluice acl makes a user that has them"},
		{"CLUSTERDOWN", "no node serves the slot, or most masters are gone: redis-cli --cluster check HOST:PORT says which"},
		{"NOREPLICAS", "too few replicas are connected: see min-replicas-to-write"},
		{"OOM command not allowed", "raise maxmemory, or find out what fills the server: MEMORY STATS, redis-cli --bigkeys"},
	} {
		if strings.Contains(err.Error(), cure.word) {
			return cure.text
		}
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case IsUnreachable(err):
		return "start a server there, or name yours with --redis, --cluster or --sentinel"
	case errors.Is(err, io.EOF):
		return "the server hung up: if its port is for TLS, use rediss:// in place of redis://"
	case ok && timeout.Timeout():
		return "the server does not answer: it is frozen or busy, or with rediss:// its port is not for TLS"
	}
	return ""
}

// RefusedInScript is part of Redis 7's error for a command in a script that the user may not call.
const RefusedInScript = "can't run this command"

// IsUnreachable reports whether no connection to a server could be made.
func IsUnreachable(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}
