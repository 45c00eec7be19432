/* Moves options of torchrun, PET_* variables and elasticPolicies to c10d. */

#include "deploy/rewrite/rewrite_plan.h"

#include <string.h>

bool rewrite_next_job(const struct rewrite *w, size_t *at, struct rewrite_job *out)
{
    const struct job_view *v = &w->jobs;

    if (*at == v->all_count)
        return false;
    *out = (struct rewrite_job){.object = job_run_object(v->runs[*at]),
                                .runs = {.list = v->runs + *at}};
    for (; *at < v->all_count && job_run_object(v->runs[*at]) == out->object; ++*at)
        out->runs.count++;
    if (out->object->type == KUBE_PYTORCHJOB)
        out->policy = kube_get(out->object->spec, "elasticPolicy");
    if (out->policy != NULL && out->policy->kind != YAML_MAPPING)
        out->policy = NULL;
    return true;
}

/* *all: the number of each kind of pods is known. */
static long count_job_pods(const struct rewrite_job *j, bool *all)
{
    long count = 0;

    *all = j->runs.count > 0;
    for (size_t i = 0; i < j->runs.count; i++) {
        const struct kube_pods *p = j->runs.list[i]->container->pods;

        if (i > 0 && p == j->runs.list[i - 1]->container->pods)
            continue;
        *all = *all && p->replicas > 0;
        count += p->replicas > 0 ? p->replicas : 0;
    }
    return count;
}

/* --- Several runs in one job. --- */

/* The training pods that serve the store of the run, or NULL. */
static const struct kube_pods *host_of(const struct job_run *r)
{
    if (!r->hosted)
        return NULL;
    return r->target.pods != NULL ? r->target.pods : r->local ? r->container->pods : NULL;
}

static bool have_two_hosts(const struct job_run *a, const struct job_run *b)
{
    return host_of(a) != NULL && host_of(b) != NULL && host_of(a) != host_of(b);
}

static bool have_one_id(const struct job_run *a, const struct job_run *b)
{
    const struct job_value *id = &a->settings[TORCHRUN_RDZV_ID].value;

    /* Some fields tell the pods of one part of a job from those of another one. */
    return strcmp(id->text, job_text(b, TORCHRUN_RDZV_ID)) == 0 &&
           (a->container->pods == b->container->pods ||
            !ANY(FOREACH_POINTER(const char, field, id->fields, id->field_count),
                 text_has(field, "replicatedjob-name", "job-key", "job-name", "task-spec") &&
                     strstr(field, "jobset-name") == NULL));
}

const struct job_run *rewrite_job_merged(const struct rewrite_job *j, const struct job_run **with)
{
    for (size_t i = 1; i < j->runs.count; i++) {
        for (size_t k = 0; k < i; k++) {
            *with = j->runs.list[k];
            if (have_two_hosts(*with, j->runs.list[i]) && have_one_id(*with, j->runs.list[i]))
                return j->runs.list[i];
        }
    }
    return NULL;
}

/* The number of pods in all runs that share the store and the id of `r`. */
static long count_pods_with(const struct rewrite_job *j, const struct job_run *r)
{
    const struct kube_pods *last = NULL;
    long count = 0;

    JOB_FOREACH(other, j->runs) {
        const struct kube_pods *p = other->container->pods;

        if (p == last || have_two_hosts(r, other) || !have_one_id(r, other))
            continue;
        last = p;
        count += p->replicas;
    }
    return count;
}

long rewrite_job_pods(const struct rewrite_job *j)
{
    bool all;
    long count = count_job_pods(j, &all), each;

    if (!all)
        return 0;
    each = count_pods_with(j, j->runs.list[0]);
    return each != count && ANY(JOB_FOREACH(r, j->runs), count_pods_with(j, r) != each) ? 0 : each;
}

