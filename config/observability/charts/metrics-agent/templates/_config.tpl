{{/* Values are written as JSON, which is YAML whatever is in them. */}}
{{- define "metrics-agent.namespaces" -}}
{{- if .Values.shared }}
    namespaces: {names: [{{ .Release.Namespace }}]}
{{- end }}
{{- end }}
{{- define "metrics-agent.config" -}}
global:
  scrape_interval: {{ .Values.interval | toJson }}
  external_labels: {{ .Values.labels | toJson }}
scrape_configs:
# What components say of their metrics, by their headless Services.
- job_name: components
  kubernetes_sd_configs:
  - role: endpointslice
    {{- include "metrics-agent.namespaces" . }}
  relabel_configs:
  - {source_labels: [__meta_kubernetes_service_labelpresent_experiments_illm_io_metrics, __meta_kubernetes_endpointslice_port_name], action: keep, regex: "true;metrics"}
  - {source_labels: [__meta_kubernetes_service_annotation_experiments_illm_io_metrics_path], regex: "(.+)", target_label: __metrics_path__}
  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
  - {source_labels: [__meta_kubernetes_service_label_experiments_illm_io_metrics], target_label: component}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
# Pods that say so themselves, by annotations that are widely used.
- job_name: pods
  kubernetes_sd_configs:
  - role: pod
    {{- include "metrics-agent.namespaces" . }}
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_scrape, __meta_kubernetes_pod_container_init], action: keep, regex: "true;false"}
  - {source_labels: [__meta_kubernetes_pod_phase], action: drop, regex: "Succeeded|Failed"}
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_scheme], regex: "(https?)", target_label: __scheme__}
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_path], regex: "(.+)", target_label: __metrics_path__}
  # With the annotation, one target for each pod; without, one for each port.
  - {source_labels: [__meta_kubernetes_pod_ip, __meta_kubernetes_pod_annotation_prometheus_io_port], regex: "([0-9.]+);([0-9]+)", replacement: "$1:$2", target_label: __address__}
  - {source_labels: [__meta_kubernetes_pod_ip, __meta_kubernetes_pod_annotation_prometheus_io_port], regex: "(.*:.*);([0-9]+)", replacement: "[$1]:$2", target_label: __address__}
  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
{{- if not .Values.shared }}
# What containers use.
- job_name: cadvisor
  scheme: https
  metrics_path: /metrics/cadvisor
  tls_config: {ca_file: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt, insecure_skip_verify: true} # kubelets sign their own
  authorization: {credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token}
  kubernetes_sd_configs:
  - role: node
  relabel_configs:
  - {source_labels: [__meta_kubernetes_node_name], target_label: node}
{{- end }}
remote_write:
- url: {{ required "url: where are the metrics written to?" .Values.url | toJson }}
  {{- with .Values.tenant }}
  headers: {X-Scope-OrgID: {{ . | toJson }}}
  {{- end }}
  {{- if .Values.auth.secret }}
  {{- if eq .Values.auth.type "token" }}
  authorization: {credentials_file: /etc/credentials/token}
  {{- else if eq .Values.auth.type "basic" }}
  basic_auth: {username_file: /etc/credentials/username, password_file: /etc/credentials/password}
  {{- else }}
  {{- fail "auth.type: it must be token or basic" }}
  {{- end }}
  {{- end }}
{{- end }}
