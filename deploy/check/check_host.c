/* A rule about hosts that have no address. A name that is not in the files may be one of the
 * cluster; the rule speaks of those that are near enough to something here. */
#include "deploy/check/check.h"

#include "deploy/yaml/diag.h"

#include <string.h>

/* Where the files have more stores that no job uses, the rule does not guess which one a name
 * means. */
#define UNUSED_MAX 32

struct unused_stores {
    const struct kube_object *list[UNUSED_MAX];
    size_t count;
};

/* The Services of stores, of the jobs that meet in no store of these files. */
static void find_unused(struct check *c, struct unused_stores *u)
{
    for (size_t i = 0; i < c->bundle.count && u->count <= UNUSED_MAX; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (o->type != KUBE_SERVICE || *o->name == '\0' || check_is_endpoint(c, o) ||
            job_server_behind(&c->jobs, o) == NULL)
            continue;
        if (u->count < UNUSED_MAX)
            u->list[u->count] = o;
        u->count++;
    }
}

/* The Service that the host was probably meant to be, by the part before the first dot. */
static const struct kube_object *service_near(struct check *c, const struct unused_stores *u,
                                              const struct job_run *r)
{
    const char *label = arena_copy(&c->bundle.arena, r->host, strcspn(r->host, "."));
    const struct kube_object *found = NULL;
    struct nearest near = nearest_to(label);

    for (size_t i = 0; i < u->count && u->count <= UNUSED_MAX; i++) {
        const char *before = near.found;

        if (!kube_same_namespace(u->list[i], job_run_object(r)))
            continue;
        nearest_try(&near, u->list[i]->name);
        if (near.found != before)
            found = u->list[i];
    }
    return found;
}

/* --- Pods by their name. --- */

/* Kinds that give their pods names, and no addresses for these names alone. */
static bool has_named_pods(const struct kube_object *o)
{
    return o->type == KUBE_STATEFULSET || o->type == KUBE_JOB || o->type == KUBE_JOBSET ||
           o->type == KUBE_VOLCANO_JOB || o->type == KUBE_POD;
}

static const struct kube_pods *pod_of(struct check *c, const struct kube_object *from,
                                      const char *kind, enum kube_type type, const char *name,
                                      size_t len)
{
    struct kube_hits hits = kube_index_find(&c->bundle.named, kind, name, len);

    for (size_t i = 0; i < hits.count; i++) {
        const struct kube_object *o = c->bundle.objects[hits.list[i]];

        if (o->type == type && kube_same_namespace(o, from) && o->pods_count > 0)
            return c->bundle.pods[o->first_pods];
    }
    return NULL;
}

/* The pods of which one has this name: that of a Pod, or that of an object and an index. */
static const struct kube_pods *pod_named(struct check *c, const struct kube_object *from,
                                         const char *name, size_t len)
{
    const char *scope = arena_text(&c->bundle.arena, "%s.", from->namespace);
    const struct kube_pods *p = pod_of(c, from, "Pod", KUBE_POD, name, len);
    size_t prefix = len;
    struct kube_hits hits;

    while (prefix > 0 && name[prefix - 1] >= '0' && name[prefix - 1] <= '9')
        prefix--;
    if (p != NULL || prefix == len || prefix < 2 || name[prefix - 1] != '-')
        return p;
    hits = kube_index_find(&c->bundle.hosts, scope, name, prefix);
    for (size_t i = 0; i < hits.count; i++) {
        if (has_named_pods(c->bundle.pods[hits.list[i]]->object))
            return c->bundle.pods[hits.list[i]];
    }
    return pod_of(c, from, "Job", KUBE_JOB, name, prefix - 1);
}

/* Behind a dot only the pods of the job itself are sure to be meant. */
static const struct kube_pods *pod_meant(struct check *c, const struct job_run *r)
{
    size_t len = strcspn(r->host, ".");
    const struct kube_pods *p = pod_named(c, job_run_object(r), r->host, len);

    return p != NULL && r->host[len] == '.' && p->object != job_run_object(r) ? NULL : p;
}

/* --- The rule. --- */

/* The name, as the cluster's DNS is asked for it, is in no file, and no file says what else may
 * know it. */
static bool is_unknown(const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;

    return job_is_dynamic(r) && job_is_multi_node(r) && !r->found && !r->local && !r->own_name &&
           !r->misnamed && *r->host != '\0' && strpbrk(r->host, "$`{[/,") == NULL &&
           r->host[strspn(r->host, "0123456789.")] != '\0' && !p->object->templated &&
           kube_get(p->spec, "hostAliases") == NULL && kube_get(p->spec, "dnsConfig") == NULL;
}

static void report_pod(struct check *c, const struct job_run *r, const struct kube_pods *p)
{
    bool named = p->host_prefix != NULL && *p->host_domain != '\0';
    int len = (int)strcspn(r->host, ".");

    check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                 "%s is no name of a Service%s%.*s%s%s", r->host,
                 named ? "; the pod has the address " : ", and a pod has no address by its name",
                 named ? len : 0, r->host, named ? "." : "", named ? p->host_domain : "");
}

void check_endpoint_unknown(struct check *c)
{
    struct unused_stores unused = {0};

    find_unused(c, &unused);
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        const struct kube_pods *p = is_unknown(r) ? pod_meant(c, r) : NULL;
        const struct kube_object *near =
            is_unknown(r) && p == NULL ? service_near(c, &unused, r) : NULL;

        if (p != NULL)
            report_pod(c, r, p);
        if (near != NULL)
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "nothing in these files has the name %s; did you mean Service %s, which "
                         "leads to a store that no job uses?",
                         r->host, near->name);
    }
}
