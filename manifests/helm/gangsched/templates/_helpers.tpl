{{- define "gangsched.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gangsched.labels" -}}
{{ include "gangsched.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gangsched.serviceAccountName" -}}
{{- default (include "gangsched.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "gangsched.image" -}}
{{- $repository := required "image.repository is empty: set it to where your image is (docs/install.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.scheme" -}}
{{- ternary "https" "http" .Values.authorizedMetrics.enabled -}}
{{- end -}}

{{- define "gangsched.scrape" -}}
- port: http
  path: /metrics
  scheme: {{ include "gangsched.scheme" . }}
{{- if .Values.authorizedMetrics.enabled }}
  {{- if .Values.authorizedMetrics.tokenSecret.name }}
  authorization:
    credentials:
      name: {{ .Values.authorizedMetrics.tokenSecret.name }}
      key: {{ .Values.authorizedMetrics.tokenSecret.key }}
  {{- else }}
  {{- /* Prometheus sends the token of its own account, to which gangsched-metrics-reader is bound. */}}
  bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
  {{- end }}
  tlsConfig:
    serverName: {{ include "gangsched.fullname" . }}-metrics.{{ .Release.Namespace }}.svc
    ca:
      secret:
        name: {{ .Values.authorizedMetrics.secretName }}
        key: ca.crt
{{- end }}
{{- end -}}

{{- define "gangsched.holdsRoom" -}}
{{- if ne (get (.Values.config.preemption | default dict) "holdRoom") "never" -}}true{{- end -}}
{{- end -}}

{{- define "gangsched.resources" -}}
{{- if .Values.resources -}}
{{- toYaml .Values.resources -}}
{{- else if eq .Values.size "small" -}}
requests: {cpu: 100m, memory: 256Mi}
limits: {cpu: "1", memory: 512Mi}
{{- else if eq .Values.size "medium" -}}
requests: {cpu: 500m, memory: 512Mi}
limits: {cpu: "2", memory: 2Gi}
{{- else -}}
requests: {cpu: "1", memory: 1Gi}
limits: {cpu: "2", memory: 4Gi}
{{- end -}}
{{- end -}}

{{- define "gangsched.config" -}}
{{- $election := merge (dict "resourceNamespace" .Release.Namespace) (.Values.config.leaderElection | default dict) -}}
{{- $file := dict "apiVersion" "gangsched.dev/v1alpha1" "kind" "GangSchedulerConfiguration" -}}
{{- toYaml (merge $file (dict "leaderElection" $election) .Values.config) -}}
{{- end -}}
