{{- /* What workers and gateways have in common. */ -}}

{{- define "punctual.pod" -}}
automountServiceAccountToken: false
# Services named delay… would otherwise put variables of Kubernetes among the settings.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "punctual.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "punctual.probe" -}}
{path: /health/{{ .health }}, port: web{{ if .Values.tls.secret }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- define "punctual.env" -}}
{{- if .Values.tls.secret }}
- {name: DELAY_TLS_CERT, value: /etc/punctual/tls/tls.crt}
- {name: DELAY_TLS_KEY, value: /etc/punctual/tls/tls.key}
{{- end }}
{{- if .Values.kafka.clusters }}
- {name: DELAY_CLUSTERS, value: /etc/punctual/clusters/clusters.toml}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- range $name, $from := .Values.secretEnv }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $from.name }}, key: {{ $from.key }}}}
{{- end }}
{{- end }}

{{- define "punctual.mounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tls.secret }}
- {name: tls, mountPath: /etc/punctual/tls, readOnly: true}
{{- end }}
{{- range .Values.kafka.secrets }}
- {name: kafka-{{ . }}, mountPath: /etc/punctual/kafka/{{ . }}, readOnly: true}
{{- end }}
{{- if .Values.kafka.clusters }}
- {name: clusters, mountPath: /etc/punctual/clusters, readOnly: true}
{{- end }}
{{- end }}

{{- define "punctual.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.tls.secret }}
- name: tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- range .Values.kafka.secrets }}
- name: kafka-{{ . }}
  secret: {secretName: {{ . }}}
{{- end }}
{{- if .Values.kafka.clusters }}
- name: clusters
  configMap: {name: {{ .Release.Name }}-clusters}
{{- end }}
{{- end }}

{{- define "punctual.claim" -}}
- metadata: {name: data}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end }}
