/* The second pass over the runs of a bundle: which of its pods, Services and stores the endpoint of
 * each leads to, and who meets where. */
#include "deploy/kube/job_parts.h"

#include <string.h>

/* --- Targets. --- */

/* The Service leads to a pod of the same object that is no store. */
static bool leads_to_training(const struct job_view *v, const struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object, *service = r->target.service;

    for (size_t i = 0; i < o->pods_count; i++) {
        const struct kube_pods *p = v->bundle->pods[o->first_pods + i];

        if (kube_same_namespace(o, service) && job_server_in(v, p) == NULL &&
            kube_selects(kube_get(service->spec, "selector"), p))
            return true;
    }
    return false;
}

/* The host is under the domain that only pods of this job have, though none of them has the name.
 */
static bool names_own_pod(const struct job_run *r)
{
    const struct kube_object *o = r->container->pods->object;
    const char *domain = r->container->pods->host_domain, *dot = strchr(r->host, '.');
    size_t len = strlen(domain);

    return (o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB) && dot != NULL && len > 0 &&
           r->container->pods->host_prefix != NULL && strncmp(dot + 1, domain, len) == 0 &&
           (dot[1 + len] == '\0' || dot[1 + len] == '.');
}

static void find_target(struct job_view *v, struct job_run *r)
{
    const struct job_setting *endpoint = &r->settings[TORCHRUN_RDZV_ENDPOINT];
    const char *written = endpoint->value.text;

    if (r->standalone)
        return;
    if (endpoint->from != JOB_FROM_NOWHERE && job_endpoint_is_computed(r)) {
        const char *vc = strstr(written, "VC_");

        r->hosted =
            (vc != NULL && strstr(vc, "_HOSTS") != NULL) || strstr(written, "MASTER_ADDR") != NULL;
        return;
    }
    if (r->local || *r->host == '\0')
        return;
    r->found = kube_find_host(v->bundle, r->container->pods->object, r->host, &r->target);
    if (!r->found) {
        r->hosted = r->misnamed = names_own_pod(r);
        return;
    }
    if (r->target.pods != NULL)
        r->hosted = r->target.pods->object == r->container->pods->object &&
                    job_server_in(v, r->target.pods) == NULL;
    else
        r->hosted = leads_to_training(v, r);
}

static const struct job_store *store_of(const struct job_view *v, const struct job_run *r)
{
    if (job_run_object(r)->type == KUBE_CONFIG_MAP && !r->found)
        return NULL; /* it is not known whose pods run the script */
    if (r->local)
        return job_store_in(v, r->container->pods);
    if (!r->found)
        return NULL;
    return r->target.pods != NULL ? job_server_in(v, r->target.pods)
                                  : job_server_behind(v, r->target.service);
}

/* --- Masters. --- */

/* So many places of one object are remembered; the jobs that people write have one. */
#define PLACES_MAX 8

/* Runs of one object, one for each place at which they meet. */
struct job_places {
    const struct job_run *list[PLACES_MAX];
    size_t count;
};

static void add_place(struct job_places *places, const struct job_run *r)
{
    for (size_t i = 0; i < places->count; i++) {
        const struct kube_target *t = &places->list[i]->target;

        if (t->pods == r->target.pods && t->service == r->target.service &&
            places->list[i]->port == r->port)
            return;
    }
    if (places->count < PLACES_MAX)
        places->list[places->count++] = r;
}

/* Whether the run names its own pod in a way that other pods cannot use. */
static bool may_be_master(const struct job_run *r)
{
    return (r->local || r->own_name) && r->store == NULL && !r->standalone && job_is_multi_node(r);
}

/* Whether the endpoint of `hosted` leads to these pods, as far as it is known. */
static bool may_lead_to(const struct job_run *hosted, const struct kube_pods *p)
{
    const struct kube_target *t = &hosted->target;

    if (t->pods != NULL)
        return t->pods == p;
    return t->service == NULL || kube_selects(kube_get(t->service->spec, "selector"), p);
}

static bool may_meet_anywhere(const struct job_run *r)
{
    return job_endpoint_is_computed(r) && !r->found && !r->own_name;
}

static bool is_master(const struct job_run *r, const struct job_places *places)
{
    for (size_t i = 0; i < places->count; i++) {
        if (places->list[i]->port == r->port && may_lead_to(places->list[i], r->container->pods))
            return true;
    }
    return false;
}

/* A run whose endpoint is its own pod, as localhost or by its host name, while other runs of its
 * object find that pod by another name, on the same port: both are the same store. */
static void find_masters(struct job_view *v)
{
    for (size_t i = 0, end; i < v->count; i = end) {
        struct job_places hosted = {0}, unknown = {0};

        for (end = i; end < v->count && job_run_object(v->runs[end]) == job_run_object(v->runs[i]);
             end++) {
            if (v->runs[end]->hosted)
                add_place(&hosted, v->runs[end]);
            else if (may_meet_anywhere(v->runs[end]))
                add_place(&unknown, v->runs[end]);
        }
        for (size_t k = i; k < end && hosted.count + unknown.count > 0; k++) {
            if (!may_be_master(v->runs[k]))
                continue;
            v->runs[k]->hosted = is_master(v->runs[k], &hosted);
            v->runs[k]->maybe_hosted = is_master(v->runs[k], &unknown);
        }
    }
}

/* --- The runs of pods, of objects and of stores. --- */

/* The runs of each of the pods are adjacent. */
static void group_by_pods(struct job_view *v)
{
    v->of_pods = arena_alloc(&v->bundle->arena, (v->bundle->pod_count + 1) * sizeof *v->of_pods);
    for (size_t i = 0; i < v->count; i++) {
        struct job_view_runs *group = &v->of_pods[v->runs[i]->container->pods->index];

        if (group->count++ == 0)
            group->list = &v->runs[i];
    }
}

static void group_by_store(struct job_view *v)
{
    struct arena *a = &v->bundle->arena;

    v->of_store = arena_alloc(a, (v->store_count + 1) * sizeof *v->of_store);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < v->count; i++) {
            const struct job_store *s = v->runs[i]->store;

            if (s == NULL)
                continue;
            if (pass == 1)
                v->of_store[s - v->stores].list[v->of_store[s - v->stores].count] = v->runs[i];
            v->of_store[s - v->stores].count++;
        }
        for (size_t i = 0; i < v->store_count && pass == 0; i++) {
            v->of_store[i].list = arena_alloc(a, (v->of_store[i].count + 1) * sizeof(void *));
            v->of_store[i].count = 0;
        }
    }
}

struct job_view_runs job_runs_in(const struct job_view *v, const struct kube_pods *p)
{
    return v->of_pods[p->index];
}

struct job_view_runs job_runs_of(const struct job_view *v, const struct kube_object *o)
{
    struct job_view_runs out = {0};

    for (size_t i = 0; i < o->pods_count; i++) {
        const struct job_view_runs *group = &v->of_pods[o->first_pods + i];

        if (out.count == 0)
            out.list = group->list;
        out.count += group->count;
    }
    return out;
}

struct job_view_runs job_runs_at(const struct job_view *v, const struct job_store *s)
{
    return v->of_store[s - v->stores];
}

void job_link(struct job_view *v)
{
    for (size_t i = 0; i < v->all_count; i++) {
        find_target(v, v->runs[i]);
        v->runs[i]->store = store_of(v, v->runs[i]);
    }
    find_masters(v);
    group_by_pods(v);
    group_by_store(v);
}
