package env

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ArgoCDRefresh is the annotation that asks Argo CD to look at an Application again. It takes it off when it has.
const ArgoCDRefresh = "argocd.argoproj.io/refresh"

// argoCDOwn is the address of the cluster that Argo CD runs on.
const argoCDOwn = "https://kubernetes.default.svc"

// ArgoCDDestination is the cluster that an Application is deployed on, by its name or its address; empty for the one that Argo CD runs on.
func ArgoCDDestination(app *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "name")
	server, _, _ := unstructured.NestedString(app.Object, "spec", "destination", "server")
	if server == argoCDOwn {
		server = ""
	}
	return cmp.Or(name, server)
}

// ArgoCDKnows says whether Argo CD knows a cluster of some name or address by a Secret of its namespace.
func ArgoCDKnows(secret *unstructured.Unstructured, cluster string) bool {
	name, server := argoCDCluster(secret)
	return cluster != "" && (name == cluster || server == cluster)
}

// ArgoCDCluster is the name of the cluster that Argo CD knows by a Secret of its namespace, empty for none.
func ArgoCDCluster(secret *unstructured.Unstructured) string {
	name, _ := argoCDCluster(secret)
	return name
}

// argoCDCluster is the cluster that Argo CD knows by a Secret of its namespace, by its name and its address, empty for none: by its
// label, and only if it says where the cluster is and how to log in there. It does not ask the manager's own code, because that is
// what is tested.
func argoCDCluster(secret *unstructured.Unstructured) (name, server string) {
	value := func(key string) []byte {
		encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil
		}
		return decoded
	}
	at, err := url.Parse(string(value("server")))
	var config map[string]any
	if secret.GetLabels()["argocd.argoproj.io/secret-type"] != "cluster" || err != nil || at.Scheme != "https" || at.Host == "" ||
		json.Unmarshal(value("config"), &config) != nil || len(config) == 0 {
		return "", ""
	}
	return string(value("name")), string(value("server"))
}
