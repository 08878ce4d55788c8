//go:build capi || crossplane

package integration_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// keyPair are a certificate and its key, as PEM.
type keyPair struct{ certificate, key []byte }

// newAuthority is one that has signed itself, also for a host of that name.
func newAuthority(name string) keyPair {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	signed, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, private)
	if err != nil {
		panic(err)
	}
	return keyPair{
		pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: signed.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: keyutil.RSAPrivateKeyBlockType, Bytes: x509.MarshalPKCS1PrivateKey(private)}),
	}
}
