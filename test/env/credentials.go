package env

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The users of the token file. All are in group system:masters; they differ so that the audit log
// tells them apart.
const (
	adminUser             = "admin"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	kwokUser              = "kwok"
)

// tokenLifetime outlasts any demo; the tokens die with the control plane anyway.
const tokenLifetime = 24 * time.Hour

// credentials are the files that the components authenticate with, and what clients need of them.
type credentials struct {
	ca, servingCert, servingKey string
	serviceAccountKey           string
	tokenFile                   string

	caData []byte
	tokens map[string]string // by user
}

// writeCredentials makes a certificate authority, the API server's certificate, the key that signs
// ServiceAccount tokens, a token per user, and those of others.
func writeCredentials(dir string, others map[string]string) (*credentials, error) {
	c := &credentials{
		ca:                filepath.Join(dir, "ca.crt"),
		servingCert:       filepath.Join(dir, "apiserver.crt"),
		servingKey:        filepath.Join(dir, "apiserver.key"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
		tokenFile:         filepath.Join(dir, "tokens.csv"),
		tokens:            map[string]string{},
	}
	writeTokens := func() error { return c.writeTokens(others) }
	for _, write := range []func() error{c.writeCertificates, c.writeServiceAccountKey, writeTokens} {
		if err := write(); err != nil {
			return nil, fmt.Errorf("writing credentials: %w", err)
		}
	}
	return c, nil
}

// writeCertificates makes the authority and the one certificate it signs; the authority's key is
// never written.
func (c *credentials) writeCertificates() error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	servingKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "labkeeper-env"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(30 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	serving := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	servingDER, err := x509.CreateCertificate(rand.Reader, serving, ca, &servingKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(servingKey)
	if err != nil {
		return err
	}
	c.caData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	if err := os.WriteFile(c.ca, c.caData, 0o644); err != nil {
		return err
	}
	if err := writePEM(c.servingCert, "CERTIFICATE", servingDER); err != nil {
		return err
	}
	return writePEM(c.servingKey, "EC PRIVATE KEY", keyDER)
}

// writeServiceAccountKey makes the key pair of TokenRequest. It is RSA because every client library
// of OpenID providers verifies that.
func (c *credentials) writeServiceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return writePEM(c.serviceAccountKey, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

// writeTokens makes the static token file. Others are in no group of their own.
func (c *credentials) writeTokens(others map[string]string) error {
	var lines strings.Builder
	for _, user := range []string{adminUser, controllerManagerUser, schedulerUser, kwokUser} {
		var random [16]byte
		if _, err := rand.Read(random[:]); err != nil {
			return err
		}
		c.tokens[user] = hex.EncodeToString(random[:])
		fmt.Fprintf(&lines, "%s,%s,%s,system:masters\n", c.tokens[user], user, user)
	}
	for _, user := range slices.Sorted(maps.Keys(others)) {
		fmt.Fprintf(&lines, "%s,%s,%s\n", others[user], user, user)
	}
	return os.WriteFile(c.tokenFile, []byte(lines.String()), 0o600)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// restConfig returns a user's client configuration. Client-side limits are off: the server has its
// own, and tests should not wait for a clock.
func (c *credentials) restConfig(server, user string) *rest.Config {
	return &rest.Config{
		Host:            server,
		BearerToken:     c.tokens[user],
		TLSClientConfig: rest.TLSClientConfig{CAData: c.caData},
		QPS:             -1,
	}
}

// writeKubeconfigs writes one kubeconfig per user.
func (cp *ControlPlane) writeKubeconfigs() error {
	for user, token := range cp.credentials.tokens {
		if err := cp.writeKubeconfig(cp.kubeconfigPath(user), user, token, ""); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfigPath is where a user's kubeconfig is.
func (cp *ControlPlane) kubeconfigPath(user string) string {
	return filepath.Join(cp.dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
}

// writeKubeconfig writes a kubeconfig with a bearer token.
func (cp *ControlPlane) writeKubeconfig(path, user, token, namespace string) error {
	const cluster = "labkeeper-env"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{
		Server: cp.config.Host, CertificateAuthorityData: cp.credentials.caData,
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user, Namespace: namespace}
	config.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing kubeconfig of %s: %w", user, err)
	}
	return nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of the ServiceAccount, which must exist,
// and returns its path. Who uses it has exactly the rights that RBAC gives that account.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return "", fmt.Errorf("creating client: %w", err)
	}
	seconds := int64(tokenLifetime / time.Second)
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	path := filepath.Join(cp.dir, namespace+"-"+name+".kubeconfig")
	return path, cp.writeKubeconfig(path, name, request.Status.Token, namespace)
}
