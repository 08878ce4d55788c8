{{- define "metrics-monitors.podLabels" -}}
{{- $labels := dict }}
{{- range splitList "," (required "podLabels: which pods?" .Values.podLabels) }}
{{- $pair := splitn "=" 2 . }}
{{- $_ := set $labels $pair._0 $pair._1 }}
{{- end }}
{{- $labels | toJson }}
{{- end }}
