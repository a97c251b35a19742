package dial_test

import (
	"crypto/tls"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// What an operator can mend has a cure, as the loader's error.
func TestServerCures(t *testing.T) {
	server := redistest.Start(t)
	cureOf := func(url string) string {
		target, err := dial.Find(dial.Flags{Redis: url}, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		rdb := target.Client()
		defer func() { _ = rdb.Close() }()
		limits := loader.New(rdb, loader.Timeout(200*time.Millisecond))
		_, err = limits.GCRA("search", loader.PerSecond(1)).Allow(t.Context(), "acme")
		return dial.Cure(err)
	}
	admin := server.Client(t)
	for user, rules := range map[string][]any{
		"default": {">pw"},
		"keys":    {"on", ">pw", "~other:*", "+@all"},
		"set":     {"on", ">pw", "~*", "+@all", "-set"},
		"load":    {"on", ">pw", "~*", "+@all", "-script", "-eval"},
	} {
		if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", user}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(url, cure string) {
		t.Helper()
		if got := cureOf(url + server.Addr); got == "" || !strings.Contains(got, cure) {
			t.Errorf("%s: %q, want %q", url, got, cure)
		}
	}
	want("redis://load:pw@", "run sluice load")
	want("redis://keys:pw@", "or the keys: ACL")
	want("redis://set:pw@", "grant this user the commands that the script calls")
	want("redis://set:other@", "check the user and the password")
	want("rediss://", "with rediss:// its port is not for TLS")
	if err := syscall.Kill(server.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	want("redis://:pw@", "it is frozen or busy")
	server.Kill()
	want("redis://", "start a server there")
}

// With TLS, an error of a certificate names the flag that mends it.
func TestCuresOfCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	for _, want := range []string{"--redis-ca", "--redis-cert"} {
		target, err := dial.Find(dial.Flags{Redis: "rediss://" + server.Listener.Addr().String()}, os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		target.Options.TLSConfig.InsecureSkipVerify = want == "--redis-cert"
		rdb := target.Client()
		if err := rdb.Ping(t.Context()).Err(); !strings.Contains(dial.Cure(err), want) {
			t.Errorf("%v: %q, want %s", err, dial.Cure(err), want)
		}
		_ = rdb.Close()
	}
}