long rewrite_job_nodes(const struct rewrite_job *j)
{
    bool all;
    long most = 1, pods = count_job_pods(j, &all);

    JOB_FOREACH(r, j->runs) {
        if (r->nodes_max > most)
            most = r->nodes_max;
    }
    return pods > most ? pods : most;
}

/* A static job whose rank 0 is a pod of its own: the words name it, or the controller does. */
static bool is_static_at_own_pod(const struct rewrite_job *j, const struct job_run *r)
{
    if (r->args == NULL || r->args->is_other || strcmp(r->backend, "static") != 0 ||
        !job_is_multi_node(r))
        return false;
    if (j->object->type == KUBE_PYTORCHJOB)
        return j->policy == NULL && kube_get(j->object->spec, "pytorchReplicaSpecs.Worker") != NULL;
    return j->object->type == KUBE_TRAINJOB || job_is_set(r, TORCHRUN_MASTER_ADDR);
}

bool rewrite_is_self_hosted(const struct rewrite_job *j)
{
    /* A training pod serves the endpoint, or all pods look for rank 0 at one of them. */
    return j->object->type != KUBE_CONFIG_MAP &&
           ANY(JOB_FOREACH(r, j->runs),
               r->hosted && (job_is_set(r, TORCHRUN_RDZV_ENDPOINT) || is_static_at_own_pod(j, r)));
}

/* --- Restarts. --- */

enum rewrite_restarts rewrite_restarts_of(const struct rewrite *w, const struct job_run *r)
{
    if (rewrite_restarts_in_place(w) || job_is_set(r, TORCHRUN_MAX_RESTARTS) ||
        !job_is_multi_node(r))
        return RESTARTS_KEPT;
    if (job_run_object(r)->type == KUBE_CONFIG_MAP)
        return RESTARTS_OF_UNKNOWN_PODS;
    if (kube_restart_of(r->container->pods) != KUBE_RESTART_ALONE)
        return RESTARTS_KEPT;
    return r->args == NULL || r->args->opaque || r->args->is_other ? RESTARTS_OUT_OF_SIGHT
                                                                   : RESTARTS_ADDED;
}

/* --- Runs. --- */

/* HOST:29400. The part before the port stays as it is written, if possible. */
static void set_port(struct rewrite *w, const struct job_run *r, const struct job_setting *s)
{
    const char *text = s->written.text, *colon = strrchr(text, ':');
    const char *port = arena_text(&w->arena, "%d", C10D_PORT);
    size_t from = colon == NULL ? 0 : (size_t)(colon + 1 - text), len = strlen(text);

    if (colon != NULL && strcmp(colon + 1, port) == 0)
        return;
    if (colon != NULL && len > from && strspn(colon + 1, "0123456789") == len - from &&
        setting_write_part(w, s, from, len, port))
        return;
    setting_write(w, r, s, arena_text(&w->arena, "%s:%s", r->host, port));
}

static bool is_editable(const struct job_setting *s)
{
    return s->from != JOB_FROM_NOWHERE && s->from != JOB_FROM_OPERATOR && s->written.text != NULL;
}

static bool is_host(const char *endpoint, const char *host)
{
    size_t len = strlen(host);

    return strncmp(endpoint, host, len) == 0 && (endpoint[len] == ':' || endpoint[len] == '\0');
}

/* Changes the endpoint wherever it is set, but not another one that it overrides. */
static void move_endpoint(struct rewrite *w, const struct job_run *r, const char *host)
{
    const struct job_setting *first = &r->settings[TORCHRUN_RDZV_ENDPOINT];

    for (const struct job_setting *s = first; s != NULL; s = s->weaker) {
        if (!is_editable(s) || (s != first && !is_host(s->value.text, r->host)))
            continue;
        if (host == NULL)
            set_port(w, r, s);
        else
            setting_write(w, r, s, arena_text(&w->arena, "%s:%d", host, C10D_PORT));
    }
}

static bool is_other_backend(const char *name)
{
    return text_is(name, "etcd", "etcd-v2", "static");
}

