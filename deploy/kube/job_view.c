/* Finds which of the pods, Services and stores of the bundle the endpoint of each run leads to, and
 * who meets where; and prints all that as JSON. job_script.c finds the runs. */
#include "deploy/kube/job_view.h"

#include "deploy/kube/job_parts.h"

#include <stdlib.h>
#include <string.h>

/* --- Targets. --- */

/* The Service leads to a pod of the same object that is no store; *all: to several. */
static bool leads_to_training(const struct job_view *v, const struct job_run *r, bool *all)
{
    const struct kube_object *o = r->container->pods->object, *service = r->target.service;
    const struct yaml_node *selector = kube_get(service->spec, "selector");
    size_t found = 0;

    KUBE_FOREACH_PODS_OF(p, v->bundle, o) {
        if (!kube_same_namespace(o, service) || job_server_in(v, p) != NULL ||
            !kube_selects(selector, p))
            continue;
        found++;
        /* One, if the selector names a label that each pod has with a value of its own. */
        *all = *all || found > 1 ||
               (p->replicas != 1 &&
                !ANY(FOREACH(const struct kube_label, l, p->labels, p->label_count),
                     l->value == NULL && yaml_get(selector, l->key) != NULL));
    }
    return found > 0;
}

/* The pods have no number such as that in the host's name: `train-2.train` of two pods. */
static bool is_beyond(const struct kube_pods *p, const char *host)
{
    size_t len = p->host_prefix == NULL ? 0 : strlen(p->host_prefix);
    long first = kube_int(p->object->spec, "ordinals.start", 0), index, count = p->replicas;

    if (p->object->type == KUBE_JOBSET)
        count /= kube_int(p->part, "replicas", 1) > 0 ? kube_int(p->part, "replicas", 1) : 1;
    if (len == 0 || p->host_prefix[len - 1] != '-' || p->object->type == KUBE_LEADER_WORKER)
        return false;
    index = strtol(host + len, NULL, 10);
    return count > 0 && (index < first || index >= first + count);
}

/* The first of these pods, by its name in DNS. */
static const char *first_name(struct arena *a, const struct kube_pods *p)
{
    return arena_text(a, "%s%ld%s%s", p->host_prefix,
                      kube_int(p->object->spec, "ordinals.start", 0),
                      *p->host_domain == '\0' ? "" : ".", p->host_domain);
}

/* The host looks like the name of one of the pods that it leads to. Returns NULL if it is a pod's
 * name, or the reason why not: a pod has a name only below a headless Service that selects it. The
 * Service of a store's own pods may be in other files. */
static const char *why_misnamed(const struct job_view *v, const struct job_run *r)
{
    struct arena *a = &v->bundle->arena;
    const struct kube_pods *p = r->target.pods;
    const struct kube_object *o = p->object;
    bool expected = r->hosted, jobset = o->type == KUBE_JOBSET, dns = true;
    const struct yaml_node *spec = jobset ? kube_get(p->part, "template.spec") : o->spec;

    if (kube_is_template(o) || o->templated)
        return NULL;
    if (is_beyond(p, r->host))
        return arena_text(a, "it has no pod of this number, and its first one is %s",
                          first_name(a, p));
    yaml_to_bool(kube_get(o->spec, "network.enableDNSHostnames"), &dns);
    if (jobset && !dns && kube_get(p->spec, "subdomain") == NULL)
        return "its pods have names in DNS only with network.enableDNSHostnames: true";
    if (jobset ? kube_is(spec, "completionMode", "NonIndexed")
               : o->type == KUBE_JOB && !kube_is(spec, "completionMode", "Indexed"))
        return "the pods of a Job have names with a number only with completionMode: Indexed";
    if (o->type != KUBE_JOB && o->type != KUBE_STATEFULSET)
        return NULL;
    KUBE_FOREACH_HIT(hit, kube_index_find(&v->bundle->services, KUBE_ANYWHERE, p->host_domain)) {
        const struct kube_object *s = v->bundle->objects[*hit.list];

        if (!kube_same_namespace(s, o))
            continue;
        if (kube_is_headless(s) && (s->templated || kube_selects(kube_get(s->spec, "selector"), p)))
            return NULL;
        expected = true;
    }
    return !expected ? NULL
                     : arena_text(a,
                                  "its pods have names only behind a headless Service `%s` that "
                                  "selects them, which these files do not have",
                                  p->host_domain);
}

