package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/dial"
)

func TestTarget(t *testing.T) {
	tests := []struct {
		name     string
		flags    dial.Flags
		env      []string
		addrs    string
		user     string // user:password
		tls      bool
		shown    string
		sentinel string // its password
	}{
		{name: "nothing said", addrs: "localhost:6379", shown: "redis://localhost:6379"},
		{name: "environment", env: []string{"SLUICE_REDIS=redis://cache:7000"}, addrs: "cache:7000",
			shown: "redis://cache:7000"},
		{
			name: "a flag wins", flags: dial.Flags{Redis: "redis://a"}, env: []string{"SLUICE_REDIS=redis://cache:7000"},
			addrs: "a:6379", shown: "redis://a:6379",
		},
		{name: "host and port", flags: dial.Flags{Redis: "a:1"}, addrs: "a:1", shown: "redis://a:1"},
		{
			name: "all there is", flags: dial.Flags{Redis: "rediss://ada:secret@a:1/3"},
			addrs: "a:1", user: "ada:secret", tls: true, shown: "rediss://a:1/3",
		},
		{
			name: "password in the environment", flags: dial.Flags{Redis: "redis://ada@a:1"},
			env:   []string{"REDISCLI_AUTH=secret"},
			addrs: "a:1", user: "ada:secret", shown: "redis://a:1",
		},
		{name: "unix", flags: dial.Flags{Redis: "unix:///tmp/redis.sock"}, addrs: "/tmp/redis.sock",
			shown: "unix:///tmp/redis.sock"},
		{name: "cluster", flags: dial.Flags{Cluster: "a:1,b:2,c"}, addrs: "a:1,b:2,c:6379", shown: "a:1,b:2,c:6379"},
		{
			name: "cluster with TLS", flags: dial.Flags{Cluster: "rediss://ada:secret@a:1,b:2"},
			addrs: "a:1,b:2", user: "ada:secret", tls: true, shown: "rediss://a:1,b:2",
		},
		{
			name: "sentinel", flags: dial.Flags{Sentinel: "main@a:1,b:2"}, env: []string{"SENTINEL_AUTH=hush"},
			addrs: "a:1,b:2", shown: "main@a:1,b:2", sentinel: "hush",
		},
		{
			name: "sentinel with TLS and a user", flags: dial.Flags{Sentinel: "rediss://ada:secret@main@a:1"},
			addrs: "a:1", user: "ada:secret", tls: true, shown: "rediss://main@a:1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := app{getenv: getenv(test.env)}
			got, err := a.target(test.flags)
			must(t, err)
			if addrs := strings.Join(got.Addrs, ","); addrs != test.addrs {
				t.Errorf("addresses %s, want %s", addrs, test.addrs)
			}
			if user := strings.Trim(got.Options.Username+":"+got.Options.Password, ":"); user != test.user {
				t.Errorf("user %s, want %s", user, test.user)
			}
			if (got.Options.TLSConfig != nil) != test.tls {
				t.Errorf("TLS %v, want %v", got.Options.TLSConfig != nil, test.tls)
			}
			if got.String() != test.shown {
				t.Errorf("shown as %s, want %s", got, test.shown)
			}
			if got.SentinelAuth != test.sentinel {
				t.Errorf("the sentinels' password is %q, want %q", got.SentinelAuth, test.sentinel)
			}
		})
	}
}

// TestTargetCA wants the certificates of a file, and no other, for a server with TLS.
func TestTargetCA(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots, empty := filepath.Join(t.TempDir(), "roots"), filepath.Join(t.TempDir(), "empty")
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	must(t, os.WriteFile(roots, pem.EncodeToMemory(&block), 0o600))
	must(t, os.WriteFile(empty, nil, 0o600))
	for flags, want := range map[dial.Flags]string{
		{Redis: "rediss://a:1", CA: roots}:                  "",
		{Cluster: "rediss://a:1,b:2", CA: roots}:            "",
		{Redis: "a:1", CA: roots}:                           "--redis-ca wants a Redis with TLS: rediss://host:port",
		{Redis: "rediss://a:1", CA: empty}:                  "--redis-ca: the file has no certificate in PEM",
		{Redis: "rediss://a:1", CA: "/no/such"}:             "--redis-ca: no such file or directory",
		{Redis: "a:1", Cert: "c", Key: "k"}:                 "--redis-cert wants a Redis with TLS: rediss://host:port",
		{Redis: "rediss://a:1", Cert: "c"}:                  "want --redis-cert and --redis-key together",
		{Redis: "rediss://a:1", Cert: "/no/such", Key: "k"}: "--redis-cert and --redis-key: no such file or directory",
	} {
		got, err := app{getenv: getenv(nil)}.target(flags)
		if text := fmt.Sprint(err); err != nil && text != want {
			t.Errorf("%+v: %s, want %s", flags, text, want)
		}
		if err == nil && (want != "" || !got.Options.TLSConfig.RootCAs.Equal(poolOf(server))) {
			t.Errorf("%+v: no error, want %q and the roots of the file", flags, want)
		}
	}
}

func poolOf(server *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

func TestParseClusterNodes(t *testing.T) {
	const text = `a 10.0.0.1:7000@17000,one.example myself,master - 0 0 1 connected 0-5460
b 10.0.0.2:7000@17000,two.example slave a 0 0 2 connected
c 10.0.0.3:7000@17000 master,fail - 0 0 3 disconnected
d :0@0 master,noaddr - 0 0 4 disconnected
e 10.0.0.5:7000@17000 handshake - 0 0 5 disconnected
f :7000@17000 master - 0 0 6 connected
g 2001:db8::7:7000@17000 slave,nofailover f 0 0 7 connected
h 10.0.0.8:7000@17000 master,fail - 0 0 8 disconnected 5461-5470
i 10.0.0.9:7000@17000 myself,master - 0 0 9 connected [93-<-a]

`
	tests := []struct {
		hostNames bool
		want      []node
	}{
		{false, []node{
			{"10.0.0.1:7000", "master", false}, {"10.0.0.2:7000", "replica", false}, {"10.0.0.3:7000", "master", true},
			{"asked:7000", "master", true}, {"[2001:db8::7]:7000", "replica", false}, {"10.0.0.8:7000", "master", false},
			{"10.0.0.9:7000", "master", false},
		}},
		{true, []node{
			{"one.example:7000", "master", false}, {"two.example:7000", "replica", false}, {"10.0.0.3:7000", "master", true},
			{"asked:7000", "master", true}, {"[2001:db8::7]:7000", "replica", false}, {"10.0.0.8:7000", "master", false},
			{"10.0.0.9:7000", "master", false},
		}},
	}
	for _, test := range tests {
		got := parseClusterNodes(text, "asked:6379", test.hostNames)
		if len(got) != len(test.want) {
			t.Fatalf("%d nodes, want %d: %v", len(got), len(test.want), got)
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("node %d is %v, want %v", i, got[i], test.want[i])
			}
		}
	}
}
