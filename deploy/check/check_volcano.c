/* Rules about Volcano Jobs: minima, policies, and variables of plugins. */
#include "deploy/check/check.h"

#include <string.h>

static struct check_position at_job(const struct kube_object *o)
{
    return check_at_first(o->node, "spec.minAvailable", "metadata.name");
}

/* --- Minima. --- */

void check_volcano_min_above(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *tasks = kube_get(o->spec, "tasks");
    long least = kube_int(o->spec, "minAvailable", 0), sum = 0;

    if (o->type != KUBE_VOLCANO_JOB)
        return;
    YAML_FOREACH(task, tasks) {
        long some = kube_replicas(task), own = kube_int(task, "minAvailable", 0);

        if (some >= 0 && own > some)
            check_report(c, check_at_first(task, "minAvailable"),
                         "minAvailable is %ld, but task %s has %ld pods", own,
                         kube_text(task, "name"), some);
        sum = some < 0 || sum < 0 ? -1 : sum + some;
    }
    if (sum >= 0 && yaml_length(tasks) > 0 && least > sum)
        check_report(c, check_at_first(o->spec, "minAvailable"),
                     "minAvailable is %ld, but all tasks together have %ld pods", least, sum);
}

static const struct job_run *elastic_run(const struct check *c, const struct kube_object *o)
{
    return FIND(r, JOB_FOREACH(r, job_runs_of(&c->jobs, o)), job_is_elastic(r));
}

void check_volcano_min_zero(struct check *c, const struct kube_object *o)
{
    if (o->type == KUBE_VOLCANO_JOB && kube_int(o->spec, "minAvailable", 1) == 0 &&
        elastic_run(c, o) == NULL)
        check_report(c, check_at_first(o->spec, "minAvailable"),
                     "Volcano replaces minAvailable: 0 by the sum of the tasks' minAvailable");
}

void check_volcano_min_success(struct check *c, const struct kube_object *o)
{
    const struct job_run *r;

    if (o->type != KUBE_VOLCANO_JOB || (r = elastic_run(c, o)) == NULL)
        return;
    if (kube_get(o->spec, "minSuccess") == NULL)
        check_report(c, at_job(o),
                     "no minSuccess: the job waits until all %ld pods have succeeded, though %ld "
                     "nodes can do the work",
                     r->container->pods->replicas, r->nodes_min);
    else if (kube_int(o->spec, "minSuccess", 0) > r->nodes_min)
        check_report(c, check_at_first(o->spec, "minSuccess"),
                     "minSuccess is %s, though %ld nodes can do the work",
                     kube_text(o->spec, "minSuccess"), r->nodes_min);
}

/* --- Gangs. --- */

/* What Volcano places together: as many pods as the job's minAvailable says and, unless that is
 * less than the sum of the tasks', of each task as many as its own (CheckTaskReady and IsReady of
 * the scheduler, and the defaults of the webhook). */
struct gang {
    long job;      /* minAvailable of the job; by default the sum of those of the tasks */
    long tasks;    /* that sum; the default of a task is all its pods */
    long trainers; /* the part of `tasks` that belongs to the run */
    long others;   /* pods of the other tasks */
    long by_job;   /* pods of the run in every gang, if only the minimum of the job counts */
    long least;    /* the same by all minima that count */
    bool by_tasks; /* the minima of the tasks count, too */
    bool written;  /* the job has a minAvailable */
    bool known;    /* every field is a number, and no task depends on another task */
};

static long minimum_of(const struct yaml_node *task)
{
    long parts = kube_int(task, "partitionPolicy.minPartitions", 0);

    if (kube_get(task, "minAvailable") != NULL)
        return kube_int(task, "minAvailable", -1);
    return parts > 0 ? parts * kube_int(task, "partitionPolicy.partitionSize", 0)
                     : kube_replicas(task);
}

/* Whether two runs of one job may be parts of one. */
static bool trains_with(const struct job_run *a, const struct job_run *b)
{
    const struct job_value *x = &a->settings[TORCHRUN_RDZV_ID].value;
    const struct job_value *y = &b->settings[TORCHRUN_RDZV_ID].value;

    if (a->nodes_min >= 0 && b->nodes_min >= 0 &&
        (a->nodes_min != b->nodes_min || a->nodes_max != b->nodes_max))
        return false;
    return !x->known || !y->known || strcmp(x->text, y->text) == 0;
}

static struct gang gang_of(const struct check *c, const struct job_run *r)
{
    const struct kube_object *o = job_run_object(r);
    struct gang g = {.job = kube_int(o->spec, "minAvailable", 0), .known = true};

