/* Text with holes: what a store of one replica looks like, and why, is in the comments beside it.
 */
#include "deploy/rewrite/rewrite_store.h"
#include "deploy/yaml/scalar_text.h"
#include "deploy/yaml/yaml_doc.h"

#include <string.h>

static const char PROBES[] = "startupProbe:\n"
                             "  httpGet:\n"
                             "    path: /readyz\n"
                             "    port: @etcd\n"
                             "  periodSeconds: 1\n"
                             "  failureThreshold: 60\n"
                             "readinessProbe:\n"
                             "  httpGet:\n"
                             "    path: /readyz\n"
                             "    port: @etcd\n"
                             "  periodSeconds: 5\n"
                             "livenessProbe:\n"
                             "  httpGet:\n"
                             "    path: /livez\n"
                             "    port: @etcd\n"
                             "  periodSeconds: 10\n"
                             "  timeoutSeconds: 5\n"
                             "  failureThreshold: 6\n";

/* No limit of CPU: being throttled would be latency for every agent. */
static const char RESOURCES[] = "resources:\n"
                                "  requests:\n"
                                "    cpu: 100m\n"
                                "    memory: 64Mi\n"
                                "  limits:\n"
                                "    memory: 256Mi\n";

static const char EQUAL_RESOURCES[] = "resources:\n"
                                      "  requests:\n"
                                      "    cpu: 500m\n"
                                      "    memory: 256Mi\n"
                                      "  limits:\n"
                                      "    cpu: 500m\n"
                                      "    memory: 256Mi\n";

static const char CONTAINER_END[] = "securityContext:\n"
                                    "  allowPrivilegeEscalation: false\n"
                                    "  capabilities:\n"
                                    "    drop:\n"
                                    "    - ALL\n"
                                    "  readOnlyRootFilesystem: true\n"
                                    "  runAsNonRoot: true\n"
                                    "  seccompProfile:\n"
                                    "    type: RuntimeDefault\n"
                                    "volumeMounts:\n"
                                    "- name: rdzvd-data\n"
                                    "  mountPath: /var/lib/rdzvd\n";

static const char POD_START[] = "enableServiceLinks: false\n"
                                "automountServiceAccountToken: false\n"
                                "terminationGracePeriodSeconds: 30\n"
                                "securityContext:\n"
                                "  fsGroup: 65532\n"
                                "  fsGroupChangePolicy: OnRootMismatch\n"
                                "  runAsNonRoot: true\n"
                                "  seccompProfile:\n"
                                "    type: RuntimeDefault\n";

static const char VOLUMES[] = "volumes:\n"
                              "- name: rdzvd-data\n"
                              "  emptyDir:\n"
                              "    sizeLimit: 256Mi\n";

const char store_sidecar_volume[] = "name: rdzvd-data\n"
                                    "emptyDir:\n"
                                    "  sizeLimit: 256Mi\n";

/* Every line of the text, indented; the first may be led by `- `. */
static void add_lines(struct buf *out, const char *text, int indent, bool dash)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");

        if (len > 0)
            buf_print(out, "%*s%s", dash ? indent - 2 : indent, "", dash ? "- " : "");
        buf_print(out, "%.*s\n", (int)len, text);
        dash = false;
        text += len + (text[len] == '\n');
    }
}

static void add_probes(struct buf *out, const char *port)
{
    for (const char *p = PROBES, *at; *p != '\0'; p = at + strlen("@etcd")) {
        at = strstr(p, "@etcd");
        if (at == NULL) {
            buf_add(out, p, strlen(p));
            return;
        }
        buf_add(out, p, (size_t)(at - p));
        buf_add(out, port, strlen(port));
    }
}

