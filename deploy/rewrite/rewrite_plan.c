/* Which job goes which way, and what has to stand beside it. */
#include "deploy/rewrite/rewrite_plan.h"

#include "deploy/rewrite/rewrite_job.h"
#include "deploy/rewrite/rewrite_store.h"

#include <string.h>

/* --- From an etcd. --- */

struct names {
    struct object **list;
    size_t count, cap;
};

static void add_name(struct bundle *b, struct names *n, struct object *service)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->list[i] == service)
            return;
    }
    if (n->count == n->cap) {
        size_t cap = n->cap == 0 ? 8 : n->cap * 2;

        n->list = arena_grow(&b->arena, n->list, n->cap * sizeof service, cap * sizeof service);
        n->cap = cap;
    }
    n->list[n->count++] = service;
}

/* The Services of the etcd that the job names; whether there are any. */
static bool find_names(struct bundle *b, const struct rewrite_job *j, const struct etcd *e,
                       struct names *out)
{
    struct object *s = job_policy_service(j, e);
    bool found = s != NULL;

    if (s != NULL)
        add_name(b, out, s);
    for (size_t i = 0; i < j->count; i++) {
        const struct wiring *w = &j->wirings[i];

        for (size_t k = 0; k < w->count; k++) {
            if (w->list[k].field != RDZV_REF_ENDPOINT)
                continue;
            s = job_service_of(b, j, w, &w->list[k], e);
            if (s != NULL)
                add_name(b, out, s);
            found = found || s != NULL;
        }
    }
    return found;
}

/* An etcd backend at an endpoint that cannot be followed goes on working: rdzvd speaks etcd v2. */
static void note_unknown_endpoint(struct bundle *b, const struct rewrite_job *j)
{
    for (size_t i = 0; i < j->count; i++) {
        const struct wiring *w = &j->wirings[i];

        for (size_t k = 0; k < w->count; k++) {
            const char *value = wiring_expand(b, w, w->list[k].value);

            if (w->list[k].field == RDZV_REF_BACKEND && strncmp(value, "etcd", 4) == 0)
                bundle_note(b, j->object->node,
                            "%s meets over %s at an endpoint that leads to nothing in these files: "
                            "it stays as it is",
                            object_title(b, j->object), value);
        }
    }
}

size_t move_from_etcd(struct bundle *b, const struct etcd *e, bool c10d, struct object ***services,
                      size_t *service_count)
{
    struct names names = {0};
    size_t found = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct object *o = b->objects[i];
        bool script = false;
        struct rewrite_job j;

        if (o == e->object)
            continue;
        if (!job_read(b, o, &j) && !(script = job_read_scripts(b, o, &j)))
            continue;
        if (!find_names(b, &j, e, &names)) {
            note_unknown_endpoint(b, &j);
            continue;
        }
        found++;
        bundle_note(b, o->node, "%s meets at this etcd: %s", object_title(b, o),
                    c10d ? "it moves to c10d" : "it stays on etcd-v2, and as it is");
        if (c10d)
            job_move(b, &j, e, NULL, e->ports[0]);
        if (!script)
            job_note_known_faults(b, &j, c10d, e->ports[0]);
    }
    *services = names.list;
    *service_count = names.count;
    return found;
}

/* --- From worker 0. --- */

/* The label that the pods of a job bear, with the job's name as its value. */
static const char *pod_label(const struct object *o)
{
    static const struct {
        const char *group, *kind, *label;
    } labels[] = {
        {"batch.volcano.sh/", "Job", "volcano.sh/job-name"},
        {"kubeflow.org/", "PyTorchJob", "training.kubeflow.org/job-name"},
        {"jobset.x-k8s.io/", "JobSet", "jobset.sigs.k8s.io/jobset-name"},
        {"trainer.kubeflow.org/", "TrainJob", "jobset.sigs.k8s.io/jobset-name"},
        {"batch/", "Job", "batch.kubernetes.io/job-name"},
    };
    const char *api = yaml_text(yaml_get(o->node, "apiVersion"));

    for (size_t i = 0; api != NULL && i < sizeof labels / sizeof *labels; i++) {
        if (strncmp(api, labels[i].group, strlen(labels[i].group)) == 0 &&
            strcmp(o->kind, labels[i].kind) == 0)
            return labels[i].label;
    }
    return NULL;
}