/* Removes the probes of the old store, at its port or at the name of that: they would fail. */
static void remove_probes(struct rewrite *w, const struct job_run *r, const char *port,
                          const char *name)
{
    const struct yaml_node *container = r->container->node;

    FOREACH_WORD(key, "startupProbe", "livenessProbe", "readinessProbe") {
        const struct yaml_pair *pair = yaml_get_pair(container, key);
        const char *at = pair == NULL ? "" : kube_text(pair->value, "tcpSocket.port");

        if (*at == '\0' || (strcmp(at, port) != 0 && strcmp(at, name) != 0))
            continue;
        rewrite_note(w, pair->key,
                     "%s: nothing listens on %s in its pods any more: rewrite "
                     "removes the %s",
                     job_run_object(r)->title, port, key);
        edit_remove_pair(w, container, pair);
    }
}

/* Removes a container port of the old store: on the host network it would block a second pod. */
static void remove_port(struct rewrite *w, const struct job_run *r, long port)
{
    const struct yaml_pair *pair = yaml_get_pair(r->container->node, "ports");
    const char *name = "";

    for (size_t i = 0; pair != NULL && i < yaml_length(pair->value); i++) {
        const struct yaml_node *item = pair->value->items[i];

        if (kube_int(item, "containerPort", -1) != port)
            continue;
        name = kube_text(item, "name");
        if (strcmp(name, "pytorchjob-port") == 0)
            continue;
        rewrite_note(w, item,
                     "%s: nothing listens on %ld in its pods any more: rewrite removes the port",
                     job_run_object(r)->title, port);
        if (pair->value->count == 1)
            edit_remove_pair(w, r->container->node, pair);
        else
            edit_remove_item(w, pair->value, i);
        break;
    }
    remove_probes(w, r, arena_text(&w->arena, "%ld", port), name);
}

/* `accelerate launch` joins two options of its own to the endpoint, and passes a conf on even if
 * it has none: what PET_* variables say of both is lost. */
static void move_accelerate(struct rewrite *w, const struct job_run *r, const char *host)
{
    const struct job_setting *address = &r->settings[TORCHRUN_MASTER_ADDR];
    const struct job_setting *port = &r->settings[TORCHRUN_MASTER_PORT];

    struct yaml_node *env = yaml_new(&w->arena, YAML_SEQUENCE);

    if (!r->args->is_accelerate || host == NULL || strcmp(address->value.text, r->host) != 0)
        return;
    if (address->flag == NULL || port->flag == NULL) {
        rewrite_error(
            w, r->container->node,
            "%s: accelerate launch needs --main_process_ip and --main_process_port: write both",
            job_run_object(r)->title);
        return;
    }
    if (w->options->relay)
        rewrite_error(w, address->written.node,
                      "%s: accelerate launch refuses a port that something at its localhost uses, "
                      "so its pods can have no relays: leave out --rdzv=relay",
                      job_run_object(r)->title);
    setting_write(w, r, address, host);
    setting_write(w, r, port, arena_text(&w->arena, "%d", C10D_PORT));
    if (r->settings[TORCHRUN_RDZV_CONF].flag == NULL)
        setting_add(w, r, port, TORCHRUN_RDZV_CONF, conf_of_c10d(w));
    YAML_PUT_TEXTS(&w->arena, yaml_put_new(&w->arena, env, NULL, YAML_MAPPING),
                   {"name", torchrun_variables[TORCHRUN_RDZV_ID]},
                   {"value", job_run_object(r)->name});
    rewrite_add_variables(w, r->container, r, env); /* of torchrun's own: it has no such option */
}

