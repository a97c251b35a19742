package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a := &authority{key, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, x509.NewCertPool()}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.pool.AddCert(a.cert)
	return a
}

// issue returns certificate and key in PEM.
func (a *authority) issue(t *testing.T, serial int64) (cert, key []byte) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &own.PublicKey, a.key)
	must(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(own)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// A file of TLS that cannot be used is named.
func TestUnusableTLSFiles(t *testing.T) {
	cert, key := newAuthority(t).issue(t, 2)
	path := func(name string, text []byte) string {
		name = filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(name, text, 0o600))
		return name
	}
	good := settings{cert: path("cert.pem", cert), key: path("key.pem", key), reload: time.Second}
	for want, change := range map[string]func(s *settings){
		"--tls-client-ca nowhere.pem: open":                      func(s *settings) { s.clientCA = "nowhere.pem" },
		"empty.pem: the file has no certificate in PEM":          func(s *settings) { s.clientCA = path("empty.pem", nil) },
		"--tls-cert nowhere.pem, --tls-key " + good.key + ": op": func(s *settings) { s.cert = "nowhere.pem" },
	} {
		s := good
		change(&s)
		if _, err := s.serverTLS(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The password and the client's certificate are read at each connection to Redis: both may be replaced.
func TestSecretsRotate(t *testing.T) {
	trusted, folder, port := newAuthority(t), t.TempDir(), freePort(t)
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name string, text []byte) { must(t, os.WriteFile(path(name), text, 0o600)) }
	certify := func(by *authority, name string) {
		cert, key := by.issue(t, 2)
		write(name+".pem", cert)
		write(name+"-key.pem", key)
	}
	certify(trusted, "server")
	certify(newAuthority(t), "client")
	write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.cert.Raw}))
	write("password", []byte("first\n"))
	redis := redistest.Start(t, "--tls-port", port[strings.LastIndex(port, ":")+1:], "--tls-auth-clients", "yes",
		"--tls-cert-file", path("server.pem"), "--tls-key-file", path("server-key.pem"), "--tls-ca-cert-file", path("ca.pem"))
	admin := redis.Client(t)
	rotate := func(password string) { must(t, admin.ConfigSet(t.Context(), "requirepass", password).Err()) }
	rotate("first")
	rdb, _, err := app{getenv: func(string) string { return "" }}.client(settings{passwordFile: path("password"),
		redis: dial.Flags{
			Redis: "rediss://" + port, CA: path("ca.pem"), Cert: path("client.pem"), Key: path("client-key.pem"),
		}})
	must(t, err)
	defer rdb.Close()
	ping := func() error {
		must(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		return rdb.Ping(t.Context()).Err()
	}
	if err := ping(); err == nil {
		t.Error("a stranger's certificate was accepted")
	}
	certify(trusted, "client")
	redistest.Await(t, "the new certificate is used", func() bool { return ping() == nil })
	rotate("second")
	if err := ping(); err == nil {
		t.Error("the old password was accepted")
	}
	write("password", []byte("second"))
	redistest.Await(t, "the new password is used", func() bool { return ping() == nil })
}

// A cluster's nodes get the password of a file too.
func TestPasswordFileOfACluster(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	for _, node := range nodes {
		must(t, node.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	}
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	rdb, _, err := app{getenv: func(string) string { return "" }}.client(
		settings{passwordFile: file, redis: dial.Flags{Cluster: nodes[0].Addr}})
	must(t, err)
	defer rdb.Close()
	must(t, rdb.Set(t.Context(), "a", 1, 0).Err())
}

// A client without a certificate is refused. New certificates, and new limits behind the links of a Kubernetes volume,
// are used without a restart.
func TestTLSAndLinks(t *testing.T) {
	trusted, folder := newAuthority(t), t.TempDir()
	path := func(names ...string) string { return filepath.Join(append([]string{folder}, names...)...) }
	link := func(version string, limit int) { // what the kubelet does with a ConfigMap
		must(t, os.Mkdir(path(version), 0o700))
		must(t, os.WriteFile(path(version, "limits.yaml"), fmt.Appendf(nil, oneRule, limit), 0o600))
		must(t, os.Symlink(version, path("next")))
		must(t, os.Rename(path("next"), path("..data")))
	}
	link("..1", 1)
	must(t, os.Symlink(filepath.Join("..data", "limits.yaml"), path("limits.yaml")))
	certify := func(serial int64) {
		cert, key := trusted.issue(t, serial)
		must(t, os.WriteFile(path("key.pem"), key, 0o600))
		must(t, os.WriteFile(path("cert.pem"), cert, 0o600))
	}
	certify(2)
	must(t, os.WriteFile(path("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.cert.Raw}), 0o600))

	addr, out := freePort(t), &output{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		a := app{stdout: out, stderr: out, getenv: func(string) string { return "" }}
		ended <- a.run(ctx, []string{"serve", "--embedded", "--grpc", "", "--admin", "", "--http", addr, "--reload", "100ms",
			"--drain", "0s", "--tls-cert", path("cert.pem"), "--tls-key", path("key.pem"), "--tls-client-ca", path("ca.pem"),
			folder})
	}()
	defer func() { stop(); <-ended }()
	serial := func(with ...tls.Certificate) int64 {
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: trusted.pool, Certificates: with})
		if err != nil {
			return 0
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return 0
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the server's refusal comes after the handshake
			return 0
		}
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	own, err := tls.X509KeyPair(trusted.issue(t, 3))
	must(t, err)
	strange, err := tls.X509KeyPair(newAuthority(t).issue(t, 4))
	must(t, err)
	redistest.Await(t, "a client with a certificate is served", func() bool { return serial(own) == 2 })
	if serial() != 0 || serial(strange) != 0 {
		t.Error("a client without a certificate of ours is served")
	}
	certify(5)
	redistest.Await(t, "the new certificate is used", func() bool { return serial(own) == 5 })
	applied := func() int { return strings.Count(out.String(), "files applied") }
	before := applied()
	link("..2", 2)
	redistest.Await(t, "the new limits are used", func() bool { return applied() > before })
}
