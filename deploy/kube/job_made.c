/* The variables that controllers set in containers: see deploy/data/variables.yaml for which, and
 * job_view.h for the contract. */
#include "deploy/kube/job_parts.h"

#include <string.h>

#define MASTER "pytorchReplicaSpecs.Master"

/* --- Whether a container gets it. --- */

static bool is_indexed(const struct kube_container *c)
{
    const struct kube_object *o = c->pods->object;
    const char *mode = kube_text(
        o->type == KUBE_JOB ? o->spec : kube_get(c->pods->part, "template.spec"), "completionMode");

    return strcmp(mode, "Indexed") == 0 || (o->type != KUBE_JOB && *mode == '\0');
}

static bool gets(const struct made_row *row, const struct kube_container *c)
{
    const struct kube_object *o = c->pods->object;
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");

    if (c->init && !row->in_init)
        return false;
    switch (row->when) {
    case MADE_WITH_MASTER:
        return kube_get(o->spec, MASTER) != NULL;
    case MADE_WITH_POLICY:
        return policy != NULL && (row->key == NULL || kube_get(policy, row->key) != NULL);
    case MADE_WITH_PLUGIN:
        return kube_has_plugin(o, row->key);
    case MADE_WHEN_INDEXED:
        return is_indexed(c);
    case MADE_IN_TRAINER:
        return strcmp(c->name, "node") == 0;
    case MADE_ALWAYS:
        break;
    }
    return row->key == NULL || kube_get(o->spec, row->key) != NULL;
}

static const struct made_row *find_row(const struct kube_container *c, const char *name)
{
    return FIND(row, FOREACH(const struct made_row, row, made_rows, made_row_count),
                (row->types >> c->pods->object->type & 1) != 0 &&
                    text_is_one_of(name, row->names) && gets(row, c));
}

/* --- What it is. --- */

static const char *number(struct arena *a, long value)
{
    return value < 0 ? NULL : arena_text(a, "%ld", value);
}

/* min:max, or the number of all pods. */
static const char *nodes_of_pytorchjob(struct arena *a, const struct kube_bundle *b,
                                       const struct kube_object *o)
{
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
    const char *low = kube_get(policy, "minReplicas") == NULL ? "maxReplicas" : "minReplicas";
    const char *high = kube_get(policy, "maxReplicas") == NULL ? "minReplicas" : "maxReplicas";
    bool none = kube_get(policy, low) == NULL;
    const struct yaml_node *worker = kube_get(o->spec, "pytorchReplicaSpecs.Worker");
    long workers = worker == NULL ? 0 : kube_replicas(worker);
    long from = none ? workers : kube_int(policy, low, -1);
    long to = none ? workers : kube_int(policy, high, -1);

    if (policy == NULL)
        return number(a, kube_count_pods(b, o));
    return from < 0 || to < 0 ? NULL : arena_text(a, "%ld:%ld", from, to);
}

static const char *value_in_pytorchjob(struct arena *a, const struct kube_bundle *b,
                                       const struct kube_object *o, const char *name)
{
    const struct yaml_node *master = kube_get(o->spec, MASTER);
    long all = kube_count_pods(b, o), each = kube_int(o->spec, "nprocPerNode", 1);

    if (strcmp(name, "PYTHONUNBUFFERED") == 0)
        return "1";
    if (strcmp(name, "PET_NNODES") == 0)
        return nodes_of_pytorchjob(a, b, o);
    if (strcmp(name, "WORLD_SIZE") == 0)
        return number(a, all < 0 ? -1 : all * each);
    if (strcmp(name, "PET_NPROC_PER_NODE") == 0)
        return kube_text(o->spec, "nprocPerNode");
    if (text_is(name, "MASTER_ADDR", "PET_MASTER_ADDR"))
        return arena_text(a, "%s-master-0", o->name);
    if (text_is(name, "MASTER_PORT", "PET_MASTER_PORT")) {
        const struct yaml_node *c =
            kube_item(kube_get(master, "template.spec.containers"), "name", "pytorch");
        const char *port =
            kube_text(kube_item(kube_get(c, "ports"), "name", "pytorchjob-port"), "containerPort");

        return *port == '\0' ? "23456" : port;
    }
    return NULL;
}