static bool is_on_host_network(const struct rewrite_job *j)
{
    for (size_t i = 0; i < j->pods.count; i++) {
        bool on = false;

        if (yaml_to_bool(yaml_get(j->pods.list[i], "hostNetwork"), &on) && on)
            return true;
    }
    return false;
}

/* Documents in front of what holds the object; items in front of it in a List. */
static void put_in_front(struct bundle *b, struct object *o, const char *documents)
{
    while (o->wrapper != NULL)
        o = o->wrapper;
    if (o->list == NULL) {
        edit_add_documents(b, o->file, o->doc, documents);
        return;
    }
    for (const char *at = documents, *end; *at != '\0'; at = end) {
        const char *mark = strstr(at, "\n---\n");

        end = mark == NULL ? at + strlen(at) : mark + 5;
        edit_add_item_before(
            b, o->file, o->list, o->index,
            arena_copy(&b->arena, at, mark == NULL ? strlen(at) : (size_t)(mark + 1 - at)));
    }
}

static bool is_taken(struct bundle *b, const struct object *job, const char *name)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct object *o = b->objects[i];

        if (strcmp(o->kind, "Service") == 0 && strcmp(o->name, name) == 0 &&
            bundle_same_namespace(o->namespace, job->namespace)) {
            bundle_error(b, o->node,
                         "the store of %s is to be named %s, and here is a Service of that name: "
                         "rename it",
                         object_title(b, job), name);
            return true;
        }
    }
    return false;
}

static void give_store(struct bundle *b, struct rewrite_job *j)
{
    struct object *o = j->object;
    const char *name = arena_text(&b->arena, "%s-rdzv", o->name);
    bool host = is_on_host_network(j);
    const char *label = host ? NULL : pod_label(o);
    struct buf text = {.arena = &b->arena};
    struct store_spec s = {
        .kind = "StatefulSet",
        .name = name,
        .namespace = o->namespace,
        .instance = o->name,
        .image = b->options->image,
        .service_name = name,
        .space_idle_timeout = "30s",
        .advertise = arena_text(&b->arena, "%s:%d", name, C10D_PORT),
        .etcd_name = "etcd",
        .c10d_port = C10D_PORT,
        .etcd_port = ETCD_PORT,
    };

    if (strlen(name) > 52)
        bundle_error(b, o->node,
                     "%s is too long a name for a store named after it (%zu characters, 47 at "
                     "most): shorten it",
                     o->name, strlen(o->name));
    if (*o->name == '\0')
        bundle_error(b, o->node, "this job has no name: give it one (generateName will not do)");
    if (b->diag->errors > 0 || is_taken(b, o, name))
        return;
    store_print_all(&text, &s, label, o->name);
    put_in_front(b, o, text.text);
    bundle_note(b, o->node,
                "%s: its worker 0 was the store; now it is StatefulSet %s, behind a Service of "
                "that name at port %d",
                object_title(b, o), name, C10D_PORT);
    bundle_note(b, o->node,
                "the store is not deleted with the job; this is: kubectl delete "
                "statefulset,service,poddisruptionbudget,networkpolicy -l "
                "app.kubernetes.io/instance=%s,app.kubernetes.io/name=rdzvd%s%s",
                o->name, *o->namespace == '\0' ? "" : " -n ", o->namespace);
    if (label == NULL)
        bundle_note(b, o->node, "%s: no NetworkPolicy guards its store: %s", object_title(b, o),
                    host ? "none can admit pods on the host network alone"
                         : "the label of its pods is not known");
    if (job_is_static(j))
        bundle_note(b, o->node,
                    "%s named no backend, and ranks were those of --node_rank; c10d gives them in "
                    "the order of the pods' addresses",
                    object_title(b, o));
    job_move(b, j, NULL, name, job_hosted_port(b, j));
    job_note_known_faults(b, j, true, 0);
}

