package dial

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
)

// secure applies the flags about certificates. That of the client is read at each dial, so that it may be replaced.
func (f Flags) secure(config *tls.Config) error {
	switch {
	case f.CA+f.Cert+f.Key == "":
		return nil
	case config == nil && f.CA != "":
		return usagef("--redis-ca wants a Redis with TLS: rediss://host:port")
	case config == nil:
		return usagef("--redis-cert wants a Redis with TLS: rediss://host:port")
	case (f.Cert == "") != (f.Key == ""):
		return usagef("want --redis-cert and --redis-key together")
	}
	config.MinVersion = tls.VersionTLS12
	if f.CA != "" {
		config.RootCAs = x509.NewCertPool()
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return usagef("--redis-ca: %v", errors.Unwrap(err)) // without the path
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return usagef("--redis-ca: the file has no certificate in PEM")
		}
	}
	if f.Cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
		return usagef("--redis-cert and --redis-key: %v", cmp.Or(errors.Unwrap(err), err))
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		return &pair, err
	}
	return nil
}

// SetPasswordFile has the password read from a file at each dial, so that it may be replaced. A password in the URL
// goes before it.
func (t Target) SetPasswordFile(path string) error {
	if t.Options.Password != "" {
		return nil
	}
	read := func(context.Context) (user, password string, err error) {
		text, err := os.ReadFile(path)
		return t.Options.Username, strings.TrimRight(string(text), "\r\n"), err
	}
	_, _, err := read(context.Background())
	t.Options.CredentialsProviderContext = read
	return err
}