/* Whether the host, which no file defines, can only be meant as one of these pods, whose names
 * begin so. */
static bool is_meant(struct job_view *v, const struct kube_pods *p, const char *prefix,
                     const char *host)
{
    struct arena *a = &v->bundle->arena;
    const struct kube_object *o = p->object;
    const char *end = host + strcspn(host, "."), *role = prefix + strlen(o->name) + 1;
    size_t len = strlen(p->host_domain);
    bool below = *end == '.' && len > 0 && strncmp(end + 1, p->host_domain, len) == 0 &&
                 strchr(".", end[1 + len]) != NULL;
    struct nearest near = nearest_to(arena_copy(a, host, (size_t)(end - host)));

    if (below &&
        (o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB || o->type == KUBE_TRAINJOB))
        return true;
    if (*o->name == '\0')
        prefix = arena_text(a, "%s%s", kube_text(o->node, "metadata.generateName"), role);
    FOREACH_WORD(start, role, job_server_in(v, p) == NULL ? prefix : "") {
        const char *index = host + strlen(start);

        if (*start != '\0' && text_begins(host, start) && index < end &&
            index + strspn(index, "0123456789") == end)
            return true;
    }
    nearest_try(&near, arena_text(a, "%s0", prefix));
    return near.found != NULL && end > host && end[-1] >= '0' && end[-1] <= '9' &&
           p->host_prefix != NULL && (len == 0 ? *end == '\0' : below) &&
           job_server_in(v, p) == NULL;
}

/* Why a host that no file defines can only be meant as a pod of the same job; NULL: it may be
 * something else. */
static const char *why_own_pod(struct job_view *v, const struct job_run *r)
{
    struct arena *a = &v->bundle->arena;
    const struct kube_object *o = r->container->pods->object;

    KUBE_FOREACH_PODS_OF(p, v->bundle, o) {
        const char *prefix = p->host_prefix != NULL ? p->host_prefix
                             : o->type == KUBE_JOB  ? arena_text(a, "%s-", o->name)
                                                    : NULL;

        if (prefix == NULL || o->type == KUBE_POD || !is_meant(v, p, prefix, r->host))
            continue;
        return *o->name == '\0'         ? "generateName gives its pods other names in each run"
               : p->host_prefix == NULL ? "its pods have names only with a `subdomain`"
                                        : arena_text(a, "its first one is %s", first_name(a, p));
    }
    return NULL;
}

/* The endpoint is computed from the name of a pod of this job: by a plugin of Volcano, which also
 * writes files, an operator, LeaderWorkerSet or JobSet. */
static bool is_computed_of_job(const struct job_run *r)
{
    const struct job_value *endpoint = &r->settings[TORCHRUN_RDZV_ENDPOINT].value;
    enum kube_type type = job_run_object(r)->type;
    const char *vc = strstr(endpoint->text, "VC_");

    return (vc != NULL && strstr(vc, "_HOSTS") != NULL) ||
           (type == KUBE_VOLCANO_JOB && strstr(endpoint->text, "/etc/volcano/") != NULL) ||
           (type == KUBE_LEADER_WORKER && strstr(endpoint->text, "LWS_LEADER_ADDRESS") != NULL) ||
           strstr(endpoint->text, "MASTER_ADDR") != NULL ||
           ANY(FOREACH_POINTER(const char, field, endpoint->fields, endpoint->field_count),
               text_has(field, "jobset.sigs.k8s.io/coordinator",
                        "leaderworkerset.sigs.k8s.io/leader-name"));
}