size_t move_self_hosted(struct bundle *b, bool look)
{
    size_t found = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct object *o = b->objects[i];
        struct rewrite_job j;

        if (!job_read(b, o, &j) || !job_is_self_hosted(b, &j) ||
            (j.policy == NULL && !job_uses_torchrun(&j)))
            continue;
        found++;
        if (look)
            bundle_note(b, o->node,
                        "%s: its worker 0 is the store, and stays it: without --keep-backend and "
                        "--from=etcd rdzvd takes its place",
                        object_title(b, o));
        else
            give_store(b, &j);
    }
    return found;
}

/* --- Without torchrun. --- */

static const struct yaml_node *replicas_of(const struct object *o)
{
    return strcmp(o->kind, "PyTorchJob") == 0 ? yaml_path(o->node, "spec.pytorchReplicaSpecs")
                                              : NULL;
}

/* The container that the training operator means. */
static struct yaml_node *main_container(const struct yaml_node *spec)
{
    const struct yaml_node *list = yaml_get(spec, "containers");

    for (size_t i = 0; list != NULL && list->kind == YAML_SEQUENCE && i < list->count; i++) {
        if (yaml_is(yaml_get(list->items[i], "name"), "pytorch"))
            return list->items[i];
    }
    return NULL;
}

/* The port at which the others look for rank 0. */
static unsigned master_port(const struct yaml_node *container)
{
    const struct yaml_node *ports = yaml_get(container, "ports");

    for (size_t i = 0; ports != NULL && ports->kind == YAML_SEQUENCE && i < ports->count; i++) {
        int64_t n;

        if (yaml_is(yaml_get(ports->items[i], "name"), "pytorchjob-port") &&
            yaml_to_int(yaml_get(ports->items[i], "containerPort"), &n) && n > 0 && n < 65536)
            return (unsigned)n;
    }
    return AGENT_STORE_PORT;
}

static void add_variables(struct bundle *b, struct object *o, struct yaml_node *container)
{
    static const char *const items[] = {"name: TORCHELASTIC_USE_AGENT_STORE\nvalue: \"True\"\n",
                                        "name: TORCHELASTIC_RESTART_COUNT\nvalue: \"0\"\n"};
    struct yaml_pair *env = yaml_get_pair(container, "env");

    if (env != NULL && env->value->kind != YAML_SEQUENCE) {
        bundle_error(b, env->value, "env is a list of variables: write it as one, or remove it");
        return;
    }
    for (size_t i = 0; env != NULL && i < 2; i++)
        edit_add_item(b, o->file, env->value, env->value->count == 0 ? 0 : env->value->count - 1,
                      items[i]);
    if (env == NULL)
        edit_add_pair(b, o->file, container, &container->pairs[container->count - 1],
                      "env:\n"
                      "- name: TORCHELASTIC_USE_AGENT_STORE\n"
                      "  value: \"True\"\n"
                      "- name: TORCHELASTIC_RESTART_COUNT\n"
                      "  value: \"0\"\n");
}

/* A second attempt would find the keys of the first. */
static void set_restart_policy(struct bundle *b, struct object *o, struct yaml_node *replica)
{
    struct yaml_pair *policy = yaml_get_pair(replica, "restartPolicy");

    if (policy != NULL && yaml_is(policy->value, "Never"))
        return;
    if (policy != NULL)
        edit_value(b, o->file, policy->value, "Never");
    else
        edit_add_pair_before(b, o->file, replica, &replica->pairs[0], "restartPolicy: Never\n");
    bundle_note(b, policy != NULL ? policy->value : replica,
                "%s: restartPolicy is Never: a second attempt would find the keys of the first",
                object_title(b, o));
}

/* Equal, as what a Guaranteed pod needs of every container. */
static bool is_guaranteed(const struct yaml_node *container)
{
    static const char *const names[] = {"cpu", "memory"};
    const struct yaml_node *limits = yaml_path(container, "resources.limits");
    const struct yaml_node *requests = yaml_path(container, "resources.requests");

    for (size_t i = 0; i < 2; i++) {
        const char *limit = yaml_text(yaml_get(limits, names[i]));
        const char *request = yaml_text(yaml_get(requests, names[i]));

        if (limit == NULL || (request != NULL && strcmp(request, limit) != 0))
            return false;
    }
    return true;
}