static void add_container(struct buf *out, const struct store_spec *s, bool sidecar,
                          bool guaranteed)
{
    buf_print(out, "name: rdzvd\nimage: %s\n", scalar_text(out->arena, s->image));
    if (sidecar)
        buf_print(out, "restartPolicy: Always\n");
    buf_print(out, "args:\n");
    if (s->c10d_port != s->etcd_port)
        buf_print(out, "- --listen=0.0.0.0:%u\n", s->c10d_port);
    buf_print(out, "- --listen=0.0.0.0:%u\n", s->etcd_port);
    for (size_t i = 0; i < s->more_count; i++)
        buf_print(out, "- --listen=0.0.0.0:%u\n", s->more_ports[i]);
    buf_print(out, "- --data-dir=/var/lib/rdzvd\n");
    if (s->advertise != NULL)
        buf_print(out, "- --advertise=%s\n", s->advertise);
    if (s->space_idle_timeout != NULL)
        buf_print(out, "- --space-idle-timeout=%s\n", s->space_idle_timeout);
    buf_print(out, "ports:\n");
    if (s->c10d_port != s->etcd_port)
        buf_print(out, "- name: c10d\n  containerPort: %u\n", s->c10d_port);
    buf_print(out, "- name: %s\n  containerPort: %u\n", scalar_text(out->arena, s->etcd_name),
              s->etcd_port);
    for (size_t i = 0; i < s->more_count; i++)
        buf_print(out, "- containerPort: %u\n", s->more_ports[i]);
    add_probes(out, scalar_text(out->arena, s->etcd_name));
    buf_print(out, "%s%s", guaranteed ? EQUAL_RESOURCES : RESOURCES, CONTAINER_END);
}

/* A label of ours gives way to one of the same key that stood there: Services select by those. */
static void add_label(struct buf *out, int indent, const struct yaml_node *own, const char *key,
                      const char *value)
{
    if (yaml_get(own, key) == NULL)
        buf_print(out, "%*s%s: %s\n", indent, "", key, scalar_text(out->arena, value));
}

static void add_labels(struct buf *out, int indent, const struct store_spec *s,
                       const struct yaml_node *own, const char *lines)
{
    buf_print(out, "%*slabels:\n", indent - 2, "");
    add_label(out, indent, own, "app.kubernetes.io/name", "rdzvd");
    add_label(out, indent, own, "app.kubernetes.io/instance", s->instance);
    add_label(out, indent, own, "app.kubernetes.io/component", "rendezvous");
    add_lines(out, lines, indent, false);
}

static void add_annotations(struct buf *out, int indent, const struct store_spec *s)
{
    buf_print(out, "%*sannotations:\n", indent - 2, "");
    add_label(out, indent, s->own_annotations, "cluster-autoscaler.kubernetes.io/safe-to-evict",
              "false");
    add_label(out, indent, s->own_annotations, "sidecar.istio.io/inject", "false");
    add_lines(out, s->annotations, indent, false);
}

static void add_name(struct buf *out, const struct store_spec *s, const char *api, const char *kind)
{
    buf_print(out, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", api, kind,
              scalar_text(out->arena, s->name));
    if (*s->namespace != '\0')
        buf_print(out, "  namespace: %s\n", scalar_text(out->arena, s->namespace));
}

static void add_pod_spec(struct buf *out, int indent, const struct store_spec *s, bool pod)
{
    struct buf container = {.arena = out->arena};

    add_lines(out, POD_START, indent, false);
    add_lines(out, s->pod_fields, indent, false);
    if (pod)
        buf_print(out, "%*srestartPolicy: Always\n", indent, "");
    buf_print(out, "%*scontainers:\n", indent, "");
    add_container(&container, s, false, false);
    add_lines(out, container.text, indent + 2, true);
    add_lines(out, VOLUMES, indent, false);
}

static void print_pod(struct buf *out, const struct store_spec *s)
{
    add_name(out, s, "v1", "Pod");
    add_labels(out, 4, s, s->own_pod_labels, s->pod_labels);
    add_label(out, 4, s->own_pod_labels, "rdzvd", s->instance);
    add_annotations(out, 4, s);
    buf_print(out, "spec:\n");
    add_pod_spec(out, 2, s, true);
}

