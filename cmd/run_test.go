package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/labkeeper/labkeeper/test/env"
)

// Whoever reaches the webhook could say that he is the API server, and ask what others may do.
func TestWebhookAnswersWhoIsKnown(t *testing.T) {
	stranger, strangersKey := authority(t)
	ca, key := authority(t)
	for name, test := range map[string]struct {
		ca   string
		as   []tls.Certificate
		want bool
	}{
		"anybody":        {"", nil, true},
		"nobody":         {"client-ca.crt", nil, false},
		"a stranger":     {"client-ca.crt", []tls.Certificate{clientOf(t, stranger, strangersKey)}, false},
		"the API server": {"client-ca.crt", []tls.Certificate{clientOf(t, ca, key)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			address := serveWebhook(t, ca, test.ca)
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: test.as}} //nolint:gosec // who serves is not in question
			defer transport.CloseIdleConnections()
			answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("https://" + address + "/review")
			if err == nil {
				err = answer.Body.Close()
			}
			if answered := err == nil; answered != test.want {
				t.Errorf("it is answered: %v, %v", answered, err)
			}
		})
	}
}

// serveWebhook serves one until the test ends, and returns its address.
func serveWebhook(t *testing.T, ca *x509.Certificate, clientCA string) string {
	t.Helper()
	address, err := env.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := cert.EncodeCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	o := options{webhookCertDir: t.TempDir(), webhookClientCAName: clientCA}
	if o.webhookPort, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "client-ca.crt": pem} {
		if err := os.WriteFile(filepath.Join(o.webhookCertDir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := o.webhookServer()
	server.Register("/review", http.NotFoundHandler())
	go func() {
		if err := server.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for server.StartedChecker()(nil) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return address
}

// authority is a CA, and its key.
func authority(t *testing.T) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "client-ca"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return ca, key
}

// clientOf is the certificate of somebody whom a CA knows.
func clientOf(t *testing.T, ca *x509.Certificate, key crypto.Signer) tls.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