static void find_target(struct job_view *v, struct job_run *r)
{
    const struct job_setting *endpoint = &r->settings[TORCHRUN_RDZV_ENDPOINT];

    if (r->standalone)
        return;
    if (endpoint->from != JOB_FROM_NOWHERE && job_endpoint_is_computed(r)) {
        r->hosted = is_computed_of_job(r);
        return;
    }
    if (r->local || *r->host == '\0')
        return;
    r->found = kube_find_host(v->bundle, r->container->pods->object, r->host, &r->target);
    if (!r->found) {
        r->misnamed = why_own_pod(v, r);
        r->hosted = r->misnamed != NULL;
        return;
    }
    if (r->target.pods != NULL)
        r->hosted = r->target.pods->object == r->container->pods->object &&
                    job_server_in(v, r->target.pods) == NULL;
    else
        r->hosted = leads_to_training(v, r, &r->of_all);
    if (r->target.pods != NULL)
        r->misnamed = why_misnamed(v, r);
    if (r->of_all && strcspn(r->host, ".") != strlen(r->target.service->name))
        r->misnamed = arena_text(&v->bundle->arena, "its pods have names only with `subdomain: %s`",
                                 r->target.service->name);
    r->of_all = r->of_all && r->misnamed == NULL;
}

static const struct job_store *store_of(const struct job_view *v, const struct job_run *r)
{
    if (job_run_object(r)->type == KUBE_CONFIG_MAP && !r->found)
        return NULL; /* it is not known whose pods run the script */
    if (r->local)
        return job_store_in(v, r->container->pods);
    return r->found ? job_server_at(v, &r->target) : NULL;
}

/* --- Masters. --- */

/* So many places of one object are remembered; the jobs that people write have one. */
#define PLACES_MAX 8

/* The runs of one object with different meeting places. */
struct job_places {
    const struct job_run *list[PLACES_MAX];
    size_t count;
};

static void add_place(struct job_places *places, const struct job_run *r)
{
    bool known = ANY(FOREACH_POINTER(const struct job_run, p, places->list, places->count),
                     p->target.pods == r->target.pods && p->port == r->port &&
                         p->target.service == r->target.service);

    if (!known && places->count < PLACES_MAX)
        places->list[places->count++] = r;
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
    return ANY(FOREACH_POINTER(const struct job_run, place, places->list, places->count),
               place->port == r->port && may_lead_to(place, r->container->pods));
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
            struct job_run *r = v->runs[k];

            if (!(r->local || r->own_name) || r->store != NULL || r->standalone ||
                !job_is_multi_node(r))
                continue;
            r->hosted = is_master(r, &hosted);
            r->maybe_hosted = is_master(r, &unknown);
        }
    }
}