    if (kube_get(o->spec, "minAvailable") != NULL)
        g.known = kube_int(o->spec, "minAvailable", -1) >= 0;
    KUBE_FOREACH_PODS_OF(p, &c->bundle, o) {
        long replicas = kube_replicas(p->part), least = minimum_of(p->part);
        bool trains = ANY(JOB_FOREACH(other, job_runs_in(&c->jobs, p)), trains_with(r, other));

        g.known = g.known && replicas >= 0 && least >= 0 && kube_get(p->part, "dependsOn") == NULL;
        g.tasks += least;
        *(trains ? &g.trainers : &g.others) += trains ? least : replicas;
    }
    g.written = g.job > 0;
    if (!g.written)
        g.job = g.tasks;
    g.by_tasks = g.job >= g.tasks;
    g.by_job = g.job > g.others ? g.job - g.others : 0;
    g.least = g.by_tasks && g.trainers > g.by_job ? g.trainers : g.by_job;
    return g;
}

static void look_at_range(struct check *c, const struct job_run *r, const struct gang *g)
{
    const struct kube_object *o = job_run_object(r);
    const struct yaml_node *part = r->container->pods->part;

    if (!job_is_elastic(r))
        return;
    if (g->by_job > r->nodes_min && !g->written)
        check_report(
            c, at_job(o),
            "%s of the job means %ld, the sum of the tasks, but the job wants %ld to %ld nodes",
            kube_get(o->spec, "minAvailable") == NULL ? "no minAvailable" : "minAvailable: 0",
            g->tasks, r->nodes_min, r->nodes_max);
    else if (g->by_job > r->nodes_min)
        check_report(c, at_job(o),
                     "the job waits for %ld pods, though %ld are enough for %ld nodes", g->job,
                     r->nodes_min + g->others, r->nodes_min);
    if (g->by_tasks && g->trainers > r->nodes_min)
        check_report(c, check_at_first(part, "minAvailable", "replicas", "name"),
                     "of task %s Volcano waits for %ld pods, though %ld nodes are enough",
                     r->container->pods->role, minimum_of(part), r->nodes_min);
}

/* Whether the job starts with fewer pods than torchrun waits for. */
static void look_at_small_gang(struct check *c, const struct job_run *r, const struct gang *g)
{
    const struct kube_object *o = job_run_object(r);
    const struct yaml_node *own = kube_get(r->container->pods->part, "minAvailable");

    if (r->nodes_min <= g->least)
        return;
    if (!g->by_tasks)
        check_report(
            c, check_at_first(o->spec, "minAvailable"),
            "minAvailable is less than the sum of the tasks (%ld), so Volcano ignores the tasks' "
            "own: of the pods with torchrun it places %ld together, and torchrun waits for %ld",
            g->tasks, g->least, r->nodes_min);
    else
        check_report(c, own != NULL ? check_at(own) : at_job(o),
                     "Volcano places %ld pods together, but torchrun waits for %ld", g->least,
                     r->nodes_min);
}

typedef void (*gang_function)(struct check *c, const struct job_run *r, const struct gang *g);

static void each_gang(struct check *c, const struct kube_object *o, gang_function look)
{
    const struct job_run *last = NULL;
    struct gang g = {0};

    JOB_FOREACH(r, job_runs_of(&c->jobs, o)) {
        if (r->nodes_min < 0 || o->type != KUBE_VOLCANO_JOB)
            continue;
        if (last == NULL || !trains_with(last, r))
            g = gang_of(c, r);
        last = r;
        if (g.known)
            look(c, r, &g);
    }
}

void check_volcano_minimum(struct check *c, const struct kube_object *o)
{
    each_gang(c, o, look_at_range);
}

void check_volcano_gang_too_small(struct check *c, const struct kube_object *o)
{
    each_gang(c, o, look_at_small_gang);
}

/* --- Policies. --- */

static bool names_event(const struct yaml_node *policy, const char *event)
{
    return kube_is(policy, "event", event) || yaml_contains(kube_get(policy, "events"), event);
}

/* rdzvd forgets a closed run once its last agent has gone, unless --elastic-fixes is off. */
static bool forgets_closed_runs(struct check *c, const struct job_run *r)
{
    const char *fixes;

    if (r->store == NULL || r->store->kind == JOB_STORE_ETCD || strcmp(r->backend, "c10d") != 0)
        return false;
    fixes = check_option(c, r->store, "elastic-fixes", NULL);
    return fixes == NULL || strcmp(fixes, "off") != 0;
}