static void add_sidecar(struct bundle *b, struct object *o, struct yaml_node *spec, unsigned port)
{
    struct buf text = {.arena = &b->arena};
    struct yaml_pair *init = yaml_get_pair(spec, "initContainers");
    struct yaml_pair *volumes = yaml_get_pair(spec, "volumes");

    store_print_sidecar(&text, b->options->image, port, is_guaranteed(main_container(spec)));
    if (init != NULL && init->value->kind == YAML_SEQUENCE && init->value->count > 0)
        edit_add_item_before(b, o->file, init->value, 0, text.text);
    else if (init != NULL)
        bundle_error(b, init->value, "initContainers is empty: remove it");
    else
        edit_add_pair_before(
            b, o->file, spec, yaml_get_pair(spec, "containers"),
            arena_text(&b->arena, "initContainers:\n%s", edit_as_item(b, text.text)));
    if (volumes != NULL && volumes->value->kind == YAML_SEQUENCE && volumes->value->count > 0)
        edit_add_item(b, o->file, volumes->value, volumes->value->count - 1, store_sidecar_volume);
    else if (volumes != NULL)
        bundle_error(b, volumes->value, "volumes is empty: remove it");
    else
        edit_add_pair(b, o->file, spec, &spec->pairs[spec->count - 1],
                      arena_text(&b->arena, "volumes:\n%s", edit_as_item(b, store_sidecar_volume)));
}

static bool has_agent_store(const struct yaml_node *container)
{
    const struct yaml_node *env = yaml_get(container, "env");

    for (size_t i = 0; env != NULL && env->kind == YAML_SEQUENCE && i < env->count; i++) {
        if (yaml_is(yaml_get(env->items[i], "name"), "TORCHELASTIC_USE_AGENT_STORE"))
            return true;
    }
    return false;
}

static void give_agent_store(struct bundle *b, struct object *o, const struct yaml_node *replicas)
{
    struct yaml_node *master = yaml_path(yaml_get(replicas, "Master"), "template.spec");
    unsigned port = master_port(main_container(master));

    for (size_t i = 0; i < replicas->count; i++) {
        struct yaml_node *replica = replicas->pairs[i].value;
        struct yaml_node *spec = yaml_path(replica, "template.spec");
        struct yaml_node *container = main_container(spec);
        bool host = false;

        if (container == NULL) {
            bundle_error(b, replicas->pairs[i].key,
                         "there is no container named pytorch here, which the operator wants: "
                         "name one so");
            return;
        }
        if (yaml_to_bool(yaml_get(spec, "hostNetwork"), &host) && host) {
            bundle_error(b, spec,
                         "a store beside worker 0 on the host network may meet another "
                         "one there: take the job off it, or use torchrun");
            return;
        }
        set_restart_policy(b, o, replica);
        add_variables(b, o, container);
    }
    add_sidecar(b, o, master, port);
    bundle_note(b, o->node,
                "%s: rdzvd is a native sidecar of its Master, at port %u, where rank 0 would have "
                "listened (needs Kubernetes 1.29 and Training Operator 1.8)",
                object_title(b, o), port);
}

size_t move_to_agent_store(struct bundle *b, bool look)
{
    size_t found = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct object *o = b->objects[i];
        const struct yaml_node *replicas = replicas_of(o);
        struct rewrite_job j;

        if (replicas == NULL || replicas->kind != YAML_MAPPING || !job_read(b, o, &j) ||
            job_uses_torchrun(&j) || j.policy != NULL ||
            main_container(yaml_path(yaml_get(replicas, "Master"), "template.spec")) == NULL ||
            has_agent_store(
                main_container(yaml_path(yaml_get(replicas, "Master"), "template.spec"))))
            continue;
        found++;
        if (look)
            bundle_note(b, o->node,
                        "%s calls no torchrun that could be told of a store: "
                        "--wiring=agent-store puts rdzvd where its rank 0 would listen",
                        object_title(b, o));
        else
            give_agent_store(b, o, replicas);
    }
    return found;
}