const char *job_unread(const struct job_run *r)
{
    if (r->unread != NULL)
        return r->unread->text;
    if (job_is_dynamic(r) && job_is_multi_node(r) && may_meet_anywhere(r) && !r->hosted &&
        !r->maybe_hosted)
        return job_text(r, TORCHRUN_RDZV_ENDPOINT);
    if (strcmp(r->backend, "static") == 0 && !r->standalone && job_is_multi_node(r) &&
        *r->host == '\0' && job_is_set(r, TORCHRUN_MASTER_ADDR))
        return job_text(r, TORCHRUN_MASTER_ADDR);
    return NULL;
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
    size_t *caps = arena_alloc(a, (v->store_count + 1) * sizeof *caps);

    for (size_t i = 0; i < v->count; i++) {
        const struct job_store *s = v->runs[i]->store;
        struct job_view_runs *group;

        if (s == NULL)
            continue;
        group = &v->stores[s - v->stores].runs;
        arena_push(a, group->list, group->count, caps[s - v->stores]) = v->runs[i];
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

long job_training_pods(const struct job_view *v, const struct kube_object *o)
{
    long sum = 0;

    KUBE_FOREACH_PODS_OF(p, v->bundle, o) {
        if (job_runs_in(v, p).count > 0 && sum >= 0)
            sum = p->replicas < 0 ? -1 : sum + p->replicas;
    }
    return sum;
}

long job_groups(const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;

    if (p->object->type == KUBE_LEADER_WORKER)
        return kube_int(p->object->spec, "replicas", 1);
    if (p->object->type == KUBE_JOBSET && r->nodes_max > 0 && r->nodes_max < p->replicas)
        return kube_int(p->part, "replicas", 1);
    return 1;
}

const char *job_id(const struct job_run *r)
{
    return job_is_set(r, TORCHRUN_RDZV_ID) ? job_text(r, TORCHRUN_RDZV_ID) : "none";
}

/* The value of the setting, or the id that torch sets by itself; NULL: it is unknown. */
static const char *known_value(const struct job_run *r, enum torchrun_option option)
{
    if (option == TORCHRUN_RDZV_ID && !job_is_set(r, option))
        return r->args == NULL || r->args->opaque || r->unread != NULL ? NULL : job_id(r);
    return r->settings[option].value.known ? job_text(r, option) : NULL;
}

const struct job_run *job_parted_from(const struct job_view *v, const struct job_run *r)
{
    static const enum torchrun_option options[] = {TORCHRUN_RDZV_ID, TORCHRUN_RDZV_ENDPOINT};
    struct job_view_runs runs = job_runs_of(v, job_run_object(r));

    for (size_t i = 0; i < runs.count && runs.list[i] != r && job_is_dynamic(r); i++) {
        const struct job_run *other = runs.list[i];
        bool needs = r->container->pods->replicas > 0 && other->container->pods->replicas > 0 &&
                     r->nodes_min > r->container->pods->replicas &&
                     other->nodes_min > other->container->pods->replicas;
        bool differs = false;

        for (size_t k = 0; k < 2; k++) {
            const char *a = known_value(r, options[k]), *b = known_value(other, options[k]);

            differs = differs || (a != NULL && b != NULL && strcmp(a, b) != 0);
        }
        if (needs && differs && strcmp(r->host, other->host) == 0 && *r->host != '\0')
            return other;
    }
    return NULL;
}

/* --- All of it. --- */

void job_find(struct job_view *v, struct kube_bundle *bundle)
{
    struct job_upstream u;

    *v = (struct job_view){.bundle = bundle};
    kube_find_pods(bundle);
    job_find_stores(v);
    KUBE_FOREACH_PODS(p, bundle) {
        KUBE_FOREACH_CONTAINER(c, p) {
            if (job_store_kind(&bundle->arena, c) == JOB_STORE_NONE)
                job_find_runs(v, c);
        }
    }
    v->count = v->all_count;
    KUBE_FOREACH(o, bundle) {
        if (o->type == KUBE_CONFIG_MAP)
            job_find_scripts(v, o);
    }
    for (size_t i = 0; i < v->all_count; i++) {
        find_target(v, v->runs[i]);
        v->runs[i]->store = store_of(v, v->runs[i]);
    }
    find_masters(v);
    group_by_pods(v);
    group_by_store(v);
    FOREACH(struct job_store, s, v->stores, v->store_count) {
        for (size_t n = 0; s->behind == NULL && job_relay_upstream(v, s, n, &u); n++)
            s->behind = u.store;
    }
}

/* --- The view of a bundle as JSON. --- */

static void show_number(struct arena *a, struct yaml_node *mapping, const char *key, long number)
{
    if (number >= 0)
        yaml_put_number(a, mapping, key, number);
}

static void show_object(struct arena *a, struct yaml_node *mapping, const struct kube_object *o)
{
    YAML_PUT_FILLED(a, mapping, {"kind", o->kind}, {"name", o->name}, {"namespace", o->namespace});
}

const char *const job_store_names[] = {[JOB_STORE_NONE] = "",
                                       [JOB_STORE_RDZVD] = "rdzvd",
                                       [JOB_STORE_RELAY] = "relay",
                                       [JOB_STORE_ETCD] = "etcd"};

static void show_run(struct arena *a, struct yaml_node *out, const struct job_run *r)
{
    static const char *const reaches[] = {[KUBE_REACHED] = NULL,
                                          [KUBE_UNDECIDED] = "if the namespaces are one",
                                          [KUBE_ELSEWHERE] = "not from this namespace"};
    const struct kube_target *t = &r->target;
    struct yaml_node *to;

    show_object(a, out, job_run_object(r));
    YAML_PUT_FILLED(a, out, {"role", r->container->pods->role}, {"container", r->container->name},
                    {"backend", r->standalone ? "standalone" : r->backend},
                    {"endpoint", job_text(r, TORCHRUN_RDZV_ENDPOINT)}, {"host", r->host});
    show_number(a, out, "port", r->port);
    YAML_PUT_FILLED(a, out, {"id", job_text(r, TORCHRUN_RDZV_ID)},
                    {"conf", job_text(r, TORCHRUN_RDZV_CONF)});
    show_number(a, out, "nodesMin", r->nodes_min);
    show_number(a, out, "nodesMax", r->nodes_max);
    if (r->found) {
        to = yaml_put_new(a, out, "leadsTo", YAML_MAPPING);
        show_object(a, to, t->service != NULL ? t->service : t->pods->object);
        YAML_PUT_FILLED(a, to, {"reached", reaches[t->reach]});
    }
    if (r->store != NULL)
        YAML_PUT_FILLED(a, out, {"store", job_store_names[r->store->kind]});
    else if (r->hosted)
        YAML_PUT_FILLED(a, out, {"store", "a training pod"});
}

static void show_store(struct job_view *v, struct yaml_node *out, const struct job_store *s)
{
    struct arena *a = &v->bundle->arena;
    struct yaml_node *ports;
    struct job_upstream u;
    struct job_setting space;
    struct job_listeners l = job_store_listeners(v, s, false);

    show_object(a, out, s->container->pods->object);
    YAML_PUT_FILLED(a, out, {"container", s->container->name}, {"store", job_store_names[s->kind]});
    ports = yaml_put_new(a, out, "ports", YAML_SEQUENCE);
    for (size_t i = 0; i < l.count; i++)
        yaml_append(a, ports, yaml_new_number(a, l.list[i].port));
    if (!job_relay_upstream(v, s, 0, &u))
        return;
    job_relay_space(v, s, &space);
    YAML_PUT_FILLED(a, out, {"upstream", u.setting.value.text}, {"space", space.value.text});
    if (job_store_behind(s) != NULL)
        YAML_PUT_FILLED(a, out, {"leadsTo", job_store_behind(s)->container->pods->object->name});
}

void job_show(FILE *out, struct job_view *v)
{
    struct arena *a = &v->bundle->arena;
    struct yaml_node *all = yaml_new(a, YAML_MAPPING);
    struct yaml_node *jobs = yaml_put_new(a, all, "jobs", YAML_SEQUENCE);
    struct yaml_node *stores = yaml_put_new(a, all, "stores", YAML_SEQUENCE);

    for (size_t i = 0; i < v->all_count; i++)
        show_run(a, yaml_put_new(a, jobs, NULL, YAML_MAPPING), v->runs[i]);
    for (size_t i = 0; i < v->store_count; i++)
        show_store(v, yaml_put_new(a, stores, NULL, YAML_MAPPING), &v->stores[i]);
    fprintf(out, "%s\n", yaml_write_json(a, all, "\t"));
}
