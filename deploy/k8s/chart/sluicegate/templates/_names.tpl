{{- define "sluicegate.labels" -}}
app.kubernetes.io/name: sluicegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: sluicegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "sluicegate.name" -}}
{{- if eq .Release.Name "sluicegate" }}sluicegate{{ else }}{{ printf "%s-sluicegate" .Release.Name | trunc 48 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- define "sluicegate.adminPort" -}}
{{- $tls := .Values.config.admin.tls | default dict }}
{{- if $tls.enabled }}{{ $tls.port | default 1943 }}{{ else }}{{ .Values.config.admin.port | default 8080 }}{{ end }}
{{- end }}

{{/* The names of the pods of replicas, in the order in which they shall own the broker. */}}
{{- define "sluicegate.pods" -}}
{{- $name := include "sluicegate.name" . -}}
{{- range $number := until (int .Values.replicas) }}{{ if $number }}, {{ end }}{{ $name }}-{{ $number }}{{ end -}}
{{- end }}
