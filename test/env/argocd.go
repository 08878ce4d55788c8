package env

import (
	"encoding/base64"
	"encoding/json"
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ArgoCDRefresh is the annotation that asks Argo CD to look at an Application again. It takes it off when it has.
const ArgoCDRefresh = "argocd.argoproj.io/refresh"

// ArgoCDKnows says whether Argo CD knows a cluster of some name by a Secret of its namespace.
func ArgoCDKnows(secret *unstructured.Unstructured, cluster string) bool {
	return cluster != "" && ArgoCDCluster(secret) == cluster
}

// ArgoCDCluster is the name of the cluster that Argo CD knows by a Secret of its namespace, empty for none: by its label, and only if it
// says where the cluster is and how to log in there. It does not ask the manager's own code, because that is what is tested.
func ArgoCDCluster(secret *unstructured.Unstructured) string {
	value := func(key string) []byte {
		encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil
		}
		return decoded
	}
	server, err := url.Parse(string(value("server")))
	var config map[string]any
	if secret.GetLabels()["argocd.argoproj.io/secret-type"] != "cluster" || err != nil || server.Scheme != "https" || server.Host == "" ||
		json.Unmarshal(value("config"), &config) != nil || len(config) == 0 {
		return ""
	}
	return string(value("name"))
}
