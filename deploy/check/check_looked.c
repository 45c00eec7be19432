/* Says what check did not look at. See check_looked.h for the contract. */
#include "deploy/check/check_looked.h"

#include "deploy/kube/kube_view.h"

#include <string.h>

#define KINDS_MAX 8

/* Kinds without pods, of which no rule needs to know. */
static bool has_no_pods(const char *kind)
{
    static const char *const kinds[] = {"PersistentVolume",
                                        "StorageClass",
                                        "Secret",
                                        "ServiceAccount",
                                        "Role",
                                        "RoleBinding",
                                        "ClusterRole",
                                        "ClusterRoleBinding",
                                        "Certificate",
                                        "ServiceMonitor",
                                        "Ingress",
                                        "Queue",
                                        "PodDisruptionBudget",
                                        "PriorityClass",
                                        "ResourceQuota",
                                        "LimitRange",
                                        "PodGroup",
                                        "LocalQueue",
                                        "ClusterQueue",
                                        "ResourceFlavor",
                                        "Endpoints",
                                        "EndpointSlice",
                                        "WorkloadPriorityClass",
                                        "CustomResourceDefinition",
                                        "HorizontalPodAutoscaler"};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i], kind) == 0)
            return true;
    }
    return false;
}

/* An object of another kind, in which neither pods nor templates of known kinds were found. */
static bool is_unknown(const struct check *c, const struct kube_object *o)
{
    bool has_template =
        o->index + 1 < c->bundle.count && c->bundle.objects[o->index + 1]->wrapper == o;

    return o->type == KUBE_OTHER && o->pods_count == 0 && !has_template && !has_no_pods(o->kind);
}

static void print_unknown(FILE *out, const struct check *c)
{
    const char *kinds[KINDS_MAX];
    size_t count = 0, unknown = 0, k;

    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (!is_unknown(c, o))
            continue;
        unknown++;
        for (k = 0; k < count && strcmp(kinds[k], o->kind) != 0; k++)
            ;
        if (k == count && count < KINDS_MAX)
            kinds[count++] = o->kind;
    }
    if (unknown == 0)
        return;
    fprintf(out, "rdzv-manifest: looked at %zu object%s; %zu of unknown kinds: ", c->bundle.count,
            c->bundle.count == 1 ? "" : "s", unknown);
    for (k = 0; k < count; k++) {
        fputs(k == 0 ? "" : ", ", out);
        diag_put(out, *kinds[k] == '\0' ? "(no kind)" : kinds[k]);
    }
    fputs(count == KINDS_MAX ? ", ...\n" : "\n", out);
}

void check_print_looked(FILE *out, const struct check *c)
{
    print_unknown(out, c);
    for (size_t i = 0; i < c->file_count; i++) {
        const struct yaml_node *n = kube_find_placeholder(&c->files[i]);

        if (n == NULL)
            continue;
        diag_put(out, c->files[i].name);
        fprintf(out, ":%u:%u: note: a template (", n->start.line, n->start.column);
        diag_put(out, n->text);
        fprintf(out, "): its placeholders count as unknown; %s first to have them judged\n",
                strstr(n->text, "{{") != NULL ? "render it" : "run envsubst");
    }
}