void store_print(struct buf *out, const struct store_spec *s)
{
    const char *instance = scalar_text(out->arena, s->instance);

    if (strcmp(s->kind, "Pod") == 0) {
        print_pod(out, s);
        return;
    }
    add_name(out, s, "apps/v1", s->kind);
    add_labels(out, 4, s, s->own_labels, s->labels);
    buf_print(out, "spec:\n");
    if (strcmp(s->kind, "StatefulSet") == 0)
        buf_print(out, "  serviceName: %s\n  replicas: 1\n  updateStrategy:\n    type: OnDelete\n",
                  scalar_text(out->arena, s->service_name));
    else
        buf_print(out, "  replicas: 1\n  strategy:\n    type: Recreate\n");
    buf_print(out, "  selector:\n    matchLabels:\n      rdzvd: %s\n  template:\n    metadata:\n",
              instance);
    add_labels(out, 8, s, s->own_pod_labels, s->pod_labels);
    add_label(out, 8, s->own_pod_labels, "rdzvd", s->instance);
    add_annotations(out, 8, s);
    buf_print(out, "    spec:\n");
    add_pod_spec(out, 6, s, false);
}

static void add_service(struct buf *out, const struct store_spec *s)
{
    add_name(out, s, "v1", "Service");
    add_labels(out, 4, s, NULL, NULL);
    buf_print(out,
              "spec:\n"
              "  clusterIP: None\n"
              "  publishNotReadyAddresses: true\n"
              "  selector:\n"
              "    rdzvd: %s\n"
              "  ports:\n"
              "  - name: c10d\n"
              "    port: %u\n"
              "    targetPort: c10d\n"
              "  - name: etcd\n"
              "    port: %u\n"
              "    targetPort: etcd\n",
              scalar_text(out->arena, s->instance), s->c10d_port, s->etcd_port);
}

static void add_budget(struct buf *out, const struct store_spec *s)
{
    add_name(out, s, "policy/v1", "PodDisruptionBudget");
    add_labels(out, 4, s, NULL, NULL);
    buf_print(out, "spec:\n  maxUnavailable: 0\n  selector:\n    matchLabels:\n      rdzvd: %s\n",
              scalar_text(out->arena, s->instance));
}

static void add_policy(struct buf *out, const struct store_spec *s, const char *label,
                       const char *value)
{
    add_name(out, s, "networking.k8s.io/v1", "NetworkPolicy");
    add_labels(out, 4, s, NULL, NULL);
    buf_print(out,
              "spec:\n"
              "  podSelector:\n"
              "    matchLabels:\n"
              "      rdzvd: %s\n"
              "  policyTypes:\n"
              "  - Ingress\n"
              "  ingress:\n"
              "  - from:\n"
              "    - podSelector:\n"
              "        matchLabels:\n"
              "          %s: %s\n"
              "    ports:\n"
              "    - protocol: TCP\n"
              "      port: %u\n"
              "    - protocol: TCP\n"
              "      port: %u\n",
              scalar_text(out->arena, s->instance), label, scalar_text(out->arena, value),
              s->c10d_port, s->etcd_port);
}

void store_print_all(struct buf *out, const struct store_spec *s, const char *pod_label,
                     const char *pod_value)
{
    add_service(out, s);
    buf_print(out, "---\n");
    store_print(out, s);
    buf_print(out, "---\n");
    add_budget(out, s);
    if (pod_label != NULL) {
        buf_print(out, "---\n");
        add_policy(out, s, pod_label, pod_value);
    }
}

void store_print_sidecar(struct buf *out, const char *image, unsigned port, bool guaranteed)
{
    struct store_spec s = {
        .image = image, .etcd_name = "etcd", .c10d_port = port, .etcd_port = ETCD_PORT};

    add_container(out, &s, true, guaranteed);
}
