{{/* The name of all objects. Kubernetes adds 11 characters in a label of the pods. */}}
{{- define "rdzv.name" -}}
{{- $name := .Values.fullnameOverride | default (printf "%s-rdzv" .Release.Name) -}}
{{- if gt (len $name) 52 }}{{ fail (printf "%s is longer than 52 characters: set fullnameOverride" $name) }}{{ end -}}
{{- $name -}}
{{- end }}

{{- define "rdzv.labels" -}}
app.kubernetes.io/name: rdzvd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: rendezvous
{{- end }}

{{- define "rdzv.objectLabels" -}}
{{ include "rdzv.labels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "rdzv.selector" -}}
rdzvd: {{ .Release.Name }}
{{- end }}

{{/* "true", or nothing. */}}
{{- define "rdzv.durable" -}}
{{- if kindIs "bool" .Values.durable }}{{ if .Values.durable }}true{{ end }}{{ else if .Values.relay }}true{{ end -}}
{{- end }}

{{/* With relays, a store that comes back with its state may go at any time. */}}
{{- define "rdzv.mayRestart" -}}
{{- if and .Values.relay (include "rdzv.durable" .) }}true{{ end -}}
{{- end }}

{{- define "rdzv.advertise" -}}
{{- if .Values.advertise }}{{ .Values.advertise -}}
{{- else if .Values.relay }}{{ printf "localhost:%v" .Values.relayPort -}}
{{- else }}{{ printf "%s:%v" (include "rdzv.name" .) .Values.port }}{{ end -}}
{{- end }}