void rewrite_move_run(struct rewrite *w, const struct rewrite_job *j, const struct job_run *r,
                      const char *host, long old_port)
{
    const struct job_setting *endpoint = &r->settings[TORCHRUN_RDZV_ENDPOINT];
    const struct job_setting *backend = &r->settings[TORCHRUN_RDZV_BACKEND];
    const struct job_setting *conf = &r->settings[TORCHRUN_RDZV_CONF];
    const struct job_setting *id = &r->settings[TORCHRUN_RDZV_ID];

    for (const struct job_setting *s = backend; s != NULL; s = s->weaker) {
        if (is_editable(s) && is_other_backend(s->value.text))
            setting_write(w, r, s, "c10d");
    }
    for (const struct job_setting *s = conf; s != NULL; s = s->weaker) {
        if (is_editable(s))
            conf_move(w, r, s);
    }
    move_endpoint(w, r, host);
    if (is_editable(id) && id->value.known && *id->value.text == '\0')
        setting_write(w, r, id, j->object->name); /* torchrun would make a random one */
    if (is_editable(endpoint) && !rewrite_obeys_policy(j, r)) {
        if (backend->from == JOB_FROM_NOWHERE ||
            (backend->from == JOB_FROM_OPERATOR && is_other_backend(backend->value.text)))
            setting_add(w, r, endpoint, TORCHRUN_RDZV_BACKEND, "c10d");
        if (conf->from == JOB_FROM_NOWHERE || conf->from == JOB_FROM_OPERATOR)
            setting_add(w, r, endpoint, TORCHRUN_RDZV_CONF, conf_of_c10d(w));
        if (!job_is_set(r, TORCHRUN_RDZV_ID) && *j->object->name != '\0')
            setting_add(w, r, endpoint, TORCHRUN_RDZV_ID, j->object->name);
        if (rewrite_restarts_of(w, r) == RESTARTS_ADDED)
            setting_add(w, r, endpoint, TORCHRUN_MAX_RESTARTS, JOB_USUAL_RESTARTS);
    }
    if (r->args != NULL)
        move_accelerate(w, r, host);
    if (old_port > 0)
        remove_port(w, r, old_port);
}

/* --- elasticPolicy. --- */

bool rewrite_obeys_policy(const struct rewrite_job *j, const struct job_run *r)
{
    const struct job_setting *s = &r->settings[TORCHRUN_RDZV_ENDPOINT];

    while (s != NULL && s->from != JOB_FROM_OPERATOR)
        s = s->weaker;
    return s != NULL && j->policy != NULL && is_host(s->value.text, r->host);
}

static void set_key(struct rewrite *w, const struct yaml_node *policy, const char *key,
                    const char *value, struct buf *missing)
{
    const struct yaml_node *old = yaml_get(policy, key);

    if (old == NULL) {
        bool number = value[strspn(value, "0123456789")] == '\0';

        buf_print(missing, "%s: %s\n", key, number ? value : scalar_text(&w->arena, value));
    } else if (!yaml_is(old, value)) {
        edit_value(w, old, value);
    }
}

void rewrite_move_policy(struct rewrite *w, const struct rewrite_job *j, const char *host)
{
    struct buf missing = {.arena = &w->arena};
    const struct yaml_pair *after = NULL;
    const char *old = kube_text(j->policy, "rdzvBackend");
    bool before;

    if (job_policy_stranger(j->policy) != NULL)
        rewrite_error(w, job_policy_stranger(j->policy)->key,
                      "%s: elasticPolicy has no field %s: remove it", j->object->title,
                      job_policy_stranger(j->policy)->key->text);
    set_key(w, j->policy, "rdzvBackend", "c10d", &missing);
    if (host != NULL)
        set_key(w, j->policy, "rdzvHost", host, &missing);
    set_key(w, j->policy, "rdzvPort", arena_text(&w->arena, "%d", C10D_PORT), &missing);
    if (kube_get(j->policy, "rdzvId") == NULL) {
        set_key(w, j->policy, "rdzvId", j->object->name, &missing);
        rewrite_note(w, j->policy,
                     "%s had no rdzvId, and shared the default id with other jobs: rewrite sets "
                     "the id to the name of the job",
                     j->object->title);
    }
    conf_move_policy(w, j->policy, old, &missing);
    if (ANY(JOB_FOREACH(r, j->runs),
            rewrite_obeys_policy(j, r) && rewrite_restarts_of(w, r) == RESTARTS_ADDED))
        set_key(w, j->policy, "maxRestarts", JOB_USUAL_RESTARTS, &missing);
    FOREACH_WORD(key, "rdzvConf", "rdzvId", "rdzvPort", "rdzvHost", "rdzvBackend")
        after = after != NULL ? after : yaml_get_pair(j->policy, key);
    before = after == NULL && j->policy->count > 0;
    if (missing.len > 0)
        edit_add_pair(w, j->policy, before ? &j->policy->pairs[0] : after, before, missing.text);
}

