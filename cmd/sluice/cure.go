package main

import (
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/sluice-redis/sluice/loader"
)

// cureFor returns what to do about an error, or "" if nothing more can be said.
func cureFor(err error) string {
	var unknown *loader.OutcomeUnknownError
	switch {
	case !errors.As(err, &unknown):
	case !strings.HasPrefix(unknown.Script, "token_bucket_set"):
		return "the call was charged once or not at all; check with permits=0 before you try again"
	case !strings.Contains(err.Error(), refusedInScript):
		return "the rate may or may not be set; it is safe to run the same command again"
	}
	if errors.Is(err, loader.ErrNotLoaded) {
		return "run sluice load with the same --redis, --cluster or --sentinel, " +
			"as a user with the right to load (see sluice help acl)"
	}
	if cure := rightsIn(err); cure != "" {
		return cure
	}
	for _, cure := range cures() {
		if strings.Contains(err.Error(), cure.word) {
			return cure.text
		}
	}
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "trust the server's certificate authority: SSL_CERT_FILE=ca.pem names its file"
	case isUnreachable(err):
		return "start a server there, or name yours with --redis redis://host:port or set SLUICE_REDIS; " +
			"sluice demo and try --embedded need none"
	}
	return ""
}

// isUnreachable reports whether no connection to a server could be made.
func isUnreachable(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// refusedInScript is part of Redis 7's error for a command in a script that the user may not call.
const refusedInScript = "can't run this command"

// errorCure says what to do about errors that contain a text.
type errorCure struct{ word, text string }

func cures() []errorCure {
	return []errorCure{
		{"NOAUTH", "give the password: redis://:password@host:port, or REDISCLI_AUTH in the environment"},
		{"WRONGPASS", "check user and password in the URL, or REDISCLI_AUTH in the environment"},
		{"NOPERM", "grant this user the command that the error names: ACL SETUSER <name> +<command>; " +
			"keys that are only read as %R~<pattern>"},
		{refusedInScript, "grant this user the commands that the script calls; sluice acl makes a user that has them"},
		{"WRONGTYPE", "choose another subject; or find out with TYPE <key> what the key is for, and remove it with UNLINK"},
		{"BADSTATE", "choose another subject; or remove the key and the permits in use with UNLINK"},
		{"modifier '%R~", "the user -look needs Redis 7: name a server of that version, or use only the first two users"},
		{"MOVED", "the server is a node of a cluster: name it with --cluster host:port"},
		{"cluster support disabled", "the server is not a cluster: name it with --redis redis://host:port"},
		{"READONLY", "the server is a replica: name its master, or use --sentinel"},
		{"first record does not look like a TLS handshake", "the server speaks no TLS: use redis:// in place of rediss://"},
		{errNoSentinel.Error(), "the server is not a sentinel: name the sentinels after the @, or use --redis"},
		{"unknown command", "the server is too old, or an administrator has renamed the command"},
	}
}
