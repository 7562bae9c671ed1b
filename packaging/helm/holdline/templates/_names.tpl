{{/* The release's name is the server's: one release, one server. */}}
{{- define "holdline.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdline.selector" -}}
app.kubernetes.io/name: {{ include "holdline.name" . }}
{{- end -}}

{{- define "holdline.labels" -}}
{{ include "holdline.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