/* --- Variables. --- */

/* A flag of torchrun needs no variable. */
static bool is_said(const struct job_run *r, const char *name)
{
    enum torchrun_option option = torchrun_option_of_variable(name);

    return r != NULL && option != TORCHRUN_UNKNOWN && r->settings[option].from != JOB_FROM_NOWHERE;
}

/* The job has an id, and this variable is nothing but a part of the one that emit would write. */
static bool is_variable_of_id(const struct job_run *r, const struct yaml_node *env,
                              const char *name)
{
    const char *id = torchrun_variables[TORCHRUN_RDZV_ID];
    const char *value = kube_text(kube_item(env, "name", id), "value"), *part = strstr(value, name);

    return is_said(r, id) && part != NULL && part > value && part[-1] == '(' &&
           part[strlen(name)] == ')';
}

void rewrite_add_variables(struct rewrite *w, const struct kube_container *c,
                           const struct job_run *r, const struct yaml_node *env)
{
    /* A TrainJob has variables of its own; its runtime is that of others, too. */
    const struct yaml_node *owner = c->over != NULL ? c->over : c->node;
    const struct yaml_pair *old = yaml_get_pair(owner, "env");
    struct yaml_node *block = yaml_new(&w->arena, YAML_MAPPING);
    struct yaml_node *added = yaml_put_new(&w->arena, block, "env", YAML_SEQUENCE);

    if (old != NULL && old->value->kind != YAML_SEQUENCE) {
        rewrite_error(w, old->value, "env is a list of variables: write it as one, or remove it");
        return;
    }
    YAML_FOREACH(entry, env) {
        const char *name = kube_text(entry, "name");

        if (!is_said(r, name) && !is_variable_of_id(r, env, name) &&
            kube_item(kube_get(c->node, "env"), "name", name) == NULL &&
            kube_item(kube_get(c->over, "env"), "name", name) == NULL)
            yaml_append(&w->arena, added, entry);
    }
    for (size_t i = 0; old != NULL && i < added->count; i++)
        edit_append_item(w, old->value, rewrite_text(w, added->items[i]));
    if (old == NULL && added->count > 0)
        edit_add_pair(w, owner, &owner->pairs[owner->count - 1], false, rewrite_text(w, block));
}

/* --- Pods. --- */

void rewrite_add_to_pod(struct rewrite *w, const struct kube_pods *p, const char *key, bool before,
                        struct yaml_node *item)
{
    const struct yaml_pair *pair = yaml_get_pair(p->spec, key);
    struct yaml_node *block = yaml_new(&w->arena, YAML_MAPPING);
    const struct yaml_pair *beside =
        before ? yaml_get_pair(p->spec, "containers") : &p->spec->pairs[p->spec->count - 1];

    if (pair != NULL && yaml_length(pair->value) > 0) {
        edit_add_item(w, pair->value, before ? 0 : pair->value->count - 1, before,
                      rewrite_text(w, item));
        return;
    }
    if (pair != NULL) {
        rewrite_error(w, pair->value, "%s is empty: remove it", key);
        return;
    }
    yaml_append(&w->arena, yaml_put_new(&w->arena, block, key, YAML_SEQUENCE), item);
    edit_add_pair(w, p->spec, beside, before, rewrite_text(w, block));
}
