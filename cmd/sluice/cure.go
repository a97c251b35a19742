package main

import (
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/sluice-redis/sluice/loader"
)

// cureFor says what to do about an error, or "" where the error says all there is.
func cureFor(err error) string {
	var unknown *loader.OutcomeUnknownError
	switch {
	case !errors.As(err, &unknown):
	case !strings.HasPrefix(unknown.Script, "token_bucket_set"):
		return "it was charged once or not at all; look with permits=0 before asking again"
	case !strings.Contains(err.Error(), refusedInScript):
		return "it is set or not; the same command again does no harm"
	}
	if errors.Is(err, loader.ErrNotLoaded) {
		return "sluice load with the same --redis, --cluster or --sentinel, as a user who may load (see sluice help acl)"
	}
	for _, cure := range cures() {
		if strings.Contains(err.Error(), cure.word) {
			return cure.text
		}
	}
	var certificate x509.UnknownAuthorityError
	switch {
	case errors.As(err, &certificate):
		return "trust the server's certificate authority: SSL_CERT_FILE=ca.pem names its file"
	case isUnreachable(err):
		return "start a server there, or name another; sluice demo and try --embedded need none"
	}
	return ""
}

// isUnreachable reports whether there was no connection to a server.
func isUnreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// refusedInScript is what Redis 7 says of a command of a script that the user may not call.
const refusedInScript = "can't run this command"

// errorCure is what to do about errors that hold a word.
type errorCure struct{ word, text string }

func cures() []errorCure {
	return []errorCure{
		{"NOAUTH", "give the password: redis://:password@host:port, or REDISCLI_AUTH in the environment"},
		{"WRONGPASS", "check user and password in the URL, or REDISCLI_AUTH in the environment"},
		{"NOPERM", "grant this user what the error names: ACL SETUSER <name> +<command> ~<keys>"},
		{refusedInScript, "grant this user the commands that the script calls; sluice acl makes a user that has them"},
		{"WRONGTYPE", "choose another subject; or look with TYPE <key> whose key it is, and remove it with UNLINK"},
		{"BADSTATE", "choose another subject; or remove the key with UNLINK, and the permits in use with it"},
		{"modifier '%R~", "a user who only reads keys needs Redis 7: name a server of that version, or use the first two users"},
		{"MOVED", "the server is a node of a cluster: name it with --cluster host:port"},
		{"cluster support disabled", "the server is not a cluster: name it with --redis redis://host:port"},
		{"READONLY", "the server is a replica: name its master, or use --sentinel"},
		{"first record does not look like a TLS handshake", "the server speaks no TLS: use redis:// in place of rediss://"},
		{errNoSentinel.Error(), "the server is no sentinel: name those after the @, or use --redis"},
		{"unknown command", "the server is too old, or an administrator has renamed the command"},
	}
}
