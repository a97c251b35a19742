package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/credentials/tls/certprovider"
	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"
)

// serverTLS returns the configuration of TLS, nil without a certificate. The files are read again when they change.
func (s settings) serverTLS() (*tls.Config, error) {
	if s.cert == "" {
		return nil, nil
	}
	if _, err := tls.LoadX509KeyPair(s.cert, s.key); err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.cert, s.key, err)
	}
	if s.clientCA != "" {
		pem, err := os.ReadFile(s.clientCA)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = errors.New("the file has no certificate in PEM")
		}
		if err != nil {
			return nil, fmt.Errorf("--tls-client-ca %s: %w", s.clientCA, err)
		}
	}
	provider, err := pemfile.NewProvider(pemfile.Options{
		CertFile: s.cert, KeyFile: s.key, RootFile: s.clientCA, RefreshDuration: s.reload,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := provider.KeyMaterial(ctx); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			material, err := provider.KeyMaterial(hello.Context())
			if err != nil {
				return nil, err
			}
			return configOf(material), nil
		}}, nil
}

func configOf(material *certprovider.KeyMaterial) *tls.Config {
	config := &tls.Config{
		Certificates: material.Certs, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}
	if material.Roots != nil {
		config.ClientCAs, config.ClientAuth = material.Roots, tls.RequireAndVerifyClientCert
	}
	return config
}