/* A run that the next attempt of the job would find closed. */
static const struct job_run *stale_run(struct check *c, const struct kube_object *o)
{
    JOB_FOREACH(r, job_runs_of(&c->jobs, o)) {
        const struct job_value *id = &r->settings[TORCHRUN_RDZV_ID].value;

        if (forgets_closed_runs(c, r))
            continue;
        if (job_is_dynamic(r) && !check_owns_store(r) && job_is_set(r, TORCHRUN_RDZV_ID) &&
            !ANY(FOREACH_POINTER(const char, field, id->fields, id->field_count),
                 strstr(field, "job-version") != NULL) &&
            (id->known || id->field_count > 0))
            return r;
    }
    return NULL;
}

void check_volcano_restart_job_id(struct check *c, const struct yaml_node *policy)
{
    const struct job_run *r =
        kube_is(policy, "action", "RestartJob") ? stale_run(c, c->object) : NULL;

    if (r != NULL)
        check_report(c, check_at_first(policy, "action"),
                     "RestartJob starts a new attempt with the id of the old one, `%s`",
                     check_written(c, &r->settings[TORCHRUN_RDZV_ID]));
}

void check_volcano_evicted_loop(struct check *c, const struct yaml_node *policy)
{
    if (names_event(policy, "PodEvicted") && kube_is(policy, "action", "RestartTask"))
        check_report(c, check_at_first(policy, "action"),
                     "RestartTask on PodEvicted evicts pods, which triggers it again");
}

void check_volcano_pending_timeout(struct check *c, const struct yaml_node *policy)
{
    if (names_event(policy, "PodPending") && kube_get(policy, "timeout") != NULL &&
        text_is(kube_text(policy, "action"), "RestartPod", "RestartTask"))
        check_report(c, check_at_first(policy, "action"), "%s does nothing for a pending pod",
                     kube_text(policy, "action"));
}

void check_volcano_restart_pod(struct check *c, const struct yaml_node *policy)
{
    const struct check_target *t = &c->targets[CHECK_VOLCANO];

    if (!kube_is(policy, "action", "RestartPod"))
        return;
    if (check_is_before(c, CHECK_VOLCANO, 1, 11))
        check_report(c, check_at_first(policy, "action"), "there is no RestartPod in Volcano %d.%d",
                     t->major, t->minor);
    else if (check_is_before(c, CHECK_VOLCANO, 1, 16))
        check_report(c, check_at_first(policy, "action"),
                     "in Volcano %d.%d each RestartPod deletes the PodGroup and makes it again",
                     t->major, t->minor);
}

void check_volcano_max_retry(struct check *c, const struct yaml_node *policy)
{
    const struct yaml_node *spec = c->object->spec;
    long retries = kube_int(spec, "maxRetry", 0);

    if (text_is(kube_text(policy, "action"), "RestartPod", "RestartTask") && retries <= 3)
        check_report(c,
                     kube_get(spec, "maxRetry") != NULL ? check_at_first(spec, "maxRetry")
                                                        : check_at_first(policy, "action"),
                     "the job fails at restart number %ld, whichever pods restarted",
                     retries == 0 ? 3 : retries);
}

/* --- Plugins. --- */

/* The plugin that sets the variable, whose name begins with VC_, or NULL. */
static const char *plugin_of(const char *name)
{
    size_t len = strlen(name);

    if (strcmp(name, "VC_TASK_INDEX") == 0)
        return "env";
    return (len > 9 && text_ends_with(name, "_HOSTS")) || (len > 7 && text_ends_with(name, "_NUM"))
               ? "svc"
               : NULL;
}

static void look_for_plugins(struct check *c, const struct kube_container *container,
                             const struct yaml_node *text)
{
    const struct kube_object *o = container->pods->object;
    const struct yaml_node *plugins = kube_get(o->spec, "plugins");

    for (const char *p = strstr(text->text, "VC_"); p != NULL; p = strstr(p + 3, "VC_")) {
        size_t len = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        const char *name = arena_copy(&c->bundle.arena, p, len), *plugin = plugin_of(name);

        if (plugin != NULL && yaml_get(plugins, plugin) == NULL &&
            job_variable(&c->jobs, container, name) == NULL)
            check_report(c, (struct check_position){text, (size_t)(p - text->text)},
                         "%s comes from the plugin %s, which this job does not have", name, plugin);
    }
}

void check_volcano_plugin_missing(struct check *c, const struct kube_container *container)
{
    struct job_words words = job_words(&c->bundle.arena, container);

    FOREACH(const struct arg_word, word, words.list, words.count) {
        if (container->pods->object->type == KUBE_VOLCANO_JOB)
            look_for_plugins(c, container, word->node);
    }
}
