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

{{/* What each pod of a cluster tells of itself. */}}
{{- define "holdline.node" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: HOLDLINE_CLUSTER_NODE
  value: $(POD_NAME)
- name: HOLDLINE_CLUSTER_ADVERTISE
  value: $(POD_NAME).{{ include "holdline.name" . }}-api
{{- end }}