/* The value of --NAME=VALUE among the arguments of the plugin pytorch, or `otherwise`. */
static const char *plugin_argument(const struct kube_object *o, const char *name,
                                   const char *otherwise)
{
    YAML_FOREACH(item, kube_get(o->spec, "plugins.pytorch")) {
        const char *text = yaml_text(item);
        size_t len = strlen(name);

        if (text == NULL)
            continue;
        text += strspn(text, "-");
        if (strncmp(text, name, len) == 0 && text[len] == '=')
            return text + len + 1;
    }
    return otherwise;
}

static const char *value_in_volcano(struct arena *a, const struct kube_bundle *b,
                                    const struct kube_object *o, const char *name)
{
    const char *master = plugin_argument(o, "master", "master");
    const char *worker = plugin_argument(o, "worker", "worker");
    long sum = 0;

    if (strcmp(name, "MASTER_ADDR") == 0)
        return arena_text(a, "%s-%s-0.%s", o->name, master, o->name);
    if (strcmp(name, "MASTER_PORT") == 0)
        return plugin_argument(o, "port", "23456");
    if (strcmp(name, "WORLD_SIZE") != 0)
        return NULL;
    KUBE_FOREACH_PODS_OF(p, b, o) {
        if (sum >= 0 && (strcmp(p->role, master) == 0 || strcmp(p->role, worker) == 0))
            sum = p->replicas < 0 ? -1 : sum + p->replicas;
    }
    return number(a, sum);
}

static const char *made_value(struct arena *a, const struct kube_bundle *b,
                              const struct made_row *row, const struct kube_container *c,
                              const char *name)
{
    const struct kube_object *o = c->pods->object;

    if (o->type == KUBE_PYTORCHJOB)
        return row->when == MADE_WITH_POLICY ? NULL : value_in_pytorchjob(a, b, o, name);
    if (o->type == KUBE_VOLCANO_JOB)
        return value_in_volcano(a, b, o, name);
    if (row->when == MADE_IN_TRAINER && strcmp(name, "PET_NNODES") == 0)
        return o->type == KUBE_TRAINJOB ? number(a, c->pods->replicas) : NULL;
    if (row->when == MADE_IN_TRAINER && strcmp(name, "PET_MASTER_PORT") == 0)
        return "29500";
    if (strcmp(name, "PET_MASTER_ADDR") == 0 && o->type == KUBE_TRAINJOB)
        return arena_text(a, "%s-node-0-0.%s", o->name, o->name);
    if (strcmp(name, "LWS_GROUP_SIZE") == 0)
        return kube_text(o->spec, "leaderWorkerTemplate.size");
    return NULL;
}

/* --- Asking. --- */

static const struct job_variable *made(struct job_view *v, const char *name, const char *value)
{
    struct job_variable *variable = arena_alloc(&v->bundle->arena, sizeof *variable);

    *variable = (struct job_variable){.name = name, .is_made = true, .made = value};
    return variable;
}

/* VC_<TASK>_NUM and VC_<TASK>_HOSTS of the svc plugin. */
static const struct job_variable *
find_task_variable(struct job_view *v, const struct kube_container *c, const char *name)
{
    struct arena *a = &v->bundle->arena;
    const struct kube_object *o = c->pods->object;

    if (o->type != KUBE_VOLCANO_JOB || strncmp(name, "VC_", 3) != 0 || !kube_has_plugin(o, "svc"))
        return NULL;
    KUBE_FOREACH_PODS_OF(p, v->bundle, o) {
        char *task = arena_copy(a, p->role, strlen(p->role));
        bool count;

        for (char *at = task; *at != '\0'; at++)
            *at = (char)(*at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
        count = strcmp(name, arena_text(a, "VC_%s_NUM", task)) == 0;
        if (count || strcmp(name, arena_text(a, "VC_%s_HOSTS", task)) == 0)
            return made(v, name, count ? number(a, p->replicas) : NULL);
    }
    return NULL;
}

const struct job_variable *job_made_variable(struct job_view *v, const struct kube_container *c,
                                             const char *name)
{
    const struct made_row *row = find_row(c, name);

    return row == NULL ? find_task_variable(v, c, name)
                       : made(v, name, made_value(&v->bundle->arena, v->bundle, row, c, name));
}

const char *job_made_by(const struct kube_container *c, const char *name)
{
    const struct made_row *row = find_row(c, name);

    return row == NULL                     ? NULL
           : row->when == MADE_WITH_POLICY ? "elasticPolicy"
           : row->when == MADE_WITH_PLUGIN ? row->key
                                           : "the operator";
}
